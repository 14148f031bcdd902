"""Reads the facts of a rollout once, into one frozen value (domain/dataplane/rollout/facts.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.balancing.broker_drains import BrokerDrains
from pulsar_operator.controllers.dataplane.bookkeeper.incarnations import own_bookies_in
from pulsar_operator.controllers.dataplane.bookkeeper.storage_facts import storage_facts
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.controllers.dataplane.observed.outage import READERS, stores_answer_since, unavailable_store
from pulsar_operator.controllers.dataplane.observed.quorums import broker_groups, widest_ensemble
from pulsar_operator.controllers.dataplane.rollout.cluster_blockers import observe_blocker
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.bookie_racks import KnownRacks
from pulsar_operator.domain.consent import answered, how_to_answer
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView, ListenersFact
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.registration.quorum_record import default_ensemble
from pulsar_operator.domain.dataplane.rollout.checks import (
    BLOCKERS,
    READINESS,
    blocker_of,
    decommissioning,
    question_of,
)
from pulsar_operator.domain.dataplane.rollout.facts import (
    FORWARDS,
    BookieFacts,
    ComponentState,
    PendingTemplate,
    RollOrder,
    RolloutFacts,
    component_state,
    given_up_since,
)
from pulsar_operator.domain.dataplane.rollout.order import next_pods
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.domain.render import BRING_UP_ORDER, ListenerPlan
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import Deps, PortError

_ABSENT: Final = frozenset({Reason.POD_REFUSED, Reason.NODE_UNREACHABLE})


async def observe(
    facts: ClusterFacts, view: ClusterView, live: Live, actor: Actor, drains: BrokerDrains | None
) -> RolloutFacts:
    """Reads all facts. ZooKeeper, the metadata store and the brokers are asked if a pod of theirs may be next. Raises
    PortError of Kubernetes alone."""
    components = component_states(live, BRING_UP_ORDER, facts.order)
    template_order = view.template_order or TemplateOrder({}, await _unknown(facts, actor, components))
    found = _known(facts, view, live, components, template_order)
    asked = {each.component for each in next_pods(found) if blocker_of(found, each, BLOCKERS + READINESS) is None}
    if Component.ZOOKEEPER in asked:
        ensemble = found.of(Component.ZOOKEEPER)
        servers = await observe_servers(
            actor.deps, ensemble, ListenerPlan(facts.owner, ensemble.component, facts.spec.cluster_domain)
        )
        found = replace(found, servers=servers)
    if Component.BOOKIE in asked:
        try:
            found = replace(found, bookies=await _bookies(facts, view, live, actor.deps, found.of(Component.BOOKIE)))
        except PortError as error:
            found = replace(found, storage_problem=str(error))
    if Component.BROKER in asked and drains is not None and drains.enabled:
        found = await _with_brokers(found, facts, drains)
    return found


def component_states(live: Live, components: Iterable[Component], order: RollOrder = FORWARDS) -> list[ComponentState]:
    """Returns the states of existing components, in bring-up order."""
    parts = [(component, live.stateful_set(component)) for component in order.sorted(components)]
    return [component_state(c, there, live.pods(c), _absent(live, c)) for c, there in parts if there is not None]


def _absent(live: Live, component: Component) -> Blocker | None:
    """Returns why a pod of a component is absent: it is not being created, or its node is lost."""
    facts = live.facts(component)
    problem = next((each for each in facts.problems if each.reason in _ABSENT), None) if facts is not None else None
    return Blocker(problem.reason, sentence(problem.message)) if problem else None


async def _unknown(facts: ClusterFacts, actor: Actor, components: Iterable[ComponentState]) -> Blocker | None:
    """Returns the blocker of a cluster whose templates were not checked; in mode Standalone none are recorded."""
    if not any(state.outdated for state in components):
        return None
    if facts.spec.mode is ClusterMode.STANDALONE:
        return await observe_blocker(facts, actor)
    text = "No pod is replaced, because the operator could not apply the pod templates. The other conditions say why"
    return Blocker(Reason.PENDING, text)


def _known(
    facts: ClusterFacts, view: ClusterView, live: Live, components: list[ComponentState], template_order: TemplateOrder
) -> RolloutFacts:
    """Returns the facts that the pass has already."""
    unavailable, pending = unavailable_store(facts, view), template_order.pending
    turn = template_order.of[pending] if pending is not None else None
    store = Blocker(Reason.CONFIGURATION_STORE_UNAVAILABLE, unavailable or "")
    given_up = {}
    if live.at is not None:
        there, answers = [each.component for each in components], stores_answer_since(facts, live.at)
        given_up = given_up_since(there, live.at, facts.spec.progress_deadline_seconds, answers)
    listeners = view.listeners or ListenersFact(facts.addresses)
    found = RolloutFacts(
        components,
        facts.order,
        blockers={each: found for each in BRING_UP_ORDER if (found := template_order.blocker_of(each)) is not None},
        blocker=template_order.blocker,
        pending=PendingTemplate(pending, turn.reason, turn.blocker or template_order.blocker)
        if pending and turn
        else None,
        decommission=decommissioning(view.decommission.bookie)
        if view.decommission is not None and view.decommission.blocks_rollout
        else None,
        watched=template_order.watched,
        unplaced=template_order.unplaced,
        stores=_stores(facts, view),
        store_readers=dict.fromkeys(READERS, store) if unavailable is not None else {},
        given_up=given_up,
        addresses=listeners.blocker,
        stale=listeners.stale,
    )
    return found.observed(components)


def _stores(facts: ClusterFacts, view: ClusterView) -> Blocker | None:
    """Returns why a pod that is replaced now could not start: it reads both stores first, and this pass could not. Pods
    of a configuration store may be ready although the store does not answer."""
    metadata = view.metadata
    if facts.spec.mode is ClusterMode.STANDALONE or (metadata is not None and metadata.registered):
        return None
    if metadata is None:
        text = "ZooKeeper has no quorum, so a replaced pod could not start. The rollout continues once it has a quorum"
        return Blocker(Reason.WAITING_FOR_ZOOKEEPER, text)
    text = (
        f"The metadata store or the configuration store cannot be read, so a replaced pod could not start: "
        f"{metadata.message}"
    )
    return Blocker(Reason.METADATA_UNREACHABLE, text)


async def observe_servers(
    deps: Deps, ensemble: ComponentState, listeners: ListenerPlan
) -> Mapping[str, ServerState | None]:
    """Returns the state of each server of an ensemble, by pod; None for one that does not answer."""

    async def state(pod: int) -> ServerState | None:
        try:
            return await deps.zookeeper.server_state(listeners.store_server(pod))
        except PortError:
            return None

    found = await asyncio.gather(*(state(ordinal) for ordinal in range(ensemble.total)))
    return {f"{ensemble.name}-{ordinal}": each for ordinal, each in enumerate(found)}


async def _bookies(
    facts: ClusterFacts, view: ClusterView, live: Live, deps: Deps, bookies: ComponentState
) -> BookieFacts:
    """Reads bookies and ledgers from the metadata store. Raises PortError."""
    rendered, store = view.rendered, facts.instance.store
    assert rendered is not None and rendered.metadata_store is not None and rendered.quorum is not None
    local = rendered.metadata_store
    session = await deps.zookeeper.session(local.servers, local.chroot or None)
    policies = session if facts.instance.own_store else await deps.zookeeper.session(store.servers or "", store.chroot)
    default = default_ensemble(live, rendered.quorum.ensemble_size).size
    desired = widest_ensemble(deps, policies, default, facts.obj, local=session, groups=broker_groups(facts.spec))
    storage, widest = await asyncio.gather(storage_facts(session), desired)
    own = own_bookies_in(facts, storage)
    # Somebody may have scaled by hand: one that is gone and has data is missed like the others.
    gone = {each for each in storage.missing if own.ordinal(each) is not None}
    used, now = facts.before.used_confirmations, deps.clock.now()
    turn = view.template_order.of.get(Component.BOOKIE) if view.template_order is not None else None
    question = question_of((turn.template if turn is not None else None) or "", live.stateful_set(Component.BOOKIE))
    confirmation = answered(question, facts.spec.confirmations, used, now)
    return BookieFacts(
        storage,
        own,
        tuple(sorted({own.id(ordinal) for ordinal in range(bookies.total)} | gone)),
        max(widest.size, default),
        widest.bound,
        widest.problem,
        _racks(facts.racks, bookies),
        confirmation,
        recorded=confirmation in used,
        remedy=how_to_answer(question, facts.spec.confirmations, now),
    )


def _racks(known: KnownRacks | None, bookies: ComponentState) -> dict[str, str]:
    racks = known.of if known is not None else {}
    return {pod.name: rack for pod in bookies.pods if (rack := racks.get(pod.ordinal)) is not None}


async def _with_brokers(found: RolloutFacts, facts: ClusterFacts, drains: BrokerDrains) -> RolloutFacts:
    """Adds the broker that is replaced first: the one whose drain has begun, or the one with the fewest bundles."""
    state, broker = found.of(Component.BROKER), facts.spec.broker
    serving = [pod.name for pod in state.outdated if pod.serving]
    if broker is not None and state.total > broker.replicas >= 1:
        found = replace(found, surplus_brokers=broker.replicas)
    if len(serving) < 2:
        return found
    begun = set(facts.before.drain.pods if facts.before.drain is not None else ())
    first = next((name for name in serving if name in begun), None) or await drains.emptiest(serving)
    return replace(found, emptiest=first)
