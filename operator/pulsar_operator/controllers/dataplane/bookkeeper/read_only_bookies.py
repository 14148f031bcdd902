"""Bookies that take nothing new although the operator did not make them read-only: told, and nothing else is done."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import own_bookies
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.observed.phase import Step
from pulsar_operator.controllers.dataplane.observed.quorums import broker_groups, widest_ensemble
from pulsar_operator.domain.bookkeeper.affinity import Widest, short_in_group
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.bookkeeper.read_only_bookies import (
    DiskLimits,
    Unwritable,
    begun,
    nearly,
    one_said,
    read_only,
    rows_of,
)
from pulsar_operator.domain.dataplane.registration.quorum_record import default_ensemble
from pulsar_operator.domain.render.volumes import disk_shares
from pulsar_operator.ports import PortError


async def unwritable(step: Step) -> Unwritable | None:
    """Which there are, with an event for each that became so. None = not known. Raises PortError of Kubernetes."""
    storage, keeper, leave = step.view.storage, step.facts.spec.bookkeeper, step.view.leave
    if storage is None or storage.facts is None or keeper is None or leave is None:
        return None
    facts, own, usage = storage.facts, own_bookies(step), storage.usage
    limits = DiskLimits(*disk_shares(keeper, step.facts.spec.preset))
    previous = {row.id: row for row in step.facts.before.bookies}
    # While a bookie has a step the operator has it read-only, or is about to.
    ours = {leave.bookie} if leave.bookie is not None and leave.step is not None else set()
    mine = {each for each in facts.registered if own.ordinal(each) is not None} - ours
    found = read_only(facts, mine & await _not_writable(step, facts.readonly & mine), usage, limits)
    rows = rows_of(found, usage, previous, step.hand.deps.clock.now())
    for each in begun(rows, previous):
        await step.hand.warn(each.reason, _capital(one_said(each, limits)))
    widest = await _widest(step, len(facts.writable)) if rows else None
    return Unwritable(
        limits,
        rows,
        nearly(facts, mine, usage, previous, limits),
        len(facts.writable),
        widest,
        short_in_group(facts.writable, facts.readonly, widest.bound) if widest is not None else None,
    )


async def _not_writable(step: Step, bookies: frozenset[str] | set[str]) -> set[str]:
    """Those that do not say that they are writable by now: the metadata store hears of that a moment later."""

    async def says(bookie: str) -> bool:
        try:
            return await step.hand.deps.bookies.readonly(host_of(bookie))
        except PortError:
            return True

    asked = sorted(bookies)
    return {bookie for bookie, said in zip(asked, await asyncio.gather(*map(says, asked)), strict=True) if said}


async def _widest(step: Step, writable: int) -> Widest | None:
    """The largest ensemble; None = not known. Policies are not looked at where the default has no room already."""
    assert step.rendered.quorum is not None
    default, store = default_ensemble(step.live, step.rendered.quorum.ensemble_size), step.facts.instance.store
    if writable < default.size:
        return default
    deps, local = step.hand.deps, local_store(step)
    try:
        if step.facts.instance.own_store:
            policies = await deps.zookeeper.session(local.servers, local.chroot)
        elif store.ready:
            policies = await deps.zookeeper.session(store.servers or "", store.chroot)
        else:
            return None
        session = await deps.zookeeper.session(local.servers, local.chroot)
        groups = broker_groups(step.facts.spec)
        found = await widest_ensemble(deps, policies, default.size, step.facts.obj, local=session, groups=groups)
    except PortError:
        return None
    if found.problem is not None and writable >= found.size:
        return None  # whether each namespace that is bound to groups can have ledgers
    return found if found.size > default.size else replace(found, size=default.size, whose=default.whose)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
