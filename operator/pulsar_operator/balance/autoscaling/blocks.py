"""What no decision is made in: each would take a passing state for load, or add to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_operator.api.constants import Reason
from pulsar_operator.balance.autoscaling.values import Block

MESSAGES = {
    Reason.PAUSED: "The cluster is paused",
    Reason.CONFIGURATION_STORE_AWAY: "The configuration store, or the cluster's own metadata store, does not answer: "
    "pods that start would not be ready",
    Reason.ROLLING: "Pods are being replaced, or wait to be (see Progressing): what they carry is not what they will",
    Reason.REBALANCING: "Bundles are being moved: what brokers carry is not what they will",
    Reason.BOOKIE_LEAVING: "A bookie is emptied and removed: what the others store is not what they will",
    Reason.REPLACING_VOLUME: "A bookie is emptied for a new volume: what the others store is not what they will",
    Reason.UNDER_REPLICATED: "Ledgers lack copies: they are made first",
}
"""In the order in which they are told."""


def blocks(reasons: Iterable[Reason]) -> tuple[Block, ...]:
    """Blocks by their reasons, the gravest first. Raises ValueError for a reason that blocks nothing."""
    found = set(reasons)
    strange = found - MESSAGES.keys()
    if strange:
        raise ValueError(f"{', '.join(sorted(strange))} does not keep replicas from changing")
    return tuple(
        Block(reason, f"{message}; the number of replicas stays.")
        for reason, message in MESSAGES.items()
        if reason in found
    )
