"""Whether a bookie may be taken for a moment: what must be true of all others first. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmationAction
from pulsar_operator.domain.bookkeeper.affinity import Bound, awaited_in_group, paused_in_group
from pulsar_operator.domain.bookkeeper.facts import StorageFacts, not_replicated
from pulsar_operator.domain.consent import Question


@dataclass(frozen=True)
class BookieStep:
    """A bookie that is to be replaced, and what is known of the storage. None = unknown."""

    bookie: str
    """Its id."""
    others: tuple[str, ...]
    """Ids of the cluster's other bookies."""
    storage: StorageFacts | None
    ensemble: int | None
    """Bookies that the largest ensemble takes, of the brokers' default and of all policies."""
    bound: tuple[Bound, ...] = ()
    """Namespaces that are bound to affinity groups of bookies."""
    groups_unknown: str | None = None
    """Why these are not known, in words; None = they are."""
    confirmed: bool = False
    """Whether somebody confirmed that it goes although copies are missing."""


@dataclass(frozen=True)
class BookieGate:
    """The answer."""

    waiting_for: str | None = None
    """What must happen first, in words; None = it may go."""
    writes_pause: str | None = None
    """Why writes pause while it is away, in words; None = they do not."""
    confirmable: bool = False
    """Whether confirmation RollUnderReplicated would open the gate."""


def bookie_gate(step: BookieStep) -> BookieGate:
    """Whether a bookie may be replaced now; one that is not registered may as soon as all others are writable.

    All others are writable, every ledger has all its copies, and so many writable ones are left, also of the affinity
    groups of namespaces, that each topic can have a new ledger. Where there are no more bookies than that takes, there
    never will be: it goes on, and says so.
    """
    storage = step.storage
    if storage is None or step.ensemble is None:
        return BookieGate("the metadata store to say which bookies are writable and which ledgers lack copies")
    absent = sorted(set(step.others) - storage.registered)
    if absent:
        return BookieGate(f"bookie {absent[0]} to be registered as writable{_more(absent)}")
    readonly = sorted(set(step.others) & storage.readonly)
    # One that takes nothing new takes nothing away when it goes.
    if readonly and step.bookie in storage.writable and not step.confirmed:
        return BookieGate(f"bookie {readonly[0]} to be writable again{_more(readonly)}", confirmable=True)
    missing = not_replicated(storage)
    if step.bookie not in storage.registered:
        # It serves nobody: what it lacks is why it is replaced, and nothing is taken from anybody.
        return BookieGate()
    if missing is not None and not step.confirmed:
        return BookieGate(missing, confirmable=True)
    if step.bookie not in storage.writable:
        return BookieGate()
    left = len(storage.writable - {step.bookie})
    if left < step.ensemble <= len(step.others):
        return BookieGate(
            f"{step.ensemble} writable bookies beside {step.bookie}, for the largest ensemble; there are {left}"
        )
    awaited = awaited_in_group(step.bookie, storage.writable, step.bound)
    if awaited is not None:
        return BookieGate(awaited)
    if left < step.ensemble:
        return BookieGate(
            writes_pause=f"{left} writable bookies are left and the largest ensemble takes {step.ensemble}: topics "
            "that need a new ledger wait until the bookie is back"
        )
    if step.groups_unknown is not None:
        return BookieGate(
            writes_pause="topics of namespaces that are bound to affinity groups may have no new ledger until the "
            f"bookie is back: {step.groups_unknown}"
        )
    return BookieGate(writes_pause=paused_in_group(step.bookie, storage.writable, step.bound))


def _more(names: Collection[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def question_of(template: str, workload: Mapping[str, Any] | None) -> Question:
    """What is asked before bookies are replaced although copies are missing: about one rollout of a template.

    ``workload`` is the StatefulSet of the bookies. Its generation tells a rollout from an earlier one to the same
    template, its UID from one of a StatefulSet that was deleted.
    """
    meta = (workload or {}).get("metadata") or {}
    subject = f"{template}/{meta.get('generation', 0)}/{str(meta.get('uid', ''))[:8]}"
    return Question(ClusterConfirmationAction.ROLL_UNDER_REPLICATED, subject)
