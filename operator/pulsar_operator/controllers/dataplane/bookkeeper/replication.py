"""Reads bookies and copies from the metadata store, and restores the recovery delay once all bookies are back.

Runs also while the specification is refused, when no rollout continues. During a pause or a dry run the delay stays,
and the status shows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster_status import RecoveryDelayStatus
from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.core.stores import Store, metadata_store
from pulsar_operator.controllers.dataplane.bookkeeper.abandoned_ledgers import still_given_up
from pulsar_operator.controllers.dataplane.bookkeeper.incarnations import CountCopy, own_bookies_in, settle
from pulsar_operator.controllers.dataplane.bookkeeper.recovery_delay import (
    RaisedDelay,
    raise_delay,
    raised_delay,
    restore_delay,
    seconds_for,
)
from pulsar_operator.controllers.dataplane.bookkeeper.storage_facts import storage_facts
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.bookkeeper.storage_facts import Space, StorageFacts
from pulsar_operator.domain.dataplane.cluster.cluster_view import StorageFact
from pulsar_operator.ports import Deps, PortError, ZooKeeperSession


def local_store(ctx: PhaseContext) -> Store:
    """The cluster's own metadata store."""
    found = ctx.rendered.metadata_store
    assert found is not None
    return Store(found.servers, found.chroot or None)


async def replication(ctx: PhaseContext) -> StorageFact:
    """Reads the storage facts; if the store does not answer, that is the fact."""
    metadata = ctx.view.metadata
    if metadata is None or not metadata.local_ready:
        return StorageFact(problem=metadata.message if metadata is not None else "ZooKeeper has no quorum")
    found = await _observe(ctx, local_store(ctx))
    if found.facts is None:
        return found
    asked, ready = ctx.actor.deps.clock.now(), _ready_bookies(ctx, found.facts)
    # Copies go to writable bookies of others too.
    own = own_bookies_in(ctx.facts, found.facts)
    others = [each for each in sorted(found.facts.writable) if own.ordinal(each) is None]
    return replace(found, disks=await disk_space(ctx.actor.deps, [*ready, *others]), disks_at=asked)


def _ready_bookies(ctx: PhaseContext, storage: StorageFacts) -> list[str]:
    """Returns ids of the bookies whose pods are ready."""
    facts, own = ctx.live.facts(Component.BOOKIE), own_bookies_in(ctx.facts, storage)
    pods = facts.pods if facts is not None else ()
    return [own.id(each.ordinal) for each in pods if each.ready]


async def replication_alone(ctx: PhaseContext) -> StorageFact | None:
    """Reads them while the specification is refused, at the store's address in the status. None if there is no bookie,
    or no address."""
    store = metadata_store(ctx.facts.obj)
    if store is None or ctx.live.stateful_set(Component.BOOKIE) is None:
        return None
    return await _observe(ctx, store)


async def _observe(ctx: PhaseContext, store: Store) -> StorageFact:
    try:
        session = await ctx.actor.deps.zookeeper.session(store.servers, store.chroot)
        facts = await storage_facts(session)
        given_up = await still_given_up(session, act=ctx.actor.act)
        if ctx.actor.act and ctx.manifests is not None:
            copy = CountCopy(ctx.actor.deps, ctx.facts)
            facts = await settle(session, own_bookies_in(ctx.facts, facts), facts, copy)
        raised = await _settle_delay(ctx, session)
    except PortError as error:
        return StorageFact(problem=str(error))
    delay = RecoveryDelayStatus(before=raised.before, raised=raised.raised) if raised else None
    return StorageFact(facts, delay=delay, given_up=given_up)


async def _settle_delay(ctx: PhaseContext, session: ZooKeeperSession) -> RaisedDelay | None:
    """Restores the delay if no bookie is being replaced, or raises it further if necessary; returns the delay that is
    raised after that."""
    raised, back = await raised_delay(session), _bookies_are_back(ctx)
    if not ctx.actor.act:
        if raised is not None and back:
            ctx.actor.pending.append(f"{_restoring(raised)}, because no bookie is being replaced")
        return raised
    if back:
        await _restore_delay(ctx, session)
    elif raised is not None and ctx.manifests is not None:
        # The deadline may have been made longer while a bookie is away.
        await raise_delay(session, seconds_for(ctx.facts.spec))
    return await raised_delay(session)


def _restoring(raised: RaisedDelay) -> str:
    return f"Reset lostBookieRecoveryDelay from {raised.raised} to {raised.before} s"


def _bookies_are_back(ctx: PhaseContext) -> bool:
    """Whether no bookie is being replaced, and none will be soon."""
    facts, template_order = ctx.live.facts(Component.BOOKIE), ctx.view.template_order
    if facts is None or not facts.all_ready:
        return False
    if ctx.manifests is None:
        return True
    if template_order is None:
        return False
    turn = template_order.of.get(Component.BOOKIE)
    settled = bool(facts.up_to_date) and (turn is None or not turn.pending)
    return settled or template_order.blocker_of(Component.BOOKIE) is not None


async def _restore_delay(ctx: PhaseContext, session: ZooKeeperSession) -> None:
    found = await restore_delay(session)
    if found is not None:
        ctx.actor.record_write(f"{_restoring(found)}, because the bookies are back")


IN_FLIGHT: Final = 16


async def disk_space(deps: Deps, bookies: list[str]) -> dict[str, Space]:
    """Returns used and total disk space by bookie id; a bookie that does not report it is left out."""

    async def asked(bookie: str) -> tuple[str, Space] | None:
        try:
            disk = await deps.bookies.disk(host_of(bookie))
        except PortError:
            return None
        return (bookie, Space(disk.total - disk.free, disk.total)) if 0 < disk.total >= disk.free else None

    return dict(filter(None, await each_of(bookies, asked, IN_FLIGHT)))
