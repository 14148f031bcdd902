"""The order of the phases, and one pass through them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.dataplane.children import OWNED, NameConflictError
from pulsar_operator.controllers.dataplane.facts import ClusterFacts
from pulsar_operator.controllers.dataplane.phases.balance import balance
from pulsar_operator.controllers.dataplane.phases.leftovers import leftovers
from pulsar_operator.controllers.dataplane.phases.metadata import metadata
from pulsar_operator.controllers.dataplane.phases.phase import Phase, Step
from pulsar_operator.controllers.dataplane.phases.roll import roll
from pulsar_operator.controllers.dataplane.phases.scale import scale
from pulsar_operator.controllers.dataplane.phases.storage import shared, standalone, zookeeper
from pulsar_operator.controllers.dataplane.phases.tiers import bookies, brokers, proxies
from pulsar_operator.domain.dataplane.cluster_view import BalanceFact, ClusterView, ScaleFact
from pulsar_operator.domain.render import RenderedCluster
from pulsar_operator.ports import CUSTOM, PODS, SERVICE_ACCOUNTS, STATEFUL_SETS, PortError

_CHILDREN: Final = frozenset(OWNED)
_REBALANCES: Final = frozenset({CUSTOM[Kind.REBALANCE]})

SHARED: Final = Phase("shared", shared, frozenset({SERVICE_ACCOUNTS}))
LEFTOVERS: Final = Phase("leftovers", leftovers, _CHILDREN)
ROLL: Final = Phase("roll", roll, _REBALANCES | {PODS}, "roll")
ROWS: Final = {
    ClusterMode.STANDALONE: (SHARED, Phase("standalone", standalone, _CHILDREN), LEFTOVERS, ROLL),
    ClusterMode.DISTRIBUTED: (
        SHARED,
        Phase("zookeeper", zookeeper, _CHILDREN),
        Phase("metadata", metadata, frozenset(), "metadata"),
        Phase("bookies", bookies, _CHILDREN, "bookies"),
        Phase("brokers", brokers, _CHILDREN, "brokers"),
        Phase("proxies", proxies, _CHILDREN, "proxies"),
        LEFTOVERS,
        ROLL,
        Phase("scale", scale, _REBALANCES | {STATEFUL_SETS}, "scale"),
        Phase("balance", balance, _REBALANCES, "balance"),
    ),
}
"""By mode. The metadata phase writes both stores and the record of the instance id; the balance phase settings of the
brokers. The instance's store is a fact (facts.py)."""


async def run(facts: ClusterFacts, view: ClusterView, rendered: RenderedCluster, actor: Actor) -> ClusterView:
    """One pass; what it knows in the end. An error ends it, and what the phases after it would find stays unknown."""
    view = replace(view, rendered=rendered, live=facts.live)
    if facts.spec.mode is ClusterMode.STANDALONE:
        view = replace(view, scale=ScaleFact(), balance=BalanceFact(seen=False))
    for phase in ROWS[facts.spec.mode]:
        hand = actor.limited(phase.writes)
        step = Step(facts, view, rendered, hand)
        try:
            found = await phase.run(step)
        except NameConflictError as error:
            return replace(view, live=step.live, name_conflict=str(error))
        except PortError as error:
            reason, text = reason_of(error)
            return replace(view, live=step.live, error=text, error_reason=reason)
        view = replace(view, live=step.live)
        if phase.finds is not None:
            view = replace(view, **{phase.finds: found})  # type: ignore[arg-type]
    return view
