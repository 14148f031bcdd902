"""What is known of a bookie that leaves or gets a new volume, and what may be done next. Values; who decides is in
decommission.py and volume_replacement.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmation
from pulsar_operator.domain.bookkeeper.affinity import Widest
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.bookkeeper.storage_facts import BookieState, Space, StorageFacts, bookie_state
from pulsar_operator.domain.consent import Question
from pulsar_operator.domain.dataplane.decommission.decommission_record import DecommissionRecord, Renewal
from pulsar_operator.domain.dataplane.decommission.ended_copies import EndedCopies
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim

STALL_SECONDS: Final = 300.0
"""So long no ledger fewer, and the copy is asked for again: it ends without an error at the first ledger that fails."""


class Step(StrEnum):
    """Where a bookie is on its way out, in order; value of status.bookies[].step."""

    READ_ONLY = "ReadOnly"
    UNLOADING = "Unloading"
    COPYING = "Copying"
    VERIFYING = "Verifying"
    STOPPING = "Stopping"
    FORGETTING = "Forgetting"


class Act(StrEnum):
    """What is to be done."""

    NOTHING = "nothing"
    ASK = "ask for the largest ensemble"
    SCAN = "read every ledger"
    BEGIN = "record that it is decommissioned, and the start time"
    READ_ONLY = "make it read-only"
    WRITABLE = "make it writable"
    UNLOAD = "unload topics"
    ROUND = "remember that the topics are through"
    COPY = "have it copied"
    NOTE = "remember that the copy makes progress"
    LOWER = "one replica less"
    RAISE = "its pod back"
    FORGET = "delete its cookie"
    MARK = "mark its claims, or delete them"
    AUDIT = "have the auditor look"
    DISCARD = "delete its claims"
    REPLACE = "replace its pod"
    RELEASE = "end the copy, and make it writable"
    STOP = "remember that it is not tried again"
    END = "forget the memo"


SHOWN_FIRST: Final = frozenset(
    {
        Act.READ_ONLY,
        Act.UNLOAD,
        Act.COPY,
        Act.AUDIT,
        Act.LOWER,
        Act.DISCARD,
        Act.REPLACE,
        Act.FORGET,
        Act.MARK,
    }
)
"""What is done only once the status says that the bookie is at that step, or was."""


@dataclass(frozen=True)
class Helper:
    """An auto-recovery pod that is ready."""

    ordinal: int
    uid: str


@dataclass(frozen=True)
class DecommissionFacts:
    """All that is known of one bookie that leaves, or may, or did."""

    bookie: str
    """Its id."""
    ordinal: int
    replicas: int
    """Of the StatefulSet."""
    desired: int
    """Of the specification."""
    others: tuple[str, ...]
    """Ids of the other bookies of the StatefulSet."""
    storage: StorageFacts
    pod: bool
    """Whether its pod is there, also one that ends."""
    readonly: bool | None
    """What its own HTTP server says; None = it does not answer."""
    claims: tuple[Claim, ...]
    """Its own, marked or not."""
    record: DecommissionRecord | None
    step: str | None
    """The step that the status shows."""
    helpers: tuple[Helper, ...]
    widest: Widest | None
    """None = not looked yet; needed only before it begins."""
    obstacle: str | None
    """What must end before it begins, in words: a roll."""
    generation: int
    """Of the specification."""
    now: datetime
    timeout: float
    """Seconds."""
    counts_from: datetime | None = None
    """No time before it counts towards the time-out: no topic could be unloaded."""
    scan: LedgerScan | None = None
    """What a look at all ledgers found, made in this pass after all of the above; None = not looked yet."""
    examining: str | None = None
    """How far the examination of all ledgers is, in words; None = not looked yet, or all are examined."""
    cookie: int | None = None
    """The transaction that created its cookie; None = it has none."""
    uid: str = ""
    """UID of its pod; empty = there is none."""
    ends: bool = False
    """Whether its pod is being deleted."""
    first: str | None = None
    """What must be done to another bookie before anything here goes on, in words."""
    lost: str | None = None
    """What became of its volume, in words; None = it has the one on record, or is up with another."""
    lost_too: frozenset[str] = frozenset()
    """Ids of other bookies that are not up and lost their volumes."""
    asked: str | None = None
    """Why somebody wants a new volume for it, by annotation of its pod; None = nobody does, FALSE = nobody any more."""
    accepted: int | None = None
    """How many ledgers somebody gave up for this replacement of its volume, as the status shows; None = nobody did."""
    confirmations: tuple[ClusterConfirmation, ...] = ()
    """Of the specification."""
    given_up: frozenset[int] = frozenset()
    """Ledgers that were given up with another bookie, or with an earlier volume of this one."""
    rack: bool = False
    """Whether the metadata store still has a rack for it that the operator wrote and nobody wants."""
    racks_left: int | None = None
    """Racks of the other writable bookies; None = not known."""
    scaled: bool = False
    """Whether autoscaling says how many bookies there are to be."""
    disks: Mapping[str, Space] = field(default_factory=dict, hash=False)
    """The ledger disks, by the id of each bookie that said so in this pass."""
    mark: float = 0.95
    """Share of its ledger disks at which a bookie makes itself read-only."""
    required_racks: int = 0
    """Racks without which no ledger is created; 0 = none are enforced."""
    successor: str = ""
    """Id under which its pod comes up on new volumes, once that is not its own any more; empty = it is."""
    former: bool = False
    """Whether a later incarnation of it is there, which has its pod and its volumes."""
    ended: EndedCopies | None = None
    """Copies of it that ended because the others had no room; None = none did lately."""
    process: str = ""
    """Its pod's UID and how often its container started; empty = there is none."""

    @property
    def state(self) -> BookieState:
        """By the metadata store."""
        return bookie_state(self.storage, self.bookie)

    @property
    def registered(self) -> bool:
        """Whether the metadata store has it as alive."""
        return self.bookie in self.storage.registered

    @property
    def has_cookie(self) -> bool:
        """Whether the metadata store has its cookie."""
        return self.bookie in self.storage.cookies

    @property
    def returned(self) -> bool:
        """Whether its pod is up with a new volume: under its next id, or one of an image that knows no incarnations
        under its own."""
        ids = [each for each in (self.successor, self.bookie) if each]
        up = [each for each in ids if each in self.storage.writable and each in self.storage.cookies]
        return bool(up) and bool(self.uid)

    @property
    def left(self) -> int:
        """Writable bookies without it."""
        return len(self.targets)

    @property
    def targets(self) -> frozenset[str]:
        """Writable bookies without it: copies go to them."""
        return self.storage.writable - {self.bookie}

    @property
    def under_way(self) -> bool:
        """Whether it has begun to leave, and is not stopped."""
        return self.record is not None and self.record.stopped is None

    @property
    def deed(self) -> str:
        """What is to be done with it, in words."""
        removed = self.ordinal >= self.desired and (self.record is None or self.record.renewal is None)
        return "removed" if removed else "given a new volume"

    @property
    def number(self) -> str:
        """Field that keeps so many bookies."""
        return "spec.bookkeeper.autoscaling.minReplicas" if self.scaled else "spec.bookkeeper.replicas"

    @property
    def forgotten(self) -> bool:
        """Whether it is past the point of return: its cookie was deleted by the operator."""
        gone = not self.has_cookie and not self.registered and self.ordinal >= self.replicas
        return gone and self.record is not None and self.record.forgot


@dataclass(frozen=True)
class Next:
    """The next thing to do."""

    act: Act
    text: str
    """Why it is done; or, where nothing is done, what is waited for or refused, in words."""
    step: Step | None = None
    """To be shown; None = it is not on its way out."""
    reason: Reason | None = None
    """Why it does not leave, where it does not."""
    topics: tuple[str, ...] = ()
    """To unload."""
    helper: Helper | None = None
    """To be asked for the copy."""
    renewal: Renewal | None = None
    """Of a bookie that begins to get a new volume, or whose claims are deleted."""
    question: Question | None = None
    """What a confirmation would have to answer to let it go on; None where none would."""
