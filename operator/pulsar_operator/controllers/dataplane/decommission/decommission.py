"""A bookie that is too many is emptied and removed, one at a time, the highest ordinal first; one that lost its volume,
or is to have another, is emptied and starts anew.

What is known is read in decommission_observation.py, what is next is decided in
domain/dataplane/decommission/decommission.py and domain/dataplane/decommission/volume_replacement.py, and
decommission_actions.py does it. Everything is read again in each pass: what the bookie reports, what the metadata store
reports of it, and, during a decommission, every ledger.
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
from pulsar_operator.controllers.dataplane.decommission.decommission_observation import Seen, stored_row
from pulsar_operator.controllers.dataplane.decommission.restore_writable import make_writable
from pulsar_operator.controllers.dataplane.decommission.volume_requests import requests
from pulsar_operator.controllers.dataplane.observed.phase import Step, wanted
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.dataplane.cluster.cluster_view import LeaveFact
from pulsar_operator.domain.dataplane.decommission.decommission import may_act
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, Leaving, Next
from pulsar_operator.domain.dataplane.decommission.decommission_record import MEMO_PATH, LeavingMemo, parse_leaving_memo
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of
from pulsar_operator.ports import Json, PortError


async def leave(step: Step) -> LeaveFact:
    """One thing for a bookie that is too many, or was. Raises NameConflictError, PortError of Kubernetes alone."""
    there, metadata, storage = step.live.stateful_set(Component.BOOKIE), step.view.metadata, step.view.storage
    if there is None:
        return LeaveFact()
    # Before anything else: a request must be kept while its pod is there.
    asked = await requests(step, there)
    if metadata is None or not metadata.local_ready or storage is None or storage.facts is None:
        return _unknown(step, storage.problem if storage is not None else "the metadata store is not known")
    if (away := step.store_unavailable) is not None:
        short = "while the configuration store is away: too few others do"
        await make_writable(step, short, others=storage.facts.writable)
        return _held(step, there, away)
    local = local_store(step)
    try:
        session = await step.hand.deps.zookeeper.session(local.servers, local.chroot)
    except PortError as error:
        return _unknown(step, str(error))
    return await _next_action(Decommission(step, there, Seen(step, there, session, asked)), storage.facts)


def _held(step: Step, there: Json, away: str) -> LeaveFact:
    """While the configuration store is away no topic can be unloaded: none begins to leave, and none goes on."""
    if stored_row(step) is not None or replicas_of(there) <= wanted(step, Component.BOOKIE):
        return _unknown(step, away)
    text = f"A bookie is to be removed: waiting for {away}"
    return LeaveFact(waiting_for=away, reason=Reason.CONFIGURATION_STORE_UNAVAILABLE, message=text)


def _unknown(step: Step, why: str) -> LeaveFact:
    """While nothing is known: what the status says of it stays, and nothing is done."""
    row, there = stored_row(step), step.live.stateful_set(Component.BOOKIE)
    if row is None:
        if there is None or replicas_of(there) <= wanted(step, Component.BOOKIE):
            return LeaveFact()
        return LeaveFact(waiting_for=why, message=f"A bookie is to be removed: waiting for {why}")
    text = f"Bookie {row.id} leaves: waiting for {why}"
    return LeaveFact(row.id, row.ordinal, row.step, why, message=text, holds=True)


async def _next_action(the: Decommission, storage: StorageFacts) -> LeaveFact:
    """Look, decide, and do one thing."""
    step, session, own = the.step, the.session, own_bookies(the.step)
    try:
        node = await session.get(MEMO_PATH)
        memo = parse_leaving_memo(node.data) if node is not None else None
        the.memo_version = node.version if node is not None else None
        if memo is not None and own.ordinal(memo.bookie) != memo.ordinal:
            return await _of_another(the, memo, own)
    except PortError as error:
        return _unknown(step, str(error))
    bookie = await the.seen.bookie(storage, memo)
    if bookie is None:
        return LeaveFact()
    try:
        bookie, found = await the.seen.decide(bookie)
    except PortError as error:
        return _unknown(step, str(error))
    return LeaveFact() if found is None else await _act(the, bookie, found)


async def _of_another(the: Decommission, memo: LeavingMemo, own: OwnBookies) -> LeaveFact:
    """The memo is of a bookie that had another name: nothing here is about it. Raises PortError."""
    text = f"Bookie {memo.bookie} is not {own.id(memo.ordinal)}: what was remembered of it is forgotten"
    if not the.hand.act:
        the.hand.pending.append(text)
        return LeaveFact()
    await the.forget_memo()
    await the.hand.record_event(Reason.DECOMMISSIONING_BOOKIE, text)
    return LeaveFact(again=True)


async def _act(the: Decommission, bookie: Leaving, found: Next) -> LeaveFact:
    hand = the.hand
    if found.act is Act.NOTHING:
        waits = fact(bookie, found, waiting_for=None if found.reason is not None else found.text)
        if bookie.examining is not None:
            return replace(waits, again=hand.act)
        by = the.seen.answered(found.question) if found.question is not None and hand.act else None
        return waits if by is None else replace(waits, confirmed=by, again=True)
    if not hand.act:
        hand.pending.append(f"{found.text}: {found.act.value}")
        shown = replace(found, step=None)
        return replace(fact(bookie, shown), step=bookie.step, holds=bookie.under_way or bookie.step is not None)
    action = ACTIONS.get(found.act, Action())  # one that only looks has none, and may have a look to go
    if not may_act(found, bookie.step) or (action.last_look and not await _may_go(the, bookie, found)):
        return replace(fact(bookie, found), again=True)
    if action.ends_pod and (refused := await refused_again(the.step, the.there, bookie.uid)):
        return replace(fact(bookie, found), reason=refused.reason, message=refused.message)
    if action.before is not None and (ended := await action.before(the, bookie, found)):
        return ended
    memo = begun(bookie, found) if found.act is Act.BEGIN else bookie.memo
    try:
        if action.write is not None and memo is not None:
            await action.write(the, bookie, found, memo)
    except PortError as error:
        return fact(bookie, found, waiting_for=f"{found.act.value}: {error}")
    if action.finish is not None and (ended := await action.finish(the, bookie, found)):
        return ended
    return replace(fact(bookie, found), again=action.again)


async def _may_go(the: Decommission, bookie: Leaving, found: Next) -> bool:
    """Whether it has taken nothing since the look at the ledgers began, or is still away where what it had is given
    up. Asked directly before; a store that does not answer says no."""
    renewal = found.renewal or (bookie.memo.renewal if bookie.memo is not None else None)
    if bookie.registered and await the.seen.readonly(bookie.ordinal) is not True:
        return False
    try:
        now = await storage_facts(the.session)
    except PortError:
        return False
    given_up = renewal is not None and renewal.accepted and not bookie.registered
    return bookie.bookie not in (now.registered if given_up else now.writable)
