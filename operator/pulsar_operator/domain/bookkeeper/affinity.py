"""Bookie affinity groups: whether a namespace with such groups can have new ledgers without one of their bookies. Pure.

A namespace names primary and secondary groups (member bookieAffinityGroup of its local policies; if it names none, the
brokers' bookkeeperClientIsolationGroups apply), and znode /bookies lists the bookies of a group. Brokers use bookies of
the primary groups, and those of the secondary groups too if the primary ones are too few (class
IsolatedBookieEnsemblePlacementPolicy). Versions of Pulsar differ if both are too few. This module then assumes that the
namespace cannot have new ledgers, since its data is not wanted elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pulsar_operator.domain.bookkeeper.rack_entries import Entries
from pulsar_operator.domain.texts import sentence

LOCAL_POLICIES: Final = "/admin/local-policies"
"""Path in the cluster's metadata store, with tenants and namespaces below it (class LocalPolicies)."""
PRIMARY_KEY: Final = "bookkeeperClientIsolationGroups"
SECONDARY_KEY: Final = "bookkeeperClientSecondaryIsolationGroups"
"""Settings of broker.conf."""
EVERY: Final = "*"
"""Primary group that excludes no bookie (class IsolatedBookieEnsemblePlacementPolicy, for system topics)."""


@dataclass(frozen=True)
class Groups:
    """Groups of bookies that ledgers are restricted to."""

    primary: frozenset[str] = frozenset()
    secondary: frozenset[str] = frozenset()

    @property
    def bind(self) -> bool:
        """Whether the groups exclude any bookie."""
        return bool(self.primary) and EVERY not in self.primary

    @property
    def names(self) -> frozenset[str]:
        """Returns the names of all groups."""
        return self.primary | self.secondary


NO_GROUPS: Final = Groups()


@dataclass(frozen=True)
class Bound:
    """A namespace whose ledgers are restricted to groups of bookies."""

    whose: str
    """What requires the ensemble, as a message."""
    size: int
    """Number of bookies in its largest ensemble."""
    groups: Groups
    bookies: frozenset[str]
    """Ids of all bookies of the groups."""


@dataclass(frozen=True)
class Widest:
    """The largest ensemble that a new ledger may have."""

    size: int
    whose: str
    """What requires it, as a message."""
    bound: tuple[Bound, ...] = ()
    """Namespaces that are restricted to groups of bookies."""
    problem: str | None = None
    """What must happen before these are known, as a message; None if they are known."""


def groups_of(primary: Any, secondary: Any) -> Groups:
    """Parses the groups in a policy or a setting: names separated by commas."""
    return Groups(_names(primary), _names(secondary))


def _names(text: Any) -> frozenset[str]:
    return frozenset(each.strip() for each in text.split(",") if each.strip()) if isinstance(text, str) else frozenset()


def local_groups(data: bytes) -> Groups | None:
    """Parses the local policies of a namespace. Returns None if they name no groups, or cannot be parsed, since brokers
    cannot parse them either."""
    try:
        found = json.loads(data or b"{}").get("bookieAffinityGroup") or {}
        groups = groups_of(found.get("bookkeeperAffinityGroupPrimary"), found.get("bookkeeperAffinityGroupSecondary"))
    except (ValueError, AttributeError, RecursionError):
        return None
    return groups if groups.primary else None


def bound(whose: str, size: int, groups: Groups, entries: Entries) -> Bound:
    """Returns the namespace with the bookies that znode /bookies lists in its groups."""
    return Bound(whose, size, groups, frozenset(each for name in groups.names for each in entries.get(name, {})))


def _in_groups(found: Bound) -> str:
    noun = "group" if len(found.groups.names) == 1 else "groups"
    return f"affinity {noun} {', '.join(sorted(found.groups.names))}"


def _widest_first(found: Iterable[Bound]) -> list[Bound]:
    return sorted(found, key=lambda each: (-each.size, each.whose))


def awaited_in_group(bookie: str, writable: Collection[str], found: Iterable[Bound]) -> str | None:
    """Returns why a rollout cannot restart a bookie yet, as a message: a namespace could have no new ledger until the
    bookie is back.

    None if each namespace could. A namespace whose groups have at most as many bookies as its ensemble does not
    delay the rollout.
    """
    for each in _widest_first(found):
        left = each.bookies.intersection(writable) - {bookie}
        if bookie in each.bookies and len(left) < each.size < len(each.bookies):
            takes = f"{each.whose} requires {each.size} writable bookies of {_in_groups(each)}"
            return sentence(f"{takes}, and only {len(left)} would be left without {bookie}")
    return None


def paused_in_group(bookie: str, writable: Collection[str], found: Iterable[Bound]) -> str | None:
    """Returns which namespace can have no new ledger during the restart of a bookie, as a message; None if the bookie
    makes no difference."""
    for each in _widest_first(found):
        there = each.bookies.intersection(writable)
        if bookie in there and len(there) == each.size:
            return (
                f"{each.whose} requires {each.size} writable bookies of {_in_groups(each)}, but only "
                f"{len(there) - 1} are left, so its topics that need a new ledger wait until the bookie is back"
            )
    return None


def short_in_group(writable: Collection[str], readonly: Collection[str], found: Iterable[Bound]) -> str | None:
    """Returns which namespace can have no new ledger because bookies of its groups are read-only, as a message; None if
    each can, or lacks bookies in any case."""
    for each in _widest_first(found):
        there, missed = each.bookies.intersection(writable), each.bookies.intersection(readonly)
        if len(there) < each.size <= len(there) + len(missed):
            return (
                f"{each.whose} requires {each.size} writable bookies of {_in_groups(each)}, but only {len(there)} "
                "are writable, so its topics that need a new ledger wait"
            )
    return None


def too_few_in_group(bookie: str, writable: Collection[str], found: Iterable[Bound]) -> str | None:
    """Returns which namespace could have no new ledger without a bookie of its groups, as a message; None if each
    could, or does not use that bookie."""
    for each in _widest_first(found):
        left = each.bookies.intersection(writable) - {bookie}
        if bookie in each.bookies and len(left) < each.size:
            return (
                f"{each.whose} requires {each.size} writable bookies of {_in_groups(each)}, and only {len(left)} "
                "would be left"
            )
    return None
