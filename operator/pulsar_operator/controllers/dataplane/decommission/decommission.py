"""Decommissions surplus bookies one at a time, the highest ordinal first, and replaces volumes that are lost or whose
replacement is requested.

decommission_observation.py reads the facts, domain/dataplane/decommission/decommission.py and
domain/dataplane/decommission/volume_replacement.py decide the next action, and decommission_actions.py carries it out.
Everything is read again in each pass: what the bookie reports, what the metadata store reports of it, and, during a
decommission, every ledger.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import own_bookies, refused_again
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.bookkeeper.storage_facts import storage_facts
from pulsar_operator.controllers.dataplane.decommission.decommission_actions import (
    ACTIONS,
    Action,
    Decommission,
    begun,
    fact,
)
from pulsar_operator.controllers.dataplane.decommission.decommission_observation import (
    DecommissionObservation,
    stored_row,
)
from pulsar_operator.controllers.dataplane.decommission.restore_writable import make_writable
from pulsar_operator.controllers.dataplane.decommission.volume_requests import requests
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext, desired_pods
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.dataplane.cluster.cluster_view import DecommissionFact
from pulsar_operator.domain.dataplane.decommission.decommission import may_act
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, DecommissionFacts, Next
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    DecommissionRecord,
    parse_decommission_record,
)
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import Json, PortError


async def decommission(ctx: PhaseContext) -> DecommissionFact:
    """Does one action for a bookie that is, or was, surplus. Raises NameConflictError, PortError of Kubernetes
    alone."""
    there, metadata, storage = ctx.live.stateful_set(Component.BOOKIE), ctx.view.metadata, ctx.view.storage
    if there is None:
        return DecommissionFact()
    # Before anything else: a request must be kept while its pod is there.
    asked = await requests(ctx, there)
    if metadata is None or not metadata.local_ready or storage is None or storage.facts is None:
        return _unknown(
            ctx, storage.problem if storage is not None else ("The state of the metadata store is not known yet")
        )
    if (unavailable := ctx.store_unavailable) is not None:
        short = "the configuration store is unavailable and too few other bookies are writable"
        await make_writable(ctx, short, others=storage.facts.writable)
        return _store_unavailable(ctx, there, unavailable)
    local = local_store(ctx)
    try:
        session = await ctx.actor.deps.zookeeper.session(local.servers, local.chroot)
    except PortError as error:
        return _unknown(ctx, str(error))
    return await _next_action(
        Decommission(ctx, there, DecommissionObservation(ctx, there, session, asked)), storage.facts
    )


def _store_unavailable(ctx: PhaseContext, there: Json, unavailable: str) -> DecommissionFact:
    """Returns the report while the configuration store is unavailable: no topic can be unloaded, so no decommission
    begins or continues."""
    if stored_row(ctx) is not None or replicas_of(there) <= desired_pods(ctx, Component.BOOKIE):
        return _unknown(ctx, unavailable)
    text = f"A bookie is to be decommissioned, but the decommission cannot begin. {unavailable}"
    return DecommissionFact(reason=Reason.CONFIGURATION_STORE_UNAVAILABLE, message=text)


def _unknown(ctx: PhaseContext, why: str) -> DecommissionFact:
    """Returns the report while nothing is known: the status keeps its row, and nothing is done."""
    row, there = stored_row(ctx), ctx.live.stateful_set(Component.BOOKIE)
    if row is None:
        if there is None or replicas_of(there) <= desired_pods(ctx, Component.BOOKIE):
            return DecommissionFact()
        return DecommissionFact(
            message=(f"A bookie is to be decommissioned, but the decommission cannot begin. {sentence(why)}")
        )
    text = f"Bookie {row.id} is being decommissioned, but the decommission cannot continue. {sentence(why)}"
    return DecommissionFact(row.id, row.ordinal, row.step, message=text, blocks_rollout=True)


async def _next_action(work: Decommission, storage: StorageFacts) -> DecommissionFact:
    """Observes, decides, and does one action."""
    ctx, session, own = work.ctx, work.session, own_bookies(work.ctx)
    try:
        node = await session.get(DECOMMISSION_RECORD_PATH)
        record = parse_decommission_record(node.data) if node is not None else None
        work.record_version = node.version if node is not None else None
        if record is not None and own.ordinal(record.bookie) != record.ordinal:
            return await _of_another(work, record, own)
    except PortError as error:
        return _unknown(ctx, str(error))
    bookie = await work.observation.bookie(storage, record)
    if bookie is None:
        return DecommissionFact()
    try:
        bookie, found = await work.observation.decide(bookie)
    except PortError as error:
        return _unknown(ctx, str(error))
    return DecommissionFact() if found is None else await _act(work, bookie, found)


async def _of_another(work: Decommission, record: DecommissionRecord, own: OwnBookies) -> DecommissionFact:
    """Deletes the record of a bookie that had another name: it does not apply to this one. Raises PortError."""
    text = (
        f"The operator deletes the record of the decommission of bookie {record.bookie}, because ordinal "
        f"{record.ordinal} now has bookie id {own.id(record.ordinal)}"
    )
    if not work.actor.act:
        work.actor.pending.append(text)
        return DecommissionFact()
    await work.forget_record()
    await work.actor.record_event(Reason.DECOMMISSIONING_BOOKIE, text)
    return DecommissionFact(again=True)


async def _act(work: Decommission, bookie: DecommissionFacts, found: Next) -> DecommissionFact:
    actor = work.actor
    if found.act is Act.NOTHING:
        waits = fact(bookie, found, blocker=None if found.reason is not None else found.text)
        if bookie.examining is not None:
            return replace(waits, again=actor.act)
        by = work.observation.answered(found.question) if found.question is not None and actor.act else None
        return waits if by is None else replace(waits, confirmed=by, again=True)
    if not actor.act:
        actor.pending.append(f"{sentence(found.act.value)}. {sentence(found.text)}")
        shown = replace(found, step=None)
        return replace(
            fact(bookie, shown), step=bookie.step, blocks_rollout=bookie.under_way or bookie.step is not None
        )
    action = ACTIONS.get(found.act, Action())  # one that only looks has none, and may have a look to go
    if not may_act(found, bookie.step) or (action.final_check and not await _may_go(work, bookie, found)):
        return replace(fact(bookie, found), again=True)
    if action.ends_pod and (refused := await refused_again(work.ctx, work.there, bookie.uid)):
        return replace(fact(bookie, found), reason=refused.reason, message=refused.message)
    if action.before is not None and (ended := await action.before(work, bookie, found)):
        return ended
    record = begun(bookie, found) if found.act is Act.BEGIN else bookie.record
    try:
        if action.write is not None and record is not None:
            await action.write(work, bookie, found, record)
    except PortError as error:
        return fact(bookie, found, blocker=f"The operator could not {found.act.value}: {error}")
    if action.finish is not None and (ended := await action.finish(work, bookie, found)):
        return ended
    return replace(fact(bookie, found), again=action.again)


async def _may_go(work: Decommission, bookie: DecommissionFacts, found: Next) -> bool:
    """Whether the bookie has taken no entries since the ledgers were read, or is still missing if its ledgers are
    abandoned. Asked directly before the action; without an answer it is False."""
    renewal = found.renewal or (bookie.record.renewal if bookie.record is not None else None)
    if bookie.registered and await work.observation.readonly(bookie.ordinal) is not True:
        return False
    try:
        now = await storage_facts(work.session)
    except PortError:
        return False
    given_up = renewal is not None and renewal.accepted and not bookie.registered
    return bookie.bookie not in (now.registered if given_up else now.writable)
