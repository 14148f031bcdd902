"""Groups of tests, the folders they are made of, and the minutes each may take of `make test`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Lane(StrEnum):
    """Which of the two lanes a group runs in."""

    KIND = "kind"
    """Real Kubernetes: mostly waiting."""
    LOCAL = "local"
    """Processes on this machine, niced."""


@dataclass(frozen=True)
class Group:
    """Tests with one budget. ``paths`` are beginnings of module names, as pytest names them."""

    name: str
    lane: Lane
    budget: float
    """Minutes of `make test` on 2 cores with warm caches."""
    paths: tuple[str, ...]


SET_UP = "set-up"
STATIC = "static checks"
GROUPS: Sequence[Group] = (
    Group(
        "bring-up, quickstart, bad input, life cycle",
        Lane.KIND,
        11.5,
        ("e2e/tests/test_quickstart", "e2e/tests/test_bad_input", "e2e/tests/test_life_cycle", "e2e/tests/test_"),
    ),
    Group("rolls and scale-in", Lane.KIND, 7, ("e2e/tests/test_rolls", "e2e/tests/test_brokers")),
    Group("security", Lane.KIND, 3, ("e2e/tests/test_security",)),
    Group("geo-replication", Lane.KIND, 3, ("e2e/tests/test_geo",)),
    Group("conformance", Lane.KIND, 4, ("e2e/tests/test_conformance",)),
    Group("storage", Lane.KIND, 1, ("e2e/tests/test_storage",)),
    Group(STATIC, Lane.LOCAL, 0.5, ()),
    Group("unit", Lane.LOCAL, 11, ("tests/unit/",)),
    Group("Spark", Lane.LOCAL, 2.5, ("tests/unit/sizing/test_job", "tests/unit/sizing/test_killed_driver")),
    Group("contract, integration", Lane.LOCAL, 12, ("tests/contract/", "tests/integration/")),
    Group("standalone: contracts, hostile text, filters", Lane.LOCAL, 3, ("tests/standalone/",)),
)
"""The budgets of the plan: 30 minutes for the longer lane. A capability that adds minutes takes them from another."""


def group_of(module: str) -> str:
    """Name of the group of a module: the one with the longest path that the module's begins with, else ``other``."""
    found = [(len(path), group.name) for group in GROUPS for path in group.paths if module.startswith(path)]
    return max(found)[1] if found else "other"
