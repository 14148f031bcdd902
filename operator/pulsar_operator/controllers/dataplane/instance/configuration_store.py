"""The configuration store of an instance: a managed ensemble, the metadata store of one of its clusters, or an external
one. Called by instance_controller.py on every pass.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.stores import Store, metadata_store
from pulsar_operator.controllers.dataplane.instance.configuration_store_check import ask
from pulsar_operator.controllers.dataplane.instance.instance_pass import InstancePass
from pulsar_operator.controllers.dataplane.objects.children import (
    NameConflictError,
    delete_workloads,
    observe_children,
    prune_configurations,
)
from pulsar_operator.controllers.dataplane.objects.tear_down_record import record_tear_down
from pulsar_operator.controllers.dataplane.objects.zookeeper_ensemble import (
    apply_ensemble,
    delete_records,
    delete_volumes,
    has_quorum,
    record_founding,
    super_digest_name,
)
from pulsar_operator.controllers.dataplane.rollout.apply import roll_out
from pulsar_operator.controllers.dataplane.rollout.observe import component_states, observe_servers
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.cluster.applied_config import (
    running_configs,
    set_config_condition,
    without_a_roll_of,
)
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.local_volumes import with_local_volumes, without_a_roll
from pulsar_operator.domain.dataplane.objects.pods import observe_component
from pulsar_operator.domain.dataplane.rollout.checks import READINESS, ROLLOUT_IN_PROGRESS, decide
from pulsar_operator.domain.dataplane.rollout.facts import RolloutFacts, given_up_since
from pulsar_operator.domain.render import (
    ImageTemplates,
    ListenerPlan,
    RenderedStore,
    render_configuration_store,
    store_problems,
)
from pulsar_operator.domain.render.settings import judge, left_out, unchecked
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import STATEFUL_SETS


async def see_to_store(state: InstancePass) -> None:
    """Returns where it is and whether it is ready; a managed one is reconciled. Raises PortError."""
    store = state.spec.configuration_store
    if store.managed is None and state.actor.act and not state.meta.deleting:
        await ensure_finalizer(state.actor.deps, state.obj)  # its clusters find the store by it, and each other
    if store.managed is not None:
        await _managed_store(state)
    elif store.cluster is not None:
        _cluster_store(state, store.cluster.name)
    elif store.external is not None:
        state.servers, state.chroot = store.external.servers, store.external.chroot
        state.conditions.set(
            ConditionType.CONFIGURATION_STORE_READY,
            True,
            Reason.READY,
            f"ZooKeeper answers at {store.external.servers}",
        )


async def ask_store(state: InstancePass) -> None:
    """Whatever else speaks for it, the store is ready only if it answers a read. Raises PortError."""
    kind = ConditionType.CONFIGURATION_STORE_READY
    ready = state.conditions.is_true(kind)
    if state.servers is None:
        return
    store, stored = Store(state.servers, state.chroot), state.before.configuration_store_outages or ()
    problem, state.outages = await ask(state.deps, state.obj, store, stored, ready=ready)
    if problem is not None:
        # Also where its pods say why: who is started meanwhile knows by the reason that it did answer.
        known = None if ready else state.conditions.explained(kind)
        text = f"{problem}. {known[2]}" if known is not None else problem
        state.conditions.set(kind, False, Reason.CONFIGURATION_STORE_UNAVAILABLE, text)


async def stop_store(state: InstancePass) -> bool:
    """Stops a managed store and deletes its volumes if the specification asks for it; True once that is done. Raises
    PortError."""
    live = await observe_children(state.actor.deps, state.obj)
    if live.stateful_set(Component.CONFIGURATION_STORE) is not None:
        await record_tear_down(state.actor.deps, state.obj)
    why = "the PulsarInstance is being deleted"
    if not await delete_workloads(state.actor, live, [Component.CONFIGURATION_STORE], why):
        return False
    if state.spec.reclaim_policy is ReclaimPolicy.DELETE:
        await delete_volumes(state.actor, state.owner)
        await delete_records(state.actor, state.owner, Component.CONFIGURATION_STORE)
    return True


def _cluster_store(state: InstancePass, name: str) -> None:
    kind = ConditionType.CONFIGURATION_STORE_READY
    cluster = next((c for c in state.clusters if c["metadata"]["name"] == name), None)
    if cluster is None or cluster["metadata"]["namespace"] != state.meta.namespace:
        state.conditions.set(
            kind,
            False,
            Reason.REFERENCE_NOT_FOUND,
            f'PulsarCluster "{state.meta.namespace}/{name}", which spec.configurationStore.cluster.name names, '
            "does not exist or does not refer to this instance. Create the PulsarCluster with "
            f'spec.instanceRef.name "{state.meta.name}"',
        )
        return
    state.servers, state.chroot = metadata_store(cluster) or (None, None)
    metadata = condition_of(cluster, ConditionType.METADATA_READY)
    ready = metadata is not None and metadata["status"] == "True"
    if ready:
        state.conditions.set(kind, True, Reason.READY, f"The metadata store of cluster {name} is ready")
    else:
        why = metadata["message"] if metadata else "The metadata store of the cluster has not been observed yet"
        silent = metadata is not None and metadata["reason"] == Reason.METADATA_UNREACHABLE
        reason = Reason.CONFIGURATION_STORE_UNAVAILABLE if silent else Reason.WAITING_FOR_METADATA
        state.conditions.set(kind, False, reason, f"The metadata store of cluster {name} is not ready. {sentence(why)}")


async def _managed_store(state: InstancePass) -> None:
    managed = state.spec.configuration_store.managed
    assert managed is not None
    live = await observe_children(state.actor.deps, state.obj)
    leftovers = live.of_previous_owner()
    if leftovers:
        state.conditions.set(
            ConditionType.CONFIGURATION_STORE_READY,
            False,
            Reason.WAITING_FOR_GARBAGE_COLLECTION,
            f"The operator waits until {leftovers[0]} of the deleted object of the same name no longer exists",
        )
        return
    component = Component.CONFIGURATION_STORE
    judged = judge(component, state.spec.version, managed.config or {}, state.actor.deps.settings)
    managed = managed.model_copy(update={"config": judged.applied or None})
    no_list = unchecked(state.spec.version, managed.config, state.actor.deps.settings)
    set_config_condition(state.conditions, judged.problems, state.spec.version if no_list else None)
    problems = store_problems(managed, component, "spec.configurationStore.managed", state.spec.preset)
    if problems:
        state.conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, "; ".join(problems[:5]))
    else:
        live = await _apply_store(state, live, managed)
    facts = live.facts(component) or observe_component(None, None)
    reason, text = facts.summary("ZooKeeper servers of the configuration store")
    ready = await _founded(state, live, managed)
    if not ready and has_quorum(facts, managed):
        reason, text = Reason.PENDING, f"{text}, but no record shows yet that the ensemble was founded"
    elif not ready and reason in (Reason.PENDING, Reason.NOT_READY):
        reason = Reason.WAITING_FOR_ZOOKEEPER
    blocker = await _rollout(state, live, component)
    if blocker is not None:
        text += (
            f". {blocker.message}"
            if blocker.reason not in ROLLOUT_IN_PROGRESS
            else f". A rolling update is pending. {blocker.message}"
        )
    state.conditions.set(ConditionType.CONFIGURATION_STORE_READY, ready, Reason.READY if ready else reason, text)


async def _rollout(state: InstancePass, live: Live, component: Component) -> Blocker | None:
    """Replaces at most one outdated server; returns what blocks the next one."""
    states = component_states(live, (component,))
    facts = RolloutFacts(states, given_up=given_up_since((component,), live.at) if live.at is not None else {})
    decision = decide(facts, READINESS)
    if decision.candidate is None or decision.blocker is not None:
        return None
    listeners = ListenerPlan(state.owner, component, state.spec.cluster_domain)
    facts = replace(facts, servers=await observe_servers(state.actor.deps, states[0], listeners))
    return (await roll_out(state.actor, live, facts))[1].blocker


async def _founded(state: InstancePass, live: Live, managed: ManagedZooKeeper) -> bool:
    """Whether other writers may write into the store."""
    try:
        return await record_founding(state.actor, state.owner, live, Component.CONFIGURATION_STORE, managed)
    except NameConflictError as error:
        state.conditions.set(ConditionType.ACCEPTED, False, Reason.NAME_CONFLICT, str(error))
        return False


async def _apply_store(state: InstancePass, live: Live, managed: ManagedZooKeeper) -> Live:
    rendered = _with_local_volumes(_with_kept_config(state, live, managed), live)
    state.servers = rendered.address.servers
    if state.actor.act:
        await ensure_finalizer(state.actor.deps, state.obj)
    try:
        live = await apply_ensemble(state.actor, state.owner, live, Component.CONFIGURATION_STORE, rendered.manifests)
        await prune_configurations(state.actor, live, rendered.manifests)
    except NameConflictError as error:
        state.conditions.set(ConditionType.ACCEPTED, False, Reason.NAME_CONFLICT, str(error))
    return live


def _with_local_volumes(rendered: RenderedStore, live: Live) -> RenderedStore:
    there = live.stateful_set(Component.CONFIGURATION_STORE)
    manifests = [
        without_a_roll(with_local_volumes(each), each, there) if each["kind"] == STATEFUL_SETS.kind else each
        for each in rendered.manifests
    ]
    return RenderedStore(manifests, rendered.address)


def _with_kept_config(state: InstancePass, live: Live, managed: ManagedZooKeeper) -> RenderedStore:
    """Returns the rendered objects. Keys of config that are not applied stay if removing them alone would replace the
    servers."""
    clean, component = _render(state, managed), Component.CONFIGURATION_STORE
    running = running_configs(live, [component]).get(component, {})
    left = left_out(component, state.spec.version, running, state.actor.deps.settings)
    if not left:
        return clean
    kept = _render(state, managed.model_copy(update={"config": {**left, **(managed.config or {})}}))
    return RenderedStore(without_a_roll_of(clean.manifests, kept.manifests, live, component), clean.address)


def _render(state: InstancePass, managed: ManagedZooKeeper) -> RenderedStore:
    images = state.actor.deps.images
    templates = ImageTemplates(images.broker, images.bookie, images.proxy)
    return render_configuration_store(
        state.owner,
        managed,
        image=state.spec.image.zookeeper or templates.resolve(Component.CONFIGURATION_STORE, state.spec.version),
        images=state.spec.image,
        super_digest_secret=super_digest_name(state.owner.name, Component.CONFIGURATION_STORE),
        preset=state.spec.preset,
        cluster_domain=state.spec.cluster_domain,
        platform=state.spec.platform,
    )
