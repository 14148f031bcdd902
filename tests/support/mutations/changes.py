"""Changes of every field of the logical kinds, S0 to S1, for tests that make each one and take it back.

Fields with a row in the policy table get theirs from the row's examples, so a new policy needs nothing here. Other
fields are in CHAINS of chains.py: add a line there for a new one, or a reason to FIXED. tests/unit/mutations
shows that no field is missing, tests/integration/api that the API server admits every change;
tests/support/mutations/bench.py makes them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS, wire
from pulsar_operator.crdschema import structural
from pulsar_operator.domain.policies import GLOBAL_POLICIES, LOCAL_POLICIES, NAMESPACE_POLICIES, PolicyRow, too_old
from pulsar_operator.domain.policies.instance_rows import ISOLATION_FIELDS, RESOURCE_GROUP_LIMITS
from tests.support.mutations.chains import (
    ABSENT,
    AROUND,
    CHAINS,
    EMPTY,
    FIXED,
    OF_TEMPLATES,
    PARTS,
    PIP,
    PNS,
    PRG,
    PT,
    PTN,
    PTS,
    REQUIRED,
    TOLD_ELSEWHERE,
    VERSION,
    Chain,
    Json,
    Mutation,
)
from tests.support.policies.values import values_of


def mutations(kind: Kind) -> list[Mutation]:
    """Every mutation of a kind."""
    rows: dict[Kind, list[tuple[PolicyRow, str, Json]]] = {
        PTN: [],
        PNS: [(row, "", {}) for row in NAMESPACE_POLICIES],
        PT: [(row, "", {}) for row in LOCAL_POLICIES]
        + [(row, "global", {"policyScope": "Global", **PARTS}) for row in GLOBAL_POLICIES],
        PRG: [(row, "", {}) for row in RESOURCE_GROUP_LIMITS],
        PIP: [(row, "", {}) for row in ISOLATION_FIELDS],
        PTS: [],
    }
    chains = [*CHAINS[kind], *(_of_row(*each) for each in rows[kind] if (kind, each[0].field) not in TOLD_ELSEWHERE)]
    out = [mutation for chain in chains for mutation in links(kind, chain)]
    more: Mapping[Kind, Callable[[], Iterator[Mutation]]] = {PTN: _defaults, PTS: _templates}
    return [*out, *more[kind]()] if kind in more else out


def _of_row(row: PolicyRow, name: str, around: Json) -> Chain:
    # A value that Pulsar also shows where nobody set one comes last: it makes no difference there.
    values = [_written(example) for example in sorted(values_of(row), key=lambda each: not row.is_set(each))]
    values = values if row.path in REQUIRED else [ABSENT, *values]
    if too_old(row, VERSION):
        return Chain(row.path, values[:2], around, name, {"refused": f"requires Pulsar {row.since_version}"})
    if row.unavailable is not None:
        fullest = max(values[1:], key=len)
        return Chain(row.path, [ABSENT, fullest], around, name, {"refused": re.escape(row.unavailable)})
    if row.refused_without is not None:
        return Chain(row.path, values[:2], around, name, {"refused": row.refused_without})
    return Chain(row.path, values, around, name)


def _defaults() -> Iterator[Mutation]:
    """Policies of a namespace as spec.namespaceDefaults of its tenant."""
    for each in mutations(PNS):
        if each.path.startswith("policies."):
            path = each.path.replace("policies", "namespaceDefaults", 1)
            values = [{"namespaceDefaults": spec.get("policies", {})} for spec in (each.before, each.after)]
            yield Mutation(PTN, path, f"namespaceDefaults-{each.id}", *values, refused=each.refused)


def _templates() -> Iterator[Mutation]:
    """What a topic has and templates have, as spec.template of a set with one name."""
    allowed = {*OF_TEMPLATES, "partitions"}
    for each in mutations(PT):
        specs = (each.before, each.after)
        fits = each.path.split(".")[0] in OF_TEMPLATES
        if fits and all(set(spec) <= allowed for spec in specs):
            before, after = ({**AROUND[PTS], "template": spec} for spec in specs)
            yield replace(
                each, kind=PTS, path=f"template.{each.path}", id=f"template.{each.id}", before=before, after=after
            )


def links(kind: Kind, chain: Chain) -> Iterator[Mutation]:
    """The mutations of a chain."""
    path = chain.path.split(".")
    # Members of list items: the values are whole lists.
    place = path[:1] if path[0] == "subscriptions" else path
    around = {key: value for key, value in {**AROUND.get(kind, {}), **chain.around}.items() if value is not ABSENT}
    specs = [with_value(around, place, value) for value in chain.values]
    label = "-".join(filter(None, (chain.path, chain.name)))
    for number, (before, after) in enumerate(pairwise(specs), start=1):
        more = EMPTY if chain.values[number - 1] is ABSENT and chain.values[number] in ([], {}) else chain.more
        yield Mutation(kind, chain.path, f"{label}-{number}", before, after, **more)


def with_value(spec: Json, path: Sequence[str], value: Any) -> Json:
    """The specification with the value there, in structs that are made where they are missing; ABSENT removes."""
    out = copy.deepcopy(spec)
    place = out
    for step in path[:-1]:
        place = place.setdefault(step, {})
    place.pop(path[-1], None)
    if value is not ABSENT:
        place[path[-1]] = copy.deepcopy(value)
    return out


def _written(value: Any) -> Any:
    """An example of the table as it is in a manifest, with its words in braces."""
    if isinstance(value, BaseModel):
        return wire(value)
    return [_written(each) for each in value] if isinstance(value, list) else value


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """A specification with its words in braces replaced."""
    if isinstance(value, dict):
        return {key: filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, names) for each in value]
    if isinstance(value, str):
        for word, name in names.items():
            value = value.replace(f"{{{word}}}", name)
    return value


def fields(kind: Kind) -> list[str]:
    """Paths of all fields of the definition of a kind, below spec."""
    return list(_paths(structural(MODELS[kind].spec), ""))


def _paths(schema: Json, prefix: str) -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        yield prefix + name
        yield from _paths(child, f"{prefix}{name}.")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from _paths(schema[keyword], prefix)


def at(spec: Any, path: str) -> list[Any]:
    """Every value at a path; several below lists."""
    found = [spec]
    for step in path.split(".") if path else ():
        below = [each for value in found for each in (value if isinstance(value, list) else [value])]
        found = [each[step] for each in below if isinstance(each, dict) and step in each]
    return found


def changes(mutation: Mutation, path: str) -> bool:
    """Whether a field differs between S0 and S1 while the struct it belongs to is in both."""
    outer = path.rpartition(".")[0]
    specs = (mutation.before, mutation.after)
    there = all(any(isinstance(each, (dict, list)) for each in at(spec, outer)) for spec in specs)
    return there and at(mutation.before, path) != at(mutation.after, path)


def missing(kind: Kind) -> list[str]:
    """Fields that no mutation changes and no reason excuses."""
    excused = tuple(f"{path}." for path in FIXED[kind])
    found = mutations(kind)
    return [
        path
        for path in fields(kind)
        if not f"{path}.".startswith(excused) and not any(changes(each, path) for each in found)
    ]
