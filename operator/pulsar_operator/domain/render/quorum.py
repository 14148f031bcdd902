"""Default quorums of managed ledgers: what a user left open is derived so that it fits the number of bookies."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.v1alpha1.cluster import Ensemble

FIELD = "spec.bookkeeper.ensemble"


@dataclass(frozen=True)
class Quorum:
    """ackQuorum <= writeQuorum <= ensembleSize <= bookies, always."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int


class QuorumError(ValueError):
    """The combination cannot be satisfied; the text names field, value and remedy."""


def default_quorum(bookies: int) -> Quorum:
    """1 bookie 1/1/1, 2 or 3 bookies 2/2/2, from 4 on 3/3/2.

    Three bookies get 2/2/2, not 3/3/2: with an ensemble of three, one bookie down leaves no ensemble for new ledgers.
    """
    if bookies <= 1:
        return Quorum(1, 1, 1)
    if bookies <= 3:
        return Quorum(2, 2, 2)
    return Quorum(3, 3, 2)


def resolve_quorum(ensemble: Ensemble, bookies: int) -> Quorum:
    """The quorums to use. Values that are set are kept; the others follow from them and from the number of bookies.

    Raises QuorumError when no values of the open fields would satisfy the order.
    """
    size, write, ack = ensemble.ensemble_size, ensemble.write_quorum, ensemble.ack_quorum
    _require_order("ackQuorum", ack, "writeQuorum", write)
    _require_order("writeQuorum", write, "ensembleSize", size)
    _require_order("ackQuorum", ack, "ensembleSize", size)
    for name, value in (("ensembleSize", size), ("writeQuorum", write), ("ackQuorum", ack)):
        if value is not None and value > bookies:
            raise QuorumError(
                f"{FIELD}.{name} = {value} exceeds spec.bookkeeper.replicas = {bookies}: "
                f"raise replicas to {value} or lower {name}"
            )
    default = default_quorum(bookies)
    size = size or max(default.ensemble_size, write or 0, ack or 0)
    write = write or min(size, max(default.write_quorum, ack or 0))
    # A majority of the copies, and both of two: fewer would acknowledge what a single lost bookie can lose.
    ack = ack or (write if write <= 2 else write // 2 + 1)
    return Quorum(size, write, ack)


def _require_order(lesser: str, low: int | None, greater: str, high: int | None) -> None:
    if low is not None and high is not None and low > high:
        raise QuorumError(
            f"{FIELD}.{lesser} = {low} exceeds {FIELD}.{greater} = {high}: lower {lesser} or raise {greater}"
        )
