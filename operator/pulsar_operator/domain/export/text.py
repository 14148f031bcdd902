"""Exported objects as YAML. The text only changes if Pulsar changes, so that two exports can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from pulsar_operator.domain.export.manifests import Entry
from pulsar_operator.domain.export.policies import Note, shown
from pulsar_operator.domain.texts import without_tokens

MARK = "NOT EXPORTED"
LONGEST = 600
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_NOT_A_WORD = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


@dataclass(frozen=True)
class Source:
    """Where the objects were read, for the header."""

    cluster: str
    version: str | None
    not_read: tuple[str, ...] = ()
    """What was not requested."""


class _Dumper(yaml.SafeDumper):
    """Quotes all text that is not plainly a word, since YAML 1.1 and Kubernetes' parser disagree on texts such as
    1e3."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    word = _WORD.fullmatch(value) is not None and value.lower() not in _NOT_A_WORD
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if word else '"')


_Dumper.add_representer(str, _text)


def sentence(note: Note) -> str:
    """Returns a note in one line. Names and values are escaped."""
    line = json.dumps(without_tokens(f"{note.about}: {note.text}"))[1:-1].replace('\\"', '"')
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def render(source: Source, entries: Iterable[Entry]) -> str:
    """Returns the header and the documents in their order. Comments before a document name what is not exported."""
    listed = list(entries)
    count = sum(len(entry.notes) for entry in listed)
    parts = [
        f"# Exported by pulsar-operator from Pulsar cluster {json.dumps(source.cluster)}, "
        f"version {json.dumps(source.version or 'unknown')}.\n"
    ]
    if source.not_read:
        parts.append(f"# These data were not read: {', '.join(source.not_read)}.\n")
    if count:
        parts.append(f"# {count} items cannot be expressed. Each is listed in a comment with {MARK}.\n")
    for entry in listed:
        parts += [f"# {MARK}: {sentence(note)}\n" for note in entry.notes]
        if entry.manifest is not None:
            parts.append(_document(entry.manifest))
    return "".join(parts)


def _document(manifest: dict[str, Any]) -> str:
    return "---\n" + yaml.dump(
        manifest, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=1 << 20, allow_unicode=False
    )


__all__ = ["MARK", "Source", "render", "sentence", "shown"]
