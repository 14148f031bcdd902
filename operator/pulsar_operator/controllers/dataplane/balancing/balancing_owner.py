"""Who balances continuously: the operator, or Pulsar, also while the operator cannot decide what to move.

Called by balance.py. balance/execution/handover.py decides; this module reads the cluster's status and the record of
the settings, and writes the decision before the settings are changed (load_balancer.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.cluster_status import HandoverStatus, PulsarClusterStatus
from pulsar_operator.balance.execution.custom_resource import is_standing, standing_name
from pulsar_operator.balance.execution.handover import (
    Handover,
    ability_of,
    balancing_condition,
    judge,
    pulsar_balances_message,
)
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.balancing.balancer_record import MAX_COUNT, BalancerRecord
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS, executing, hold, holder
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.cluster.cluster_view import BalanceFact
from pulsar_operator.ports import AdminEndpoint, Json, PortError, UnavailableError


@dataclass(frozen=True)
class BalancerTurn:
    """Who balances continuously."""

    known: Handover = field(default_factory=Handover)
    begins: bool = False
    """Whether Pulsar takes over in this pass."""
    condition: tuple[bool, Reason, str] | None = None
    """Condition BalancingActive."""

    @property
    def status(self) -> HandoverStatus | None:
        """The part of the cluster's status."""
        return _to_status(self.known)


@dataclass(frozen=True)
class Question:
    """The facts of a pass about a cluster's balancing."""

    cluster: Json
    rebalances: Sequence[Json]
    """PulsarRebalances that may belong to the cluster."""
    before: PulsarClusterStatus
    """The stored status of the cluster. If another version wrote it in an unreadable form, the record has the
    content."""
    drives: bool
    """Whether ``spec.loadBalancing.driver`` is Operator."""
    rolls: bool = False
    """Whether brokers are being replaced, and nothing blocks that."""
    drains: bool = False
    """Whether brokers are being drained."""


async def whose_turn(actor: Actor, endpoint: AdminEndpoint, record: BalancerRecord, asked: Question) -> BalanceFact:
    """Decides who balances: takes Pulsar's balancer over, or restores it. Raises PortError for Kubernetes alone."""
    cluster, old = asked.cluster, asked.before.balancer
    going = executing(cluster, asked.rebalances)
    now = actor.deps.clock.now() if asked.drives or going else None
    turn = await _judged(actor, record, asked, now) if asked.drives and now is not None else BalancerTurn()
    if turn.begins:
        # It is in the status before the settings are restored: by then the standing rebalance moves nothing.
        status = old.model_copy(update={"disabled_for": None}) if old is not None else None
        return BalanceFact(status, again=True, handover=turn.status, condition=turn.condition)
    with_pulsar = turn.known.restored_at is not None
    candidates = {name: each for name, each in going.items() if not (with_pulsar and is_standing(each, cluster))}
    desired = (
        holder(cluster, candidates, old.disabled_for if old is not None else None, now) if now is not None else None
    )
    # Not given back between two brokers of a roll: it would undo what was just planned.
    keep = (asked.drives and not with_pulsar) or asked.drains or (old is not None and asked.rolls)
    try:
        found = await hold(
            actor.deps, actor, endpoint, old, desired, drives=keep, record=record, handover=turn.known, executing=going
        )
    except PortError as error:
        # Its pods are as they should be; the next look tries again.
        await actor.warn(
            Reason.ADMIN_UNREACHABLE, f"The settings of Pulsar's balancer cannot be read or written: {error}"
        )
        words = _not_obeyed(error) if turn.condition is not None else None
        return BalanceFact(
            again=True, observed=False, moving=desired, handover=turn.status, condition=words or turn.condition
        )
    return BalanceFact(found.status, found.again, moving=desired, handover=turn.status, condition=turn.condition)


def _not_obeyed(error: PortError) -> tuple[bool, Reason, str] | None:
    """Returns condition BalancingActive if Pulsar answers and does not change its settings; None if it does not answer,
    which the standing PulsarRebalance reports as well."""
    if isinstance(error, UnavailableError) and not error.status:
        return None
    why = str(error)[:2000]
    text = (
        f"The settings of Pulsar's own load balancer differ from the desired settings: {why}. Check these settings, "
        "and check "
    )
    return (
        False,
        Reason.ADMIN_UNREACHABLE,
        f"{text}whether Pulsar allows the operator's role to change dynamic settings",
    )


async def _judged(actor: Actor, record: BalancerRecord, asked: Question, now: datetime) -> BalancerTurn:
    """Judges by the standing PulsarRebalance whether the operator can decide. If the operator does not act on the
    cluster, nothing changes: it may not restore settings then. Raises PortError.
    """
    cluster, status = asked.cluster, asked.before.balancer
    name = standing_name(cluster)
    standing = next((each for each in asked.rebalances if is_standing(each, cluster)), None)
    ability = ability_of(standing, name, now, changing=asked.rolls or asked.drains)
    if ability.reason is Reason.WAITING_FOR_BALANCER and (status is None or status.disabled_for is None):
        # For nobody else: the settings are not changed, which takes a moment, or Pulsar does not let the operator.
        ability = replace(ability, decides=False)
    before = _known(asked.before, record)
    after = judge(before, now.timestamp(), ability.decides)
    begins = after.count > before.count
    if not actor.act:
        if begins:
            actor.pending.append("Restore Pulsar's own load balancer")
        return BalancerTurn(before, condition=balancing_condition(before, ability, name))
    if begins:
        saved = status.saved if status is not None else record.saved(FLAGS)
        await record.write(saved, after, disabled=status is not None or record.disabled)
        actor.deps.metrics.balancer_restored(cluster["metadata"]["namespace"], cluster["metadata"]["name"])
        await actor.warn(Reason.PULSAR_BALANCES, pulsar_balances_message(after, ability))
    return BalancerTurn(after, begins, balancing_condition(after, ability, name))


def _known(before: PulsarClusterStatus, record: BalancerRecord) -> Handover:
    """Returns the state in the status, or in the record if that has more: the status was lost, or is no longer
    written."""
    status, noted = _from_status(before.handover or HandoverStatus()), record.handover()
    return noted if noted.count > status.count else status


def _from_status(status: HandoverStatus) -> Handover:
    return Handover(
        _seconds(status.undecided_since),
        _seconds(status.decided_since),
        _seconds(status.evaluated_time),
        _seconds(status.restored_time),
        min(max(status.count, 0), MAX_COUNT),
    )


def _to_status(known: Handover) -> HandoverStatus | None:
    if known == Handover():
        return None
    return HandoverStatus(
        undecided_since=_time(known.undecided_since),
        decided_since=_time(known.decided_since),
        evaluated_time=_time(known.last_observed),
        restored_time=_time(known.restored_at),
        count=known.count,
    )


def _seconds(text: str | None) -> float | None:
    found = parse_time(text)
    return max(found.timestamp(), 0.0) if found is not None else None


def _time(seconds: float | None) -> str | None:
    return timestamp(datetime.fromtimestamp(seconds, UTC)) if seconds is not None else None
