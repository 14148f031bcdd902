"""Conditions that keep the number of a component's pods from falling, or from changing at all. Pure.

A scale-out relieves overload, so hardly anything blocks it: a pause by the user, a store without which no pod becomes
ready, and a decommission, which a scale-out would cancel. Load that moves between pods stays the same in sum, so only a
scale-in waits until it has settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.balance.autoscaling.values import Block


class Forbids(StrEnum):
    """What a reason forbids."""

    CHANGE = "Change"
    """No pod is added or removed."""
    SHRINK = "Shrink"
    """No pod is removed."""


MESSAGES: Final[Mapping[Reason, str]] = {
    Reason.PAUSED: "The cluster is paused",
    Reason.CONFIGURATION_STORE_UNAVAILABLE: (
        "The configuration store, or the cluster's own metadata store, does not answer and new pods would not become "
        "ready"
    ),
    Reason.ROLLOUT_IN_PROGRESS: (
        "A rollout is in progress or pending (see condition Progressing) and the load of pods is not representative"
    ),
    Reason.REBALANCING: "Bundles are being moved and the load of brokers is not representative",
    Reason.DECOMMISSIONING_BOOKIE: "A bookie is being decommissioned and disk usage is not representative",
    Reason.REPLACING_VOLUME: "A bookie is being emptied for a new volume and disk usage is not representative",
    Reason.UNDER_REPLICATED: "Some ledgers are under-replicated and are replicated first",
}
"""Messages by reason, in the order in which they are reported."""

_EVERY: Final = {Reason.PAUSED: Forbids.CHANGE, Reason.ROLLOUT_IN_PROGRESS: Forbids.SHRINK}
FORBIDS: Final[Mapping[Component, Mapping[Reason, Forbids]]] = {
    Component.BROKER: {
        **_EVERY,
        Reason.CONFIGURATION_STORE_UNAVAILABLE: Forbids.CHANGE,
        Reason.REBALANCING: Forbids.SHRINK,
    },
    Component.PROXY: {**_EVERY, Reason.CONFIGURATION_STORE_UNAVAILABLE: Forbids.CHANGE},
    Component.BOOKIE: {
        **_EVERY,
        # A bookie needs the cluster's own store alone, without which its disks are not known either.
        Reason.CONFIGURATION_STORE_UNAVAILABLE: Forbids.SHRINK,
        Reason.DECOMMISSIONING_BOOKIE: Forbids.CHANGE,
        Reason.REPLACING_VOLUME: Forbids.CHANGE,
        Reason.UNDER_REPLICATED: Forbids.SHRINK,
    },
}
"""What each reason forbids, by component. A reason that is absent forbids nothing for that component. Missing copies
affect only bookies, bundles only brokers."""
UNDERSTATES: Final = frozenset({Reason.ROLLOUT_IN_PROGRESS})
"""Reasons during which figures are too low: pods that restart report nothing, or 0, until clients return."""

WINDOWS: Final[Mapping[Reason, float]] = {Reason.ROLLOUT_IN_PROGRESS: 300.0, Reason.REBALANCING: 120.0}
"""Seconds for which a need for more must last during a reason: statistics cover a minute, in which both brokers count a
topic that moved, and a starting process uses additional CPU."""

COUNTS_TWICE: Final = frozenset({Reason.REBALANCING})
"""Reasons during which moved load is counted twice, while no process starts and CPU is correct."""


def blocks(component: Component, reasons: Iterable[Reason]) -> tuple[Block, ...]:
    """Returns the blocks of a component by their reasons, the most severe first. Reasons that forbid nothing are left
    out.

    Raises ValueError for a reason that never blocks a change of replicas.
    """
    found = set(reasons)
    strange = found - MESSAGES.keys()
    if strange:
        raise ValueError(f"{', '.join(sorted(strange))} does not prevent a change of replicas")
    return tuple(
        _block(reason, forbidden)
        for reason in MESSAGES
        if reason in found and (forbidden := FORBIDS[component].get(reason))
    )


def _block(reason: Reason, forbidden: Forbids) -> Block:
    growth = forbidden is Forbids.CHANGE
    what = "the number of replicas does not change" if growth else "no pod is removed"
    return Block(
        reason,
        f"{MESSAGES[reason]}, so {what}.",
        growth,
        reason in UNDERSTATES,
        WINDOWS.get(reason, 0.0),
        reason in COUNTS_TWICE,
    )
