"""What keeps the number of a component's pods from falling, or from changing at all. Pure.

Growth is how a cluster gets out of overload, so that hardly anything holds it: a user who says stop, a store without
which no pod gets ready, and a bookie that is emptied, which would be cancelled. Load that moves from pod to pod is the
same load, and only whoever wants fewer pods waits until it has settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.balance.autoscaling.values import Block


class Holds(StrEnum):
    """What a reason keeps from happening."""

    CHANGE = "Change"
    """No pod is added and none leaves."""
    SHRINK = "Shrink"
    """No pod leaves."""


MESSAGES: Final[Mapping[Reason, str]] = {
    Reason.PAUSED: "The cluster is paused",
    Reason.CONFIGURATION_STORE_UNAVAILABLE: "The configuration store, or the cluster's own metadata store, "
    "does not answer: pods that start would not be ready",
    Reason.ROLLOUT_IN_PROGRESS: "Pods are being replaced, or wait to be (see Progressing): "
    "what they carry is not what they will",
    Reason.REBALANCING: "Bundles are being moved: what brokers carry is not what they will",
    Reason.DECOMMISSIONING_BOOKIE: "A bookie is emptied and removed: what the others store is not what they will",
    Reason.REPLACING_VOLUME: "A bookie is emptied for a new volume: what the others store is not what they will",
    Reason.UNDER_REPLICATED: "Ledgers lack copies: they are made first",
}
"""In the order in which they are told."""

_EVERY: Final = {Reason.PAUSED: Holds.CHANGE, Reason.ROLLOUT_IN_PROGRESS: Holds.SHRINK}
HOLDS: Final[Mapping[Component, Mapping[Reason, Holds]]] = {
    Component.BROKER: {
        **_EVERY,
        Reason.CONFIGURATION_STORE_UNAVAILABLE: Holds.CHANGE,
        Reason.REBALANCING: Holds.SHRINK,
    },
    Component.PROXY: {**_EVERY, Reason.CONFIGURATION_STORE_UNAVAILABLE: Holds.CHANGE},
    Component.BOOKIE: {
        **_EVERY,
        # A bookie needs the cluster's own store alone, without which its disks are not known either.
        Reason.CONFIGURATION_STORE_UNAVAILABLE: Holds.SHRINK,
        Reason.DECOMMISSIONING_BOOKIE: Holds.CHANGE,
        Reason.REPLACING_VOLUME: Holds.CHANGE,
        Reason.UNDER_REPLICATED: Holds.SHRINK,
    },
}
"""By component, what each reason holds; one that is absent holds nothing there. Copies are a matter of bookies,
bundles of brokers."""
UNDERSTATES: Final = frozenset({Reason.ROLLOUT_IN_PROGRESS})
"""Pods that restart tell nothing, or 0, until clients are back."""

WINDOWS: Final[Mapping[Reason, float]] = {Reason.ROLLOUT_IN_PROGRESS: 300.0, Reason.REBALANCING: 120.0}
"""Seconds for which a need for more has to last meanwhile: statistics are of a minute, in which a topic that moved is
counted by both brokers, and a process that starts uses CPU of its own."""

COUNTS_TWICE: Final = frozenset({Reason.REBALANCING})
"""Where nothing starts, and CPU is what it is."""


def blocks(component: Component, reasons: Iterable[Reason]) -> tuple[Block, ...]:
    """Blocks of a component by their reasons, the gravest first; reasons that hold nothing of it are left out. Raises
    ValueError for a reason that blocks nothing anywhere."""
    found = set(reasons)
    strange = found - MESSAGES.keys()
    if strange:
        raise ValueError(f"{', '.join(sorted(strange))} does not keep replicas from changing")
    return tuple(
        _block(reason, holds) for reason in MESSAGES if reason in found and (holds := HOLDS[component].get(reason))
    )


def _block(reason: Reason, holds: Holds) -> Block:
    growth = holds is Holds.CHANGE
    what = "the number of replicas stays" if growth else "none leaves"
    return Block(
        reason,
        f"{MESSAGES[reason]}; {what}.",
        growth,
        reason in UNDERSTATES,
        WINDOWS.get(reason, 0.0),
        reason in COUNTS_TWICE,
    )
