"""The order of the phases, and one pass through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.dataplane.balancing.balance import balance
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_racks import racks
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_placement import placement
from pulsar_operator.controllers.dataplane.bookkeeper.read_only_bookies import read_only_bookies
from pulsar_operator.controllers.dataplane.bookkeeper.replication import replication, replication_alone
from pulsar_operator.controllers.dataplane.cluster.bring_up import bookies, brokers, proxies
from pulsar_operator.controllers.dataplane.cluster.edge_certificate import certificate
from pulsar_operator.controllers.dataplane.cluster.listeners import listeners
from pulsar_operator.controllers.dataplane.cluster.metadata_store import leftovers, shared, standalone, zookeeper
from pulsar_operator.controllers.dataplane.decommission.decommission import decommission
from pulsar_operator.controllers.dataplane.decommission.restore_writable import restore_writable
from pulsar_operator.controllers.dataplane.decommission.volume_record import volumes
from pulsar_operator.controllers.dataplane.objects.children import OWNED, NameConflictError
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.controllers.dataplane.observed.phase import Phase, PhaseContext
from pulsar_operator.controllers.dataplane.registration.metadata import metadata
from pulsar_operator.controllers.dataplane.registration.version_record import remember
from pulsar_operator.controllers.dataplane.rollout.observe import component_states
from pulsar_operator.controllers.dataplane.rollout.rollout_phase import rollout
from pulsar_operator.controllers.dataplane.rollout.templates import templates
from pulsar_operator.controllers.dataplane.scaling.autoscale import autoscale
from pulsar_operator.controllers.dataplane.scaling.scale import scale
from pulsar_operator.domain.dataplane.cluster.cluster_view import (
    BalanceFact,
    ClusterView,
    DecommissionFact,
    RolloutFact,
    ScaleFact,
)
from pulsar_operator.domain.dataplane.observed.running_versions import record_of
from pulsar_operator.domain.render import BRING_UP_ORDER, RenderedCluster
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    PODS,
    PVCS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    DeadlineError,
    NotServedError,
    PortError,
    UnavailableError,
)

_CHILDREN: Final = frozenset(OWNED)
_REBALANCES: Final = frozenset({CUSTOM[Kind.REBALANCE]})
_NUMBERED: Final = frozenset({STATEFUL_SETS, CONFIG_MAPS})
"""Types that phases write which change replicas. During a pause or dry run the template is not recorded yet by then, so
the pending write is reported once more."""

SHARED: Final = Phase("shared", shared, frozenset({SERVICE_ACCOUNTS}))
LEFTOVERS: Final = Phase("leftovers", leftovers, _CHILDREN, frozenset({"shared"}))
ROLLOUT: Final = Phase("rollout", rollout, _REBALANCES | {PODS}, finds="rollout")
BALANCE: Final = Phase("balance", balance, _REBALANCES, finds="balance")
ALONE: Final = Phase("replication", replication_alone, frozenset(), finds="storage")
RESTORE_WRITABLE: Final = Phase("restore_writable", restore_writable, frozenset())
REMEMBER: Final = Phase("remember", remember, frozenset())
TEMPLATES: Final = Phase(
    "templates", templates, frozenset({CONFIG_MAPS}), frozenset({"shared", "remember"}), "template_order"
)
_STORED: Final = frozenset({"shared", "templates", "zookeeper", "metadata"})
"""Phases without which a component would get the address of a store that may not be the cluster's."""
PIPELINES: Final = {
    ClusterMode.STANDALONE: (
        SHARED,
        Phase("standalone", standalone, _CHILDREN, frozenset({"shared"})),
        LEFTOVERS,
        ROLLOUT,
    ),
    ClusterMode.DISTRIBUTED: (
        SHARED,
        REMEMBER,
        TEMPLATES,
        Phase("zookeeper", zookeeper, _CHILDREN, frozenset({"shared", "templates"})),
        Phase("metadata", metadata, frozenset(), frozenset({"shared", "zookeeper"}), "metadata"),
        Phase("replication", replication, frozenset(), frozenset({"templates", "metadata"}), "storage"),
        Phase("racks", racks, frozenset({PODS}), _STORED, "racks"),
        Phase("bookies", bookies, _CHILDREN | {PVCS}, _STORED, "bookies"),
        Phase("listeners", listeners, frozenset({SERVICES, CONFIG_MAPS}), frozenset({"shared"}), "listeners"),
        Phase("certificate", certificate, frozenset({SECRETS}), frozenset({"shared"}), "certificate"),
        Phase("brokers", brokers, _CHILDREN, _STORED, "brokers"),
        Phase("proxies", proxies, _CHILDREN, _STORED, "proxies"),
        LEFTOVERS,
        Phase("volumes", volumes, frozenset({PVCS, PODS}), _STORED, "volumes"),
        Phase("decommission", decommission, _NUMBERED | {PVCS, PODS}, _STORED, "decommission"),
        Phase("read_only_bookies", read_only_bookies, frozenset(), _STORED | {"decommission"}, "read_only_bookies"),
        Phase("placement", placement, frozenset(), _STORED | {"racks", "decommission"}, "placement"),
        ROLLOUT,
        Phase("scale", scale, _NUMBERED | _REBALANCES | {PVCS}, _STORED, "scale"),
        BALANCE,
        Phase("autoscale", autoscale, frozenset(), _STORED | {"replication", "rollout", "scale", "balance"}, "scaling"),
    ),
}
"""Phases by mode. The metadata phase writes both stores and the record of the instance id, which remember, replication
and decommission write too; the balance phase writes settings of the brokers and the record of the previous ones. The
instance's store is a fact (observed/cluster_facts.py)."""


async def run(facts: ClusterFacts, view: ClusterView, rendered: RenderedCluster, actor: Actor) -> ClusterView:
    """Runs the phases; returns the facts at the end.

    If a phase is refused, or a name is taken, only the phases that need it do not run: a Service of another owner must
    not keep pods from being repaired, or Pulsar's balancer from being restored. The same applies if the API server does
    not serve a type. If a server does not answer the pass ends; one request without an answer in time may be an
    admission webhook, so the second ends it. What a phase would find that did not run stays unknown.
    """
    view = replace(view, rendered=rendered, live=facts.live)
    if facts.spec.mode is ClusterMode.STANDALONE:
        view = replace(view, decommission=DecommissionFact(), scale=ScaleFact(), balance=BalanceFact(observed=False))
    return await _through(PIPELINES[facts.spec.mode], facts, view, rendered, actor)


async def restore(facts: ClusterFacts, view: ClusterView, actor: Actor) -> ClusterView:
    """Runs if the specification is refused: running components stay as they are, and changes that will not continue are
    undone."""
    view = replace(view, live=facts.live, rollout=_half_done(facts), scale=ScaleFact())
    phases = (BALANCE,) if facts.spec.mode is ClusterMode.STANDALONE else (ALONE, RESTORE_WRITABLE, BALANCE)
    return await _through(phases, facts, view, None, actor)


def _half_done(facts: ClusterFacts) -> RolloutFact:
    """Returns the suspended rollout, as the status has it: other clusters wait for it."""
    rollout = facts.before.rollout
    states = component_states(facts.live, BRING_UP_ORDER)
    if rollout is None or all(each.quiet and record_of(facts.live, each.component).stop is None for each in states):
        return RolloutFact()
    text = (
        "The specification is refused, so the rollout is suspended. Correct the specification to continue the rollout"
    )
    return RolloutFact(
        rollout.model_copy(update={"blocked_by": Reason.INVALID_SPEC.value, "message": text}), goes_on=False
    )


async def restore_without_spec(facts: ClusterFacts, actor: Actor) -> ClusterView:
    """Does the same if the specification cannot be parsed; the rest needs its content."""
    return await _through((ALONE, RESTORE_WRITABLE), facts, ClusterView(live=facts.live), None, actor)


async def _through(
    phases: Sequence[Phase], facts: ClusterFacts, view: ClusterView, rendered: RenderedCluster | None, actor: Actor
) -> ClusterView:
    failed: set[str] = set()
    late = False
    for phase in phases:
        if phase.needs & failed:
            failed.add(phase.name)
            continue
        ctx = PhaseContext(facts, view, rendered, actor.limited(phase.writes))
        try:
            found = await phase.run(ctx)
        except NameConflictError as error:
            failed.add(phase.name)
            view = replace(view, live=ctx.live, name_conflict=view.name_conflict or str(error))
            continue
        except PortError as error:
            failed.add(phase.name)
            reason, text = reason_of(error)
            view = replace(view, live=ctx.live)
            if view.error is None:
                view = replace(view, error=text, error_reason=reason)
            elsewhere = isinstance(error, NotServedError) or (isinstance(error, DeadlineError) and not late)
            if isinstance(error, UnavailableError) and not elsewhere:
                break
            late = late or isinstance(error, DeadlineError)
            continue
        known = {} if phase.finds is None else {phase.finds: found}
        view = replace(view, live=ctx.live, ran=view.ran | {phase.name}, **known)  # type: ignore[arg-type]
    return view
