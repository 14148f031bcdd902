"""Conditions about bookies and ledgers: which bookies serve and accept writes, the number of copies, the racks.
Pure."""

from __future__ import annotations

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.bookkeeper.ledger_placement import placement_message
from pulsar_operator.domain.bookkeeper.read_only_bookies import READ_ONLY_REASONS, describe_read_only, nearly_full
from pulsar_operator.domain.bookkeeper.storage_facts import replicated
from pulsar_operator.domain.conditions import FALSE, TRUE, UNKNOWN, ConditionSet
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView


def set_read_only(conditions: ConditionSet, view: ClusterView) -> None:
    """Names bookies that are up and read-only. BookKeeperReady is False if a new ledger has too few writable
    bookies."""
    kind, fact = ConditionType.BOOKKEEPER_READY, view.read_only_bookies
    condition = conditions.explained(kind)
    if condition is None or not conditions.is_true(kind):
        return
    before = next((each for each in conditions.previous if each.get("type") == kind.value), {})
    stays = before.get("reason") in READ_ONLY_REASONS
    if fact is None:
        if stays:
            conditions.carry(kind)
        return
    if fact.bookies:
        short = fact.short(stays and before.get("status") == FALSE.value)
        conditions.set(kind, not short, fact.reason, f"{condition[2]}. {describe_read_only(fact)}")
    elif fact.nearly:
        conditions.set(kind, True, condition[1], f"{condition[2]}. {nearly_full(fact)}")


def set_volumes(conditions: ConditionSet, view: ClusterView) -> None:
    """Names volumes of unequal size, and pods that are kept although they cannot start on their volumes. The status of
    the condition stays that of the pods."""
    kind, facts = ConditionType.BOOKKEEPER_READY, view.volumes
    for text in (facts.smaller, facts.refused) if facts is not None else ():
        condition = conditions.explained(kind)
        if condition is not None and text is not None:
            conditions.set(kind, condition[0], condition[1], f"{condition[2]}. {text}")


def set_auto_recovery(conditions: ConditionSet, view: ClusterView) -> None:
    """Sets BookKeeperReady to False without auto-recovery: bookies serve, but lost copies are not restored."""
    facts = view.components.get(Component.AUTORECOVERY)
    if facts is None or facts.all_ready is not False or not conditions.is_true(ConditionType.BOOKKEEPER_READY):
        return
    reason, text = facts.summary("auto-recovery pods")
    conditions.set(ConditionType.BOOKKEEPER_READY, FALSE, reason, f"The bookies are ready. {text}")


def set_replicated(conditions: ConditionSet, view: ClusterView, *, acts: bool) -> None:
    """Sets condition Replicated: whether every ledger has its copies. It keeps its value if this pass did not check."""
    kind, storage = ConditionType.REPLICATED, view.storage
    if storage is None:
        if not conditions.carry(kind):
            conditions.set(kind, UNKNOWN, Reason.UNKNOWN, view.error or "The storage has not been checked yet")
        return
    before = next((each for each in conditions.previous if each.get("type") == kind.value), None)
    unknown = view.volumes.problem if view.volumes is not None else None
    status, reason, text = replicated(storage.facts, before, storage.problem, storage.given_up, unknown)
    if (delay := storage.delay) is not None:
        text += (
            f". lostBookieRecoveryDelay is raised from {delay.before} to {delay.raised} s while bookies are replaced"
        )
        text += "" if acts else ", and stays raised until the pause or dry run of the cluster ends"
    conditions.set(kind, status, reason, text)


def set_racks(conditions: ConditionSet, spec: PulsarClusterSpec, view: ClusterView) -> None:
    """Sets condition RacksKnown if the specification names racks, or racks written earlier cannot be removed."""
    kind = ConditionType.RACKS_KNOWN
    if view.racks is not None and view.racks.condition is not None:
        status, reason, text = view.racks.condition
        placed = view.placement.status if view.placement is not None and status is TRUE else None
        going = view.placement.examining if view.placement is not None and status is TRUE else None
        counting = f". {going}" if going is not None else ""
        conditions.set(kind, status, reason, f"{text}{placement_message(placed)}{counting}")
    elif spec.bookkeeper is not None and spec.bookkeeper.racks is not None and not conditions.carry(kind):
        conditions.set(kind, UNKNOWN, Reason.UNKNOWN, view.error or "The racks have not been checked yet")
