"""Bookies that are read-only although the operator did not make them so: they are reported, nothing else is done."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import own_bookies
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.observed.quorums import broker_groups, widest_ensemble
from pulsar_operator.domain.bookkeeper.affinity import Widest, short_in_group
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.bookkeeper.read_only_bookies import (
    DiskLimits,
    ReadOnlyBookies,
    begun,
    describe_bookie,
    nearly,
    read_only,
    rows_of,
)
from pulsar_operator.domain.dataplane.registration.quorum_record import default_ensemble
from pulsar_operator.domain.render.volumes import disk_shares
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import PortError


async def read_only_bookies(ctx: PhaseContext) -> ReadOnlyBookies | None:
    """Returns the read-only bookies, and records an event for each new one. None if not known. Raises PortError of
    Kubernetes."""
    storage, keeper, leave = ctx.view.storage, ctx.facts.spec.bookkeeper, ctx.view.decommission
    if storage is None or storage.facts is None or keeper is None or leave is None:
        return None
    facts, own, usage = storage.facts, own_bookies(ctx), storage.usage
    limits = DiskLimits(*disk_shares(keeper, ctx.facts.spec.preset))
    previous = {row.id: row for row in ctx.facts.before.bookies}
    # While a bookie has a step the operator has it read-only, or is about to.
    ours = {leave.bookie} if leave.bookie is not None and leave.step is not None else set()
    own_ids = {each for each in facts.registered if own.ordinal(each) is not None} - ours
    found = read_only(facts, own_ids & await _not_writable(ctx, facts.readonly & own_ids), usage, limits)
    rows = rows_of(found, usage, previous, ctx.actor.deps.clock.now())
    for each in begun(rows, previous):
        await ctx.actor.warn(each.reason, sentence(describe_bookie(each, limits)))
    widest = await _widest(ctx, len(facts.writable)) if rows else None
    return ReadOnlyBookies(
        limits,
        rows,
        nearly(facts, own_ids, usage, previous, limits),
        len(facts.writable),
        widest,
        short_in_group(facts.writable, facts.readonly, widest.bound) if widest is not None else None,
    )


async def _not_writable(ctx: PhaseContext, bookies: frozenset[str] | set[str]) -> set[str]:
    """Returns the bookies that do not report that they are writable by now: the metadata store learns of that a moment
    later."""

    async def says(bookie: str) -> bool:
        try:
            return await ctx.actor.deps.bookies.readonly(host_of(bookie))
        except PortError:
            return True

    asked = sorted(bookies)
    return {bookie for bookie, readonly in zip(asked, await asyncio.gather(*map(says, asked)), strict=True) if readonly}


async def _widest(ctx: PhaseContext, writable: int) -> Widest | None:
    """Returns the largest ensemble; None if not known. Policies are not read if the default already has too few
    bookies."""
    assert ctx.rendered.quorum is not None
    default, store = default_ensemble(ctx.live, ctx.rendered.quorum.ensemble_size), ctx.facts.instance.store
    if writable < default.size:
        return default
    deps, local = ctx.actor.deps, local_store(ctx)
    try:
        if ctx.facts.instance.own_store:
            policies = await deps.zookeeper.session(local.servers, local.chroot)
        elif store.ready:
            policies = await deps.zookeeper.session(store.servers or "", store.chroot)
        else:
            return None
        session = await deps.zookeeper.session(local.servers, local.chroot)
        groups = broker_groups(ctx.facts.spec)
        found = await widest_ensemble(deps, policies, default.size, ctx.facts.obj, local=session, groups=groups)
    except PortError:
        return None
    if found.problem is not None and writable >= found.size:
        return None  # whether each namespace that is bound to groups can have ledgers
    return found if found.size > default.size else replace(found, size=default.size, whose=default.whose)
