"""What the command writes: manifests, progress, a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.export import Entry, Source, render, sentence

TOLD = 20
"""Lines on standard error about what was not exported; the output has them all."""


@dataclass(frozen=True)
class Exported:
    """What came out: entries by the name of their file, in order."""

    source: Source
    files: Mapping[str, Sequence[Entry]]

    @property
    def entries(self) -> list[Entry]:
        """All entries: tenants, namespaces, topics."""
        found = [entry for entries in self.files.values() for entry in entries]
        return [entry for kind in (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC) for entry in found if entry.kind is kind]

    @property
    def failed(self) -> bool:
        """Whether anything could not be read."""
        return any(note.failed for entry in self.entries for note in entry.notes)


class Progress:
    """Counts on standard error: in place on a terminal, else a line now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._counts: dict[str, tuple[int, int]] = {}

    def total(self, what: str, number: int) -> None:
        """So many are to be read."""
        self._counts[what] = (0, number)
        self._show(always=False)

    def done(self, what: str) -> None:
        """One more was read."""
        count, number = self._counts[what]
        self._counts[what] = (count + 1, number)
        self._show(always=count + 1 == number or (count + 1) % 1000 == 0)

    def _show(self, *, always: bool) -> None:
        line = ", ".join(f"{what} {count}/{number}" for what, (count, number) in self._counts.items())
        if self._out.isatty():
            print(f"\r{line}", end="", file=self._out, flush=True)
        elif always:
            print(line, file=self._out, flush=True)

    def end(self) -> None:
        """Nothing more is counted."""
        if self._out.isatty():
            print(file=self._out)


def write(exported: Exported, output: str, out: TextIO) -> list[str]:
    """Write to a file, to standard output ("-") or to a directory; returns the files of an earlier export in it."""
    if output == "-":
        out.write(render(exported.source, exported.entries))
        return []
    target = Path(output)
    if not (output.endswith("/") or target.is_dir()):
        _replace(target, render(exported.source, exported.entries))
        return []
    target.mkdir(parents=True, exist_ok=True)
    for name, entries in exported.files.items():
        _replace(target / f"{name}.yaml", render(exported.source, entries))
    return sorted(path.name for path in target.glob("*.yaml") if path.stem not in exported.files)


def _replace(path: Path, text: str) -> None:
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def summarise(exported: Exported, err: TextIO) -> None:
    """What was and was not exported, on standard error."""
    written = [entry.kind for entry in exported.entries if entry.manifest is not None]
    counts = ", ".join(f"{written.count(k)} {k.value}" for k in (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC))
    print(f"exported {counts}", file=err)
    notes = [note for entry in exported.entries for note in entry.notes]
    for failed, words in ((True, "could not be read"), (False, "have no place in the manifests")):
        these = [note for note in notes if note.failed is failed]
        if these:
            print(f"{len(these)} things {words}, each is a comment in the output:", file=err)
        for note in these[:TOLD]:
            print(f"  {sentence(note)}", file=err)
        if len(these) > TOLD:
            print(f"  and {len(these) - TOLD} more", file=err)
