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
from pulsar_operator.controllers.dataplane.bookkeeper.read_only_bookies import unwritable
from pulsar_operator.controllers.dataplane.bookkeeper.replication import replication, replication_alone
from pulsar_operator.controllers.dataplane.cluster.bring_up import bookies, brokers, proxies
from pulsar_operator.controllers.dataplane.cluster.metadata_store import leftovers, shared, standalone, zookeeper
from pulsar_operator.controllers.dataplane.decommission.decommission import leave
from pulsar_operator.controllers.dataplane.decommission.restore_writable import free
from pulsar_operator.controllers.dataplane.decommission.volume_record import volumes
from pulsar_operator.controllers.dataplane.objects.children import OWNED, NameConflictError
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.controllers.dataplane.observed.phase import Phase, Step
from pulsar_operator.controllers.dataplane.registration.metadata import metadata
from pulsar_operator.controllers.dataplane.registration.version_record import remember
from pulsar_operator.controllers.dataplane.rollout.observe import component_states
from pulsar_operator.controllers.dataplane.rollout.rollout_phase import roll
from pulsar_operator.controllers.dataplane.rollout.templates import templates
from pulsar_operator.controllers.dataplane.scaling.autoscale import autoscale
from pulsar_operator.controllers.dataplane.scaling.scale import scale
from pulsar_operator.domain.dataplane.cluster.cluster_view import (
    BalanceFact,
    ClusterView,
    LeaveFact,
    RollFact,
    ScaleFact,
)
from pulsar_operator.domain.dataplane.observed.running_versions import record_of
from pulsar_operator.domain.render import BRING_UP_ORDER, RenderedCluster
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    PODS,
    PVCS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    DeadlineError,
    NotServedError,
    PortError,
    UnavailableError,
)

_CHILDREN: Final = frozenset(OWNED)
_REBALANCES: Final = frozenset({CUSTOM[Kind.REBALANCE]})
_NUMBERED: Final = frozenset({STATEFUL_SETS, CONFIG_MAPS})
"""What changes the number of pods writes: where nothing is acted on, the template is not on record yet by then, and it
is said again that it would be."""

SHARED: Final = Phase("shared", shared, frozenset({SERVICE_ACCOUNTS}))
LEFTOVERS: Final = Phase("leftovers", leftovers, _CHILDREN, frozenset({"shared"}))
ROLL: Final = Phase("roll", roll, _REBALANCES | {PODS}, finds="roll")
BALANCE: Final = Phase("balance", balance, _REBALANCES, finds="balance")
ALONE: Final = Phase("replication", replication_alone, frozenset(), finds="storage")
FREE: Final = Phase("free", free, frozenset())
REMEMBER: Final = Phase("remember", remember, frozenset())
TEMPLATES: Final = Phase("templates", templates, frozenset({CONFIG_MAPS}), frozenset({"shared", "remember"}), "turns")
_STORED: Final = frozenset({"shared", "templates", "zookeeper", "metadata"})
"""Without them a component would be given the address of a store that is not known to be ours."""
ROWS: Final = {
    ClusterMode.STANDALONE: (
        SHARED,
        Phase("standalone", standalone, _CHILDREN, frozenset({"shared"})),
        LEFTOVERS,
        ROLL,
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
        Phase("brokers", brokers, _CHILDREN, _STORED, "brokers"),
        Phase("proxies", proxies, _CHILDREN, _STORED, "proxies"),
        LEFTOVERS,
        Phase("volumes", volumes, frozenset({PVCS, PODS}), _STORED, "volumes"),
        Phase("leave", leave, _NUMBERED | {PVCS, PODS}, _STORED, "leave"),
        Phase("unwritable", unwritable, frozenset(), _STORED | {"leave"}, "unwritable"),
        Phase("placement", placement, frozenset(), _STORED | {"racks", "leave"}, "placement"),
        ROLL,
        Phase("scale", scale, _NUMBERED | _REBALANCES | {PVCS}, _STORED, "scale"),
        BALANCE,
        Phase("autoscale", autoscale, frozenset(), _STORED | {"replication", "roll", "scale", "balance"}, "scaling"),
    ),
}
"""By mode. The metadata phase writes both stores and the record of the instance id, which remember, replication and
leave write too, the balance phase settings of the brokers and the record of what they were. The instance's store is a
fact (observed/cluster_facts.py)."""


async def run(facts: ClusterFacts, view: ClusterView, rendered: RenderedCluster, actor: Actor) -> ClusterView:
    """One pass; what it knows in the end.

    A phase that is refused, or cannot have a name, keeps those from running that need it, and no other: a stranger's
    Service must not keep pods from being repaired or Pulsar's balancer from being given back. So does one that asks for
    a type which the API server does not serve. Where nobody answers the pass ends; one request without an answer in
    time may be an admission webhook, so the second ends it. What a phase that did not run would find stays unknown.
    """
    view = replace(view, rendered=rendered, live=facts.live)
    if facts.spec.mode is ClusterMode.STANDALONE:
        view = replace(view, leave=LeaveFact(), scale=ScaleFact(), balance=BalanceFact(seen=False))
    return await _through(ROWS[facts.spec.mode], facts, view, rendered, actor)


async def give_back(facts: ClusterFacts, view: ClusterView, actor: Actor) -> ClusterView:
    """Where the specification is refused: what runs stays as it is, but nothing is held for what will not go on."""
    view = replace(view, live=facts.live, roll=_half_done(facts), scale=ScaleFact())
    row = (BALANCE,) if facts.spec.mode is ClusterMode.STANDALONE else (ALONE, FREE, BALANCE)
    return await _through(row, facts, view, None, actor)


def _half_done(facts: ClusterFacts) -> RollFact:
    """The rollout that does not go on now, as the status has it: other clusters wait for it."""
    rollout = facts.before.rollout
    states = component_states(facts.live, BRING_UP_ORDER)
    if rollout is None or all(each.quiet and record_of(facts.live, each.component).stop is None for each in states):
        return RollFact()
    text = "The specification is refused. Correct it to go on"
    return RollFact(
        rollout.model_copy(update={"blocked_by": Reason.INVALID_SPEC.value, "message": text}), goes_on=False
    )


async def give_delay_back(facts: ClusterFacts, actor: Actor) -> ClusterView:
    """The same where the specification cannot even be read: the rest needs what it says."""
    return await _through((ALONE, FREE), facts, ClusterView(live=facts.live), None, actor)


async def _through(
    phases: Sequence[Phase], facts: ClusterFacts, view: ClusterView, rendered: RenderedCluster | None, actor: Actor
) -> ClusterView:
    failed: set[str] = set()
    late = False
    for phase in phases:
        if phase.needs & failed:
            failed.add(phase.name)
            continue
        step = Step(facts, view, rendered, actor.limited(phase.writes))
        try:
            found = await phase.run(step)
        except NameConflictError as error:
            failed.add(phase.name)
            view = replace(view, live=step.live, name_conflict=view.name_conflict or str(error))
            continue
        except PortError as error:
            failed.add(phase.name)
            reason, text = reason_of(error)
            view = replace(view, live=step.live)
            if view.error is None:
                view = replace(view, error=text, error_reason=reason)
            elsewhere = isinstance(error, NotServedError) or (isinstance(error, DeadlineError) and not late)
            if isinstance(error, UnavailableError) and not elsewhere:
                break
            late = late or isinstance(error, DeadlineError)
            continue
        known = {} if phase.finds is None else {phase.finds: found}
        view = replace(view, live=step.live, ran=view.ran | {phase.name}, **known)  # type: ignore[arg-type]
    return view
