"""In which rack each bookie is, and what is said of it: condition RacksKnown. Pure.

A bookie without a rack is in BookKeeper's default rack: it gets entries as if that were one more rack, or none at all
where a minimum is enforced (class RackawareEnsemblePlacementPolicyImpl, addDefaultRackBookiesIfMinNumRacksIsEnforced).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.racks import DEFAULT_RACK, Racks
from pulsar_operator.domain.bookkeeper.rack_entries import RACKS_PATH, distinct
from pulsar_operator.domain.conditions import FALSE, TRUE, UNKNOWN

MAX_NAMED: Final = 20
"""Racks that a message names."""
COPIED_BY_KUBERNETES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels that Kubernetes 1.35 and newer copies from a node to its pods when they are bound to it (admission plug-in
PodTopologyLabels)."""

RacksCondition = tuple[ConditionStatus, Reason, str]


@dataclass(frozen=True)
class KnownRacks:
    """The racks of the bookies by ordinal, as far as Kubernetes or the specification has them."""

    of: Mapping[int, str] = field(default_factory=dict, hash=False)
    """Names of racks as brokers have them, with a slash in front."""
    unknown: Mapping[int, str] = field(default_factory=dict, hash=False)
    """Why the rack of a pod is not known, as a message with the remedy."""
    pending: frozenset[int] = frozenset()
    """Bookies that have no node yet."""


def by_ordinal(names: Sequence[str], ordinals: Collection[int]) -> KnownRacks:
    """The rack of ordinal n is the one at n modulo their number."""
    return KnownRacks({ordinal: f"/{names[ordinal % len(names)]}" for ordinal in ordinals})


def rack_of(labels: Mapping[str, Any], key: str) -> str | None:
    """The rack that labels say; None where they say none."""
    value = labels.get(key)
    return f"/{value}" if isinstance(value, str) and value and "/" not in value and value != DEFAULT_RACK else None


def too_few(racks: Racks, known: KnownRacks) -> str | None:
    """Why no ledger could be created once the minimum is enforced, as a message; None if it could, or none is
    enforced."""
    there = sorted(set(known.of.values()))
    if not racks.enforce_minimum or len(there) >= racks.minimum:
        return None
    racks_text = f"bookies are in {', '.join(there[:MAX_NAMED])}" if there else "no bookie's rack is known"
    return f"bookies in {racks.minimum} racks (spec.bookkeeper.racks.minimum, enforced): {racks_text}"


def racks_known(
    racks: Racks | None, known: KnownRacks | None, written: Mapping[str, str] | None, problem: str | None
) -> RacksCondition | None:
    """Condition RacksKnown: status, reason, message; None if there is nothing to say.

    ``written`` are racks by the bookie's id as the metadata store has them, None if not known, and ``problem`` says
    why.
    """
    if racks is None or known is None:
        return None
    if written is None:
        return UNKNOWN, Reason.METADATA_UNREACHABLE, problem or "The metadata store is not checked yet"
    if known.unknown:
        more = f" (and {len(known.unknown) - 1} more)" if len(known.unknown) > 1 else ""
        return FALSE, Reason.RACK_UNKNOWN, f"{next(iter(known.unknown.values()))}{more}"
    if known.pending:
        waiting = ", ".join(map(str, sorted(known.pending)[:MAX_NAMED]))
        return UNKNOWN, Reason.PENDING, f"Bookies that have no node yet, by ordinal: {waiting}"
    short = too_few(racks, known)
    if short is not None:
        return (
            FALSE,
            Reason.TOO_FEW_RACKS,
            f"No ledger can be created without {short}. Bring bookies to more racks, lower minimum, or set "
            "enforceMinimum to false",
        )
    return TRUE, Reason.RACKS_KNOWN, _racks_message(racks, known)


def unreadable(why: str) -> RacksCondition:
    """What is said where the znode cannot be read: it is not written over."""
    return (
        FALSE,
        Reason.RACKS_UNREADABLE,
        f"The racks of bookies are not written: {why}. The operator does not overwrite them. Repair znode "
        f"{RACKS_PATH}, or delete it if its content is not needed",
    )


def _racks_message(racks: Racks, known: KnownRacks) -> str:
    by_rack: dict[str, list[int]] = {}
    for ordinal, rack in sorted(known.of.items()):
        by_rack.setdefault(rack, []).append(ordinal)
    by_rack_text = "; ".join(f"{rack}: {', '.join(map(str, of))}" for rack, of in sorted(by_rack.items())[:MAX_NAMED])
    count = distinct(known.of.values())
    few = "" if count >= racks.minimum else f"; fewer than racks.minimum = {racks.minimum}, so copies come together"
    return f"Bookies are in {count} rack{'' if count == 1 else 's'}, by ordinal: {by_rack_text}{few}"


def begun_first(racks: Mapping[str, str], outdated: Collection[str], done: Collection[str]) -> frozenset[str]:
    """Returns which outdated pods are next if racks are rolled one after another: those of a rack whose replacement has
    begun, else of the rack of the highest ordinal. ``racks`` are by name of the pod; pods of unknown racks form one
    more rack."""
    if not racks or not outdated:
        return frozenset(outdated)
    begun = {racks.get(name, "") for name in done}
    left: dict[str, list[str]] = {}
    for name in outdated:
        left.setdefault(racks.get(name, ""), []).append(name)
    # Of several that have begun the one with fewest left: that one stays the one.
    found = max(
        left, key=lambda rack: (rack in begun, -len(left[rack]) * (rack in begun), max(map(ordinal_of, left[rack])))
    )
    return frozenset(left[found])


def ordinal_of(pod: str) -> int:
    """Ordinal of a pod by its name; -1 where it has none."""
    ordinal = pod.rpartition("-")[2]
    return int(ordinal) if ordinal.isdigit() else -1
