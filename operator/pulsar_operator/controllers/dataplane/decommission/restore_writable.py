"""A bookie that is on its way out takes entries again while the specification is refused: nobody looks meanwhile how
many others do. While the configuration store is away it does where too few others do."""

from __future__ import annotations

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.core.stores import metadata_store
from pulsar_operator.controllers.dataplane.observed.phase import Step
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.dataplane.decommission.decommission_record import MEMO_PATH, parse_leaving_memo
from pulsar_operator.ports import PortError


async def free(step: Step) -> None:
    """Make it writable; it is emptied further once the specification is accepted."""
    await make_writable(step, "while the specification is refused")


async def make_writable(step: Step, why: str, *, others: frozenset[str] | None = None) -> None:
    """Make it writable, and remember that. ``others``: bookies that take entries; it stays read-only where these are
    enough for new ledgers. So does a bookie whose PersistentVolumeClaims are deleted, by the metadata store."""
    store = metadata_store(step.facts.obj)
    if store is None or step.live.stateful_set(Component.BOOKIE) is None:
        return
    try:
        session = await step.hand.deps.zookeeper.session(*store)
        node = await session.get(MEMO_PATH)
        memo = parse_leaving_memo(node.data) if node is not None else None
        if node is None or memo is None or memo.freed or memo.forgot or not memo.run:
            return
        if others is None and memo.renewal is not None and memo.renewal.claims:
            # What it takes now is gone with its pod.
            storage = step.view.storage
            others = storage.facts.writable if storage is not None and storage.facts is not None else None
        if others is not None and len(others - {memo.bookie}) >= memo.ensemble:
            return
        host, bookies = host_of(memo.bookie), step.hand.deps.bookies
        if not await bookies.readonly(host):
            return
        text = f"Bookie {memo.bookie} takes entries {why}"
        if not step.hand.act:
            step.hand.pending.append(text)
            return
        await session.set(MEMO_PATH, memo.about_to_free().data(), version=node.version)
        await bookies.set_readonly(host, False)
        await session.set(MEMO_PATH, memo.now_free().data(), version=node.version + 1)
        await step.hand.record_event(Reason.DECOMMISSIONING_BOOKIE, text)
    except PortError:
        return
