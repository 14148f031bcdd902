"""The rollout phase: replaces outdated pods one at a time, in component order; a broker is drained first."""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.cluster_status import RolloutStatus
from pulsar_operator.controllers.dataplane.balancing.broker_drains import drains_of
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.rollout.apply import roll_out
from pulsar_operator.controllers.dataplane.rollout.observe import observe
from pulsar_operator.controllers.dataplane.rollout.prepare import Preparation
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.cluster.cluster_view import RolloutFact
from pulsar_operator.domain.dataplane.rollout.checks import used_confirmation
from pulsar_operator.domain.dataplane.rollout.facts import RolloutFacts
from pulsar_operator.domain.dataplane.rollout.rollout_status import rollout_status

_GOES_ON: Final = (Reason.WAITING_FOR_CLUSTERS, Reason.ROLLOUT_FAILED, Reason.CANARY_FAILED)
"""Blockers with which a cluster keeps its place before the others: what failed here would fail there too."""


async def rollout(ctx: PhaseContext) -> RolloutFact:
    """Replaces at most one outdated pod of the whole cluster. Raises PortError of Kubernetes alone."""
    drains = drains_of(ctx)
    found = await observe(ctx.facts, ctx.view, ctx.live, ctx.actor, drains)
    work = Preparation(ctx.facts, ctx.rendered.metadata_store, ctx.actor, drains)
    found, decision = await roll_out(ctx.actor, ctx.live, found, work.prepare)
    stored = ctx.facts.before.rollout
    rollout = rollout_status(found, decision, stored)
    return RolloutFact(
        _since(ctx, found, rollout, stored.since if stored is not None else None),
        work.drain,
        drains.asked if drains is not None else frozenset(),
        used_confirmation(found, decision),
        drained=work.drained if decision.blocker is not None else None,
    )


def _since(
    ctx: PhaseContext, found: RolloutFacts, rollout: RolloutStatus | None, stored: str | None
) -> RolloutStatus | None:
    """Adds the time since which this cluster is next to roll out, or would be without the other clusters."""
    if rollout is None or (found.blocker is not None and found.blocker.reason not in _GOES_ON):
        return rollout
    return rollout.model_copy(update={"since": stored or timestamp(ctx.actor.deps.clock.now())})
