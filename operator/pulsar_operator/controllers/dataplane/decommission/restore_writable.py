"""Makes a bookie that is being decommissioned writable while the specification is refused, since write capacity is not
checked then. While the configuration store is unavailable, it does so if too few other bookies are writable."""

from __future__ import annotations

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.core.stores import metadata_store
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    parse_decommission_record,
)
from pulsar_operator.ports import PortError


async def restore_writable(ctx: PhaseContext) -> None:
    """Makes it writable; the decommission continues once the specification is accepted."""
    await make_writable(ctx, "the specification is refused")


async def make_writable(ctx: PhaseContext, why: str, *, others: frozenset[str] | None = None) -> None:
    """Makes it writable, and records that. ``others`` are writable bookies; it stays read-only if these suffice for new
    ledgers. So does a bookie whose PersistentVolumeClaims are deleted, by the metadata store."""
    store = metadata_store(ctx.facts.obj)
    if store is None or ctx.live.stateful_set(Component.BOOKIE) is None:
        return
    try:
        session = await ctx.actor.deps.zookeeper.session(*store)
        node = await session.get(DECOMMISSION_RECORD_PATH)
        record = parse_decommission_record(node.data) if node is not None else None
        if node is None or record is None or record.restored or record.forgot or not record.run:
            return
        if others is None and record.renewal is not None and record.renewal.claims:
            # What it takes now is gone with its pod.
            storage = ctx.view.storage
            others = storage.facts.writable if storage is not None and storage.facts is not None else None
        if others is not None and len(others - {record.bookie}) >= record.ensemble:
            return
        host, bookies = host_of(record.bookie), ctx.actor.deps.bookies
        if not await bookies.readonly(host):
            return
        text = f"Bookie {record.bookie} is made writable, because {why}"
        if not ctx.actor.act:
            ctx.actor.pending.append(text)
            return
        await session.set(DECOMMISSION_RECORD_PATH, record.before_restore().data(), version=node.version)
        await bookies.set_readonly(host, False)
        await session.set(DECOMMISSION_RECORD_PATH, record.after_restore().data(), version=node.version + 1)
        await ctx.actor.record_event(Reason.DECOMMISSIONING_BOOKIE, text)
    except PortError:
        return
