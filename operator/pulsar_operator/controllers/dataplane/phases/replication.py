"""What the metadata store says of bookies and copies; and the auditor's patience, given back once bookies are back."""

from __future__ import annotations

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import RecoveryDelayStatus
from pulsar_operator.controllers.dataplane.bootstrap import Store
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.recovery_delay import raised_delay, restore_delay
from pulsar_operator.controllers.dataplane.storage_facts import storage_facts
from pulsar_operator.domain.dataplane.cluster_view import StorageFact
from pulsar_operator.ports import PortError, ZooKeeperSession


def local_store(step: Step) -> Store:
    """The cluster's own metadata store."""
    found = step.rendered.metadata_store
    assert found is not None
    return Store(found.servers, found.chroot or None)


async def replication(step: Step) -> StorageFact:
    """Read it; where nobody answers that is what is known."""
    metadata = step.view.metadata
    if metadata is None or not metadata.local_ready:
        return StorageFact(problem=metadata.message if metadata is not None else "ZooKeeper has no quorum")
    store = local_store(step)
    try:
        session = await step.hand.deps.zookeeper.session(store.servers, store.chroot)
        facts = await storage_facts(session)
        if step.hand.act and _bookies_are_back(step):
            await _give_back(step, session)
        raised = await raised_delay(session)
    except PortError as error:
        return StorageFact(problem=str(error))
    return StorageFact(facts, delay=RecoveryDelayStatus(before=raised.before, raised=raised.raised) if raised else None)


def _bookies_are_back(step: Step) -> bool:
    """Whether no bookie is away for its replacement, and none will be in a moment."""
    facts, turns = step.live.facts(Component.BOOKIE), step.view.turns
    if facts is None or not facts.all_ready or turns is None:
        return False
    turn = turns.of.get(Component.BOOKIE)
    settled = bool(facts.up_to_date) and (turn is None or not turn.pending)
    return settled or turns.holds(Component.BOOKIE) is not None


async def _give_back(step: Step, session: ZooKeeperSession) -> None:
    found = await restore_delay(session)
    if found is not None:
        text = f"Set lostBookieRecoveryDelay back from {found.raised} to {found.before} s: the bookies are back"
        await step.hand.record_event(Reason.APPLIED, text)
