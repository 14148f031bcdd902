"""The racks of the bookies, and condition RacksKnown. Pure.

A bookie without a rack is in BookKeeper's default rack. It gets entries as if that were a further rack, or none at all
if a minimum is enforced (class RackawareEnsemblePlacementPolicyImpl, addDefaultRackBookiesIfMinNumRacksIsEnforced).
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
"""Maximum number of racks that a message names."""
COPIED_BY_KUBERNETES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels that Kubernetes 1.35 and later copies from a node to the pods that are bound to it (admission plug-in
PodTopologyLabels)."""

RacksCondition = tuple[ConditionStatus, Reason, str]


@dataclass(frozen=True)
class KnownRacks:
    """The racks of the bookies by ordinal, as far as Kubernetes or the specification provides them."""

    of: Mapping[int, str] = field(default_factory=dict, hash=False)
    """Names of racks in the form of brokers, with a leading slash."""
    unknown: Mapping[int, str] = field(default_factory=dict, hash=False)
    """Why the rack of a pod is unknown, as a message with the remedy."""
    pending: frozenset[int] = frozenset()
    """Ordinals of bookies that have no node yet."""


def by_ordinal(names: Sequence[str], ordinals: Collection[int]) -> KnownRacks:
    """Returns the racks by ordinal: ordinal n has the rack at n modulo the number of racks."""
    return KnownRacks({ordinal: f"/{names[ordinal % len(names)]}" for ordinal in ordinals})


def rack_of(labels: Mapping[str, Any], key: str) -> str | None:
    """Returns the rack from labels; None if they have no valid one."""
    value = labels.get(key)
    return f"/{value}" if isinstance(value, str) and value and "/" not in value and value != DEFAULT_RACK else None


def too_few(racks: Racks, known: KnownRacks) -> str | None:
    """Returns why no ledger could be created once the minimum is enforced, as a message; None if one could, or if no
    minimum is enforced."""
    there = sorted(set(known.of.values()))
    if not racks.enforce_minimum or len(there) >= racks.minimum:
        return None
    racks_text = f"bookies are in {', '.join(there[:MAX_NAMED])}" if there else "no bookie's rack is known"
    return f"spec.bookkeeper.racks.minimum requires bookies in {racks.minimum} racks, but {racks_text}"


def racks_known(
    racks: Racks | None, known: KnownRacks | None, written: Mapping[str, str] | None, problem: str | None
) -> RacksCondition | None:
    """Returns condition RacksKnown: status, reason, message; None if it does not apply.

    ``written`` are the racks by bookie id in the metadata store; None if unknown, and then ``problem`` is the reason.
    """
    if racks is None or known is None:
        return None
    if written is None:
        return UNKNOWN, Reason.METADATA_UNREACHABLE, problem or "The metadata store has not been checked yet"
    if known.unknown:
        more = f" (and {len(known.unknown) - 1} more)" if len(known.unknown) > 1 else ""
        return FALSE, Reason.RACK_UNKNOWN, f"{next(iter(known.unknown.values()))}{more}"
    if known.pending:
        waiting = ", ".join(map(str, sorted(known.pending)[:MAX_NAMED]))
        return UNKNOWN, Reason.PENDING, f"The bookies with these ordinals have no node yet: {waiting}"
    short = too_few(racks, known)
    if short is not None:
        return (
            FALSE,
            Reason.TOO_FEW_RACKS,
            f"No ledger can be created, because {short}. Add bookies to more racks, lower minimum, or set "
            "enforceMinimum to false",
        )
    return TRUE, Reason.RACKS_KNOWN, _racks_message(racks, known)


def unreadable(why: str) -> RacksCondition:
    """Returns the condition if the znode cannot be parsed. It is not overwritten."""
    return (
        FALSE,
        Reason.RACKS_UNREADABLE,
        f"The racks of bookies cannot be written, because {why}. The operator does not overwrite the znode. "
        f"Repair znode {RACKS_PATH}, or delete it if its content is not needed",
    )


def _racks_message(racks: Racks, known: KnownRacks) -> str:
    by_rack: dict[str, list[int]] = {}
    for ordinal, rack in sorted(known.of.items()):
        by_rack.setdefault(rack, []).append(ordinal)
    by_rack_text = "; ".join(f"{rack}: {', '.join(map(str, of))}" for rack, of in sorted(by_rack.items())[:MAX_NAMED])
    count = distinct(known.of.values())
    few = (
        ""
        if count >= racks.minimum
        else (f". racks.minimum is {racks.minimum}, so a rack stores more than one copy of an entry")
    )
    return f"Bookies are in {count} rack{'' if count == 1 else 's'} (ordinals by rack: {by_rack_text}){few}"


def begun_first(racks: Mapping[str, str], outdated: Collection[str], done: Collection[str]) -> frozenset[str]:
    """Returns the outdated pods that are next in a rollout rack by rack: those of a rack whose rollout has begun,
    otherwise of the rack of the highest ordinal.

    ``racks`` are by pod name. Pods without a known rack form their own rack.
    """
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
    """Returns the ordinal of a pod from its name; -1 if the name has none."""
    ordinal = pod.rpartition("-")[2]
    return int(ordinal) if ordinal.isdigit() else -1
