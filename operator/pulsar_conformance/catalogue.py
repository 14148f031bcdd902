"""All checks and all mutations: every module of pulsar_conformance.checks and pulsar_conformance.mutations."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import TypeVar

from pulsar_conformance import checks, mutations
from pulsar_conformance.model import Check
from pulsar_conformance.tamper import Mutation

T = TypeVar("T")


def all_checks() -> list[Check]:
    """Every check, by id. Raises ValueError for an id used twice."""
    return _unique([found for found in _members(checks) if isinstance(found, Check)], lambda found: found.id)


def all_mutations() -> list[Mutation]:
    """Every mutation, by id. Raises ValueError for an id used twice."""
    return _unique([found for found in _members(mutations) if isinstance(found, Mutation)], lambda found: found.id)


def select(found: Sequence[Check], patterns: Sequence[str]) -> list[Check]:
    """The checks whose id matches one of the regular expressions; all without any. Raises ValueError when none does."""
    if not patterns:
        return list(found)
    chosen = [check for check in found if any(re.search(pattern, check.id) for pattern in patterns)]
    if not chosen:
        raise ValueError(f"no check matches {', '.join(patterns)}: --list names them")
    return chosen


def _members(package: ModuleType) -> Iterator[object]:
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for value in vars(module).values():
            yield from value if isinstance(value, (tuple, list)) else (value,)


def _unique(found: Iterable[T], key: Callable[[T], str]) -> list[T]:
    by_id: dict[str, T] = {}
    for one in found:
        if by_id.setdefault(key(one), one) is not one:
            raise ValueError(f"{key(one)} is used twice")
    return [by_id[name] for name in sorted(by_id)]
