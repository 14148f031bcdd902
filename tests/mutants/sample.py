"""Which mutants are tried: the same for a seed and a state of the source."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.mutants.operators import Mutation, is_valid, mutations

EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")
"""Mutants that cannot change what the code does, each with a reason."""


def population(sources: Mapping[str, str]) -> list[Mutation]:
    """All mutants of some modules, in order."""
    return [each for module in sorted(sources) for each in mutations(sources[module], module)]


def sample(sources: Mapping[str, str], size: int, seed: int) -> tuple[list[Mutation], int]:
    """Some mutants, and how many there are. A smaller sample is the beginning of a larger one of the same seed."""
    everything = population(sources)
    order = list(everything)
    random.Random(seed).shuffle(order)
    chosen: list[Mutation] = []
    for each in order:
        if len(chosen) == size:
            break
        if is_valid(each.apply(sources[each.module])):
            chosen.append(each)
    return chosen, len(everything)


def keys(found: Sequence[Mutation], source: str) -> dict[Mutation, str]:
    """A name for each mutant of one module that other lines' changes leave as it is: the line and what it becomes.

    Where several have the same name, the later ones are numbered.
    """
    lines = source.splitlines()
    seen: Counter[str] = Counter()
    out = {}
    for each in found:
        before, after = " ".join(source[each.start : each.end].split()), " ".join(each.text.split())
        name = f"{lines[each.line - 1].strip()} | {before} -> {after}"
        seen[name] += 1
        out[each] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return out


def equivalent(sources: Mapping[str, str], path: Path = EQUIVALENT) -> set[Mutation]:
    """The listed mutants. Raises ValueError where an entry has no reason, or names no mutant (any more)."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []) if path.exists() else []
    out: set[Mutation] = set()
    for module in sorted({each["module"] for each in listed}):
        source = sources.get(module, "")
        by_key = {key: each for each, key in keys(mutations(source, module), source).items()}
        for entry in (each for each in listed if each["module"] == module):
            if not entry.get("reason"):
                raise ValueError(f"{path.name}: no reason for {module}: {entry['change']}")
            if entry["change"] not in by_key:
                raise ValueError(f"{path.name}: {module} has no mutant {entry['change']!r} any more: take it out")
            out.add(by_key[entry["change"]])
    return out
