"""Quorums of managed ledgers: unset values stay as recorded; if none are recorded, they follow from the number of
bookies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pulsar_operator.api.v1alpha1.cluster import Ensemble

FIELD = "spec.bookkeeper.ensemble"
BROKER_KEYS = ("managedLedgerDefaultEnsembleSize", "managedLedgerDefaultWriteQuorum", "managedLedgerDefaultAckQuorum")
"""Settings of brokers with the values of a Quorum, in its order."""
_TEXT = re.compile(r"([0-9]{1,4})/([0-9]{1,4})/([0-9]{1,4})", re.ASCII)


@dataclass(frozen=True)
class Quorum:
    """Quorums with ackQuorum <= writeQuorum <= ensembleSize <= bookies."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int

    def __str__(self) -> str:
        """Returns the text form, such as ``3/3/2``: ensemble size, write quorum, ack quorum."""
        return f"{self.ensemble_size}/{self.write_quorum}/{self.ack_quorum}"

    def settings(self) -> dict[str, str]:
        """Returns the settings of brokers."""
        return dict(zip(BROKER_KEYS, str(self).split("/"), strict=True))

    @classmethod
    def parse(cls, text: str) -> Quorum:
        """Parses the text form, such as ``3/3/2``. Raises ValueError, also if the order is violated."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:80]!r} does not have the form ensembleSize/writeQuorum/ackQuorum")
        found = cls(*map(int, match.groups()))
        if not 1 <= found.ack_quorum <= found.write_quorum <= found.ensemble_size:
            raise ValueError(f"{text!r} must satisfy ensembleSize >= writeQuorum >= ackQuorum")
        return found


class QuorumError(ValueError):
    """The combination cannot be satisfied. The text has field, value and remedy."""


def default_quorum(bookies: int) -> Quorum:
    """Returns 1/1/1 for 1 bookie, 2/2/2 for 2 or 3, and 3/3/2 from 4 on.

    Three bookies get 2/2/2, not 3/3/2: with an ensemble of three, one failed bookie leaves no ensemble for new ledgers.
    """
    if bookies <= 1:
        return Quorum(1, 1, 1)
    if bookies <= 3:
        return Quorum(2, 2, 2)
    return Quorum(3, 3, 2)


def resolve_quorum(ensemble: Ensemble, bookies: int, recorded: Quorum | None = None) -> Quorum:
    """Returns the quorums to use: set values are kept, the others are as ``recorded``.

    Recorded values only change as far as the order with a set value requires. More bookies change nothing; fewer
    bookies are refused while ensembles are larger. Without a record, at the first start, unset values follow from the
    set ones and from the number of bookies. Raises QuorumError if no values of the unset fields would satisfy the
    order.
    """
    size, write, ack = ensemble.ensemble_size, ensemble.write_quorum, ensemble.ack_quorum
    _require_order("ackQuorum", ack, "writeQuorum", write)
    _require_order("writeQuorum", write, "ensembleSize", size)
    _require_order("ackQuorum", ack, "ensembleSize", size)
    for name, value in (("ensembleSize", size), ("writeQuorum", write), ("ackQuorum", ack)):
        if value is not None and value > bookies:
            raise QuorumError(
                f"{FIELD}.{name} = {value} exceeds spec.bookkeeper.replicas = {bookies}. Raise replicas to "
                f"{value} or lower {name}"
            )
    base = recorded or default_quorum(bookies)
    size = size or max(base.ensemble_size, write or 0, ack or 0)
    if size > bookies:
        raise QuorumError(
            f"spec.bookkeeper.replicas = {bookies} is less than the recorded ensemble size of {size} bookies. Set "
            f"{FIELD}.ensembleSize to {bookies} first, or raise replicas to {size}"
        )
    write = write or min(size, max(base.write_quorum, ack or 0))
    if recorded is not None:
        return Quorum(size, write, ack or min(recorded.ack_quorum, write))
    # A majority of the copies, and both of two: fewer would acknowledge what a single lost bookie can lose.
    return Quorum(size, write, ack or (write if write <= 2 else write // 2 + 1))


def _require_order(lesser: str, low: int | None, greater: str, high: int | None) -> None:
    if low is not None and high is not None and low > high:
        raise QuorumError(
            f"{FIELD}.{lesser} = {low} exceeds {FIELD}.{greater} = {high}. Lower {lesser} or raise {greater}"
        )
