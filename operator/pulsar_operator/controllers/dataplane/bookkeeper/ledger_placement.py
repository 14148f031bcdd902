"""Counts ledgers with copies in too few racks: when racks of bookies change, and once a day.

The operator does not act on the count: BookKeeper moves no entries for the sake of racks.
"""

from __future__ import annotations

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.cluster_status import PlacementStatus
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_count import count_ledgers
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.bookkeeper.ledger_placement import DesiredRacks, is_due
from pulsar_operator.domain.bookkeeper.ledger_scan_record import Examining
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.cluster.cluster_view import PlacementFact
from pulsar_operator.ports import PortError


async def placement(ctx: PhaseContext) -> PlacementFact:
    """Returns the known count, and continues it in this pass. A count that reads all ledgers runs only if no bookie is
    decommissioned and all racks are known."""
    keeper, racks, leave = ctx.facts.spec.bookkeeper, ctx.view.racks, ctx.view.decommission
    if keeper is None or keeper.racks is None:
        return PlacementFact()
    stored = ctx.facts.before.placement
    known = racks is not None and racks.condition is not None and racks.condition[1] is Reason.RACKS_KNOWN
    if not known or racks is None or racks.written is None or leave is None or leave.step is not None:
        return PlacementFact(stored)
    now, desired = ctx.actor.deps.clock.now(), DesiredRacks(racks.written, keeper.racks.minimum)
    if not is_due(stored, desired.digest, now):
        return PlacementFact(stored)
    store = local_store(ctx)
    try:
        session = await ctx.actor.deps.zookeeper.session(store.servers, store.chroot)
        found = await count_ledgers(session, desired.digest, desired.broken_by, act=ctx.actor.act)
    except PortError:
        # Not at every pass: so many reads are work for the store.
        return PlacementFact(PlacementStatus(time=timestamp(now), racks=desired.digest))
    if isinstance(found, Examining):
        return PlacementFact(stored, str(found), again=ctx.actor.act)
    against = found.counted if not found.undecodable else None
    counted = PlacementStatus(against=against, ledgers=found.ledgers, time=timestamp(now), racks=desired.digest)
    return PlacementFact(counted)
