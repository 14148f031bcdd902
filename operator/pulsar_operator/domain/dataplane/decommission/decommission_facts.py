"""Facts about a bookie that is decommissioned or gets a new volume, and the possible actions. decommission.py and
volume_replacement.py decide."""

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
from pulsar_operator.domain.bookkeeper.ledger_scan_record import Examining
from pulsar_operator.domain.bookkeeper.storage_facts import BookieState, Space, StorageFacts, bookie_state
from pulsar_operator.domain.consent import Question
from pulsar_operator.domain.dataplane.decommission.decommission_record import DecommissionRecord, Renewal
from pulsar_operator.domain.dataplane.decommission.ended_copies import EndedCopies
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim

STALL_SECONDS: Final = 300.0
"""Seconds without any ledger less after which a copy is requested again: a copy ends without an error at the first
ledger that fails."""


class Step(StrEnum):
    """Steps of a decommission, in order; values of status.bookies[].step."""

    READ_ONLY = "ReadOnly"
    UNLOADING = "Unloading"
    COPYING = "Copying"
    VERIFYING = "Verifying"
    STOPPING = "Stopping"
    FORGETTING = "Forgetting"


class Act(StrEnum):
    """Actions."""

    NOTHING = "nothing"
    ASK = "read the largest ensemble that is configured"
    SCAN = "read every ledger"
    BEGIN = "record the decommission and its start time"
    READ_ONLY = "make the bookie read-only"
    WRITABLE = "make the bookie writable"
    UNLOAD = "unload topics"
    ROUND = "record that the pass over the topics is complete"
    COPY = "request a copy of the ledgers of the bookie"
    NOTE = "record that the copy makes progress"
    LOWER = "remove the pod of the bookie"
    RAISE = "create the pod of the bookie again"
    FORGET = "delete the cookie of the bookie"
    MARK = "mark or delete the PersistentVolumeClaims of the bookie"
    AUDIT = "request a check by the auditor"
    DISCARD = "delete the PersistentVolumeClaims of the bookie"
    REPLACE = "replace the pod of the bookie"
    RELEASE = "end the copy, and make the bookie writable"
    STOP = "record that the decommission is not retried"
    END = "delete the record of the decommission"


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
"""Actions that are carried out only once the status shows, or showed, that the bookie is at that step."""


@dataclass(frozen=True)
class Helper:
    """A ready auto-recovery pod, which can be asked for a copy."""

    ordinal: int
    uid: str


@dataclass(frozen=True)
class DecommissionFacts:
    """All facts about one bookie that is, may be, or was decommissioned."""

    bookie: str
    """Its id."""
    ordinal: int
    replicas: int
    """Replicas of the StatefulSet."""
    desired: int
    """Replicas in the specification."""
    others: tuple[str, ...]
    """Ids of the other bookies of the StatefulSet."""
    storage: StorageFacts
    pod: bool
    """Whether its pod exists, also if it is being deleted."""
    readonly: bool | None
    """Whether its own HTTP server reports it as read-only; None if it does not answer."""
    claims: tuple[Claim, ...]
    """Its claims, marked or not."""
    record: DecommissionRecord | None
    step: str | None
    """The step that the status shows."""
    helpers: tuple[Helper, ...]
    widest: Widest | None
    """Largest ensemble in use; None if it was not determined, which only the start of a decommission needs."""
    obstacle: str | None
    """What must end before the decommission begins, such as a rollout, as a message."""
    generation: int
    """Generation of the specification."""
    now: datetime
    timeout: float
    """Timeout of the decommission in seconds."""
    counts_from: datetime | None = None
    """Time from which the timeout counts: before it, no topic could be unloaded."""
    scan: LedgerScan | None = None
    """Examination of all ledgers, made in this pass after all facts above were read; None if there was none."""
    examining: Examining | None = None
    """Progress of the examination; None if it has not begun, or is complete."""
    cookie: int | None = None
    """The transaction that created its cookie; None if it has none."""
    uid: str = ""
    """UID of its pod; empty if there is none."""
    ends: bool = False
    """Whether its pod is being deleted."""
    first: str | None = None
    """What must be done to another bookie first, as a message."""
    lost: str | None = None
    """What happened to its volume, as a message; None if it has the recorded one, or is up with another."""
    lost_too: frozenset[str] = frozenset()
    """Ids of other bookies that are down and lost their volumes."""
    asked: str | None = None
    """Why a new volume is requested for it, by an annotation of its pod; None if none is, FALSE if the request was
    withdrawn."""
    accepted: int | None = None
    """Number of ledgers that a user confirmed as lost for this volume replacement, as the status shows; None without a
    confirmation."""
    confirmations: tuple[ClusterConfirmation, ...] = ()
    """Confirmations of the specification."""
    given_up: frozenset[int] = frozenset()
    """Ledgers that were abandoned with another bookie, or with an earlier volume of this one."""
    rack: bool = False
    """Whether the metadata store still has a rack for it that the operator wrote and the specification does not ask
    for."""
    racks_left: int | None = None
    """Racks of the other writable bookies; None if not known."""
    scaled: bool = False
    """Whether autoscaling decides the number of bookies."""
    disks: Mapping[str, Space] = field(default_factory=dict, hash=False)
    """Ledger disks by bookie id, of the bookies that reported them in this pass."""
    mark: float = 0.95
    """Used share of its ledger disks at which a bookie becomes read-only."""
    required_racks: int = 0
    """Number of racks that a ledger needs; 0 if none are enforced."""
    successor: str = ""
    """Id under which its pod comes up on new volumes, if that differs from its own; else empty."""
    former: bool = False
    """Whether a later incarnation exists, which has its pod and its volumes."""
    ended: EndedCopies | None = None
    """Copies of it that ended because the other bookies had no room; None if none did recently."""
    process: str = ""
    """UID of its pod and number of starts of the container; empty if there is no pod."""

    @property
    def state(self) -> BookieState:
        """Its state in the metadata store."""
        return bookie_state(self.storage, self.bookie)

    @property
    def registered(self) -> bool:
        """Whether it is registered in the metadata store."""
        return self.bookie in self.storage.registered

    @property
    def has_cookie(self) -> bool:
        """Whether the metadata store has its cookie."""
        return self.bookie in self.storage.cookies

    @property
    def returned(self) -> bool:
        """Whether its pod is up with a new volume: under its next id, or under its own with an image that does not
        count incarnations."""
        ids = [each for each in (self.successor, self.bookie) if each]
        up = [each for each in ids if each in self.storage.writable and each in self.storage.cookies]
        return bool(up) and bool(self.uid)

    @property
    def left(self) -> int:
        """Writable bookies without it."""
        return len(self.targets)

    @property
    def targets(self) -> frozenset[str]:
        """Writable bookies without it, which receive the copies."""
        return self.storage.writable - {self.bookie}

    @property
    def under_way(self) -> bool:
        """Whether its decommission has begun and is not stopped."""
        return self.record is not None and self.record.stopped is None

    @property
    def deed(self) -> str:
        """The operation, as a participle for messages."""
        removed = self.ordinal >= self.desired and (self.record is None or self.record.renewal is None)
        return "removed" if removed else "given a new volume"

    @property
    def number(self) -> str:
        """Field that sets the number of bookies."""
        return "spec.bookkeeper.autoscaling.minReplicas" if self.scaled else "spec.bookkeeper.replicas"

    @property
    def forgotten(self) -> bool:
        """Whether the decommission can no longer be undone: the operator deleted the cookie."""
        gone = not self.has_cookie and not self.registered and self.ordinal >= self.replicas
        return gone and self.record is not None and self.record.forgot


@dataclass(frozen=True)
class Next:
    """The next action."""

    act: Act
    text: str
    """Why the action is done; without one, why the operator waits or refuses. As a message."""
    step: Step | None = None
    """Step for the status; None if the bookie is not being decommissioned."""
    reason: Reason | None = None
    """Reason if the decommission cannot proceed."""
    topics: tuple[str, ...] = ()
    """Topics to unload."""
    helper: Helper | None = None
    """Auto-recovery pod to ask for the copy."""
    renewal: Renewal | None = None
    """The volume replacement that begins, or whose claims are deleted."""
    question: Question | None = None
    """Question that a confirmation must answer to let it continue; None if there is no such question."""
