"""Exports topics of a namespace with the same specification as one PulsarTopicSet instead of a manifest each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic_set import MAX_NAMES, PulsarTopicSetSpec, TopicTemplate
from pulsar_operator.domain.export.manifests import Entry, Settings, manifest_of
from pulsar_operator.domain.export.object_names import object_name
from pulsar_operator.domain.export.rules import problem_of
from pulsar_operator.domain.logical.pulsar_names import is_system_topic

MAX_NAMES_BYTES = 100_000
"""Maximum bytes of all names of a set: kubectl apply stores a copy of the object in an annotation, and annotations have
at most 256 KiB. The template, with a schema of 64 KiB, must fit too."""
_OF_THE_TOPIC = frozenset({"namespaceRef", "name"})
_OF_TEMPLATES = frozenset(info.alias or name for name, info in TopicTemplate.model_fields.items())
DIGEST = 8


def with_sets(settings: Settings, tenant: str, namespace: str, entries: Iterable[Entry], least: int) -> list[Entry]:
    """Returns the entries of a namespace's topics, in which a set replaces at least ``least`` topics with the same
    template.

    A topic with notes keeps its own manifest, to which the comments belong. So does a topic that a template cannot
    express.
    """
    alike: dict[str, tuple[Mapping[str, Any], list[tuple[str, Entry]]]] = {}
    out = []
    for entry in entries:
        found = _in_template(entry)
        if found is None:
            out.append(entry)
        else:
            name, template = found
            alike.setdefault(json.dumps(template, sort_keys=True), (template, []))[1].append((name, entry))
    for text, (template, members) in alike.items():
        names = sorted(name for name, _ in members)
        sets = _sets(settings, (tenant, namespace), text, template, names) if len(members) >= least else None
        out += [entry for _, entry in members] if sets is None else sets
    return out


def _in_template(entry: Entry) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the local name and the template of a topic; None if it cannot be in a set."""
    if entry.kind is not Kind.TOPIC or entry.manifest is None or entry.notes:
        return None
    spec = entry.manifest["spec"]
    name = str(spec.get("name", entry.manifest["metadata"]["name"]))
    template = {key: value for key, value in spec.items() if key not in _OF_THE_TOPIC}
    return None if not set(template) <= _OF_TEMPLATES or is_system_topic(name) else (name, template)


def _sets(
    settings: Settings, place: tuple[str, str], text: str, template: Mapping[str, Any], names: Sequence[str]
) -> list[Entry] | None:
    """Returns as many sets as the names require; None if one would not be admitted. A set is named after a hash of its
    template, ``text``, so that the name does not change if topics are added or deleted."""
    word = f"set-{hashlib.sha256(text.encode()).hexdigest()[:DIGEST]}"
    out = []
    for number, portion in enumerate(_portions(names), start=1):
        own = word if number == 1 else f"{word}-{number}"
        spec = {"namespaceRef": {"name": object_name(*place)}, "names": portion, "template": dict(template)}
        if problem_of(PulsarTopicSetSpec, spec) is not None:
            return None
        about = f"topics of namespace {'/'.join(place)}, {own}"
        out.append(manifest_of(settings, Kind.TOPIC_SET, about, object_name(*place, own), spec, ()))
    return out


def _portions(names: Sequence[str]) -> Iterator[list[str]]:
    portion: list[str] = []
    size_so_far = 0
    for name in names:
        size = len(json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 1
        if portion and (len(portion) == MAX_NAMES or size_so_far + size > MAX_NAMES_BYTES):
            yield portion
            portion, size_so_far = [], 0
        portion.append(name)
        size_so_far += size
    if portion:
        yield portion
