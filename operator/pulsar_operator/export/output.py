"""Output of the command: manifests, progress, a summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TextIO

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.export import Entry, Source, render, sentence

MAX_LISTED = 20
"""Maximum number of lines on standard error about objects that were not exported. The output lists all of them."""
KINDS = (Kind.RESOURCE_GROUP, Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.TOPIC_SET, Kind.ISOLATION_POLICY)
"""Kinds in the order of the output: a namespace waits for its group."""
PROGRESS_SECONDS = 10.0
"""Seconds between two lines of progress if there is no terminal."""


@dataclass(frozen=True)
class Exported:
    """The result: entries by the name of their file, in order."""

    source: Source
    files: Mapping[str, Sequence[Entry]]

    @property
    def entries(self) -> list[Entry]:
        """Returns all entries, by kind."""
        found = [entry for entries in self.files.values() for entry in entries]
        return [entry for kind in KINDS for entry in found if entry.kind is kind]

    @property
    def failed(self) -> bool:
        """Whether anything could not be read."""
        return any(note.failed for entry in self.entries for note in entry.notes)


class Progress:
    """Prints counts on standard error: in place on a terminal, otherwise a line from time to time."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._out = out
        self._clock = clock
        self._shown = clock()
        self._counts: dict[str, tuple[int, int]] = {}

    def total(self, what: str, number: int) -> None:
        """Sets the number of objects to read."""
        self._counts[what] = (0, number)
        self._show(always=False)

    def done(self, what: str) -> None:
        """Counts one object as read."""
        count, number = self._counts[what]
        self._counts[what] = (count + 1, number)
        self._show(always=count + 1 == number or self._clock() - self._shown >= PROGRESS_SECONDS)

    def _show(self, *, always: bool) -> None:
        line = ", ".join(f"{what} {count}/{number}" for what, (count, number) in self._counts.items())
        if self._out.isatty():
            print(f"\r{line}", end="", file=self._out, flush=True)
        elif always:
            self._shown = self._clock()
            print(line, file=self._out, flush=True)

    def end(self) -> None:
        """Ends the line of counts."""
        if self._out.isatty():
            print(file=self._out)


def write(exported: Exported, output: str, out: TextIO) -> list[str]:
    """Writes to a file, to standard output ("-") or to a directory. Returns the files of an earlier export in the
    directory."""
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
    """Writes the file atomically."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def summarise(exported: Exported, err: TextIO, command: str) -> None:
    """Prints on standard error what was exported and what was not. ``command`` is the command that repeats the
    export."""
    rows = [(kind.value, *_counts(exported, kind)) for kind in KINDS]
    specs = [entry.manifest["spec"] for entry in exported.entries if entry.manifest is not None]
    sets = [spec for spec in specs if "template" in spec]
    specs += [spec["template"] for spec in sets]
    inside = {
        "with policies": sum(1 for spec in specs if spec.get("policies")),
        "subscriptions": sum(len(spec.get("subscriptions") or ()) for spec in specs),
        "schemas": sum(1 for spec in specs if spec.get("schema")),
        "topics in sets": sum(len(spec["names"]) for spec in sets),
    }
    print(f"{'':<22}{'exported':>10}{'left out':>10}{'not read':>10}", file=err)
    for name, written, left, lost in rows:
        print(f"{name:<22}{written:>10}{left:>10}{lost:>10}", file=err)
    for name, number in inside.items():
        print(f"  {name:<20}{number:>10}", file=err)
    notes = [note for entry in exported.entries for note in entry.notes]
    for failed, words in ((True, "could not be read"), (False, "cannot be expressed")):
        these = [note for note in notes if note.failed is failed]
        if these:
            print(f"{len(these)} items {words}. Each is listed in a comment of the output:", file=err)
        for note in these[:MAX_LISTED]:
            print(f"  {sentence(note)}", file=err)
        if len(these) > MAX_LISTED:
            print(f"  and {len(these) - MAX_LISTED} more", file=err)
    if exported.failed:
        print(
            "The output does not contain what could not be read. When Pulsar answers these requests, run the export "
            f"again: {command}",
            file=err,
        )


def _counts(exported: Exported, kind: Kind) -> tuple[int, int, int]:
    """Returns the number of objects of a kind that were written, have no manifest, and could not be read."""
    entries = [entry for entry in exported.entries if entry.kind is kind]
    written = [entry for entry in entries if entry.manifest is not None]
    lost = [entry for entry in entries if entry.manifest is None and any(note.failed for note in entry.notes)]
    return len(written), len(entries) - len(written) - len(lost), len(lost)
