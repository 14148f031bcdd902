"""PulsarCluster: metadata, ZooKeeper, bookies, brokers and proxies of one cluster.

A pass reads everything, computes what may exist now, applies the differences in bring-up order, replaces at most one
pod, and writes one status. Every step can be interrupted and repeated.
"""

from __future__ import annotations

from pydantic import ValidationError

from pulsar_operator.api.constants import Component, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ObjectReference
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.load_balancing import BalancingDriver
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.controllers.core.objects import invalid_fields, meta_of, owner_of
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.core.references import resolve
from pulsar_operator.controllers.core.status import condition_of, write_status
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.dataplane.bootstrap import BootstrapRequest, Store, ensure_cluster_metadata
from pulsar_operator.controllers.dataplane.children import Children, NameConflictError
from pulsar_operator.controllers.dataplane.cluster_pass import ClusterPass
from pulsar_operator.controllers.dataplane.dependents import dependents_of_cluster, explain, still_runs, waited_for
from pulsar_operator.controllers.dataplane.drain import BrokerDrains
from pulsar_operator.controllers.dataplane.ensemble import apply_ensemble, has_quorum, super_digest_name
from pulsar_operator.controllers.dataplane.load_balancer import hold, holder, standing_rebalance
from pulsar_operator.controllers.dataplane.roll import resized, roll
from pulsar_operator.controllers.dataplane.teardown import tear_down
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.dataplane.bring_up import BringUpFacts, Gate, MetadataFact, StoreFact, gates
from pulsar_operator.domain.dataplane.cluster_status import (
    CLUSTER_CONDITIONS,
    ClusterView,
    cluster_status,
    set_conditions,
)
from pulsar_operator.domain.dataplane.pods import ComponentFacts, observe_component
from pulsar_operator.domain.dataplane.registration import ClusterUrls
from pulsar_operator.domain.render import (
    BRING_UP_ORDER,
    ClusterInputs,
    ImageTemplates,
    RenderedCluster,
    StoreAddress,
    render_cluster,
    resolve_quorum,
    selector_text,
    spec_problems,
)
from pulsar_operator.domain.render.names import labels
from pulsar_operator.ports import CUSTOM, PVCS, AdminEndpoint, Deps, Key, PortError

RETRY_SECONDS = 5.0
AGAIN_SECONDS = 1.0
NOUNS = {
    Component.ZOOKEEPER: "ZooKeeper",
    Component.STANDALONE: "standalone pods",
    Component.BOOKIE: "bookies",
    Component.AUTORECOVERY: "auto-recovery pods",
    Component.BROKER: "brokers",
    Component.PROXY: "proxies",
}
NEVER_PRUNED = frozenset({Component.ZOOKEEPER, Component.BOOKIE, Component.STANDALONE})
"""Components that hold data: only a deleted PulsarCluster takes their pods away."""


class ClusterController:
    """Reconciles PulsarCluster."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def reconcile(self, key: Key) -> Outcome:
        """One pass; see Reconciler."""
        deps = self._deps
        obj = await deps.kube.get(CUSTOM[Kind.CLUSTER], key.namespace, key.name)
        if obj is None:
            return DONE
        meta = meta_of(obj)
        previous = (obj.get("status") or {}).get("conditions") or []
        conditions = ConditionSet(CLUSTER_CONDITIONS, previous, meta.generation, deps.clock.now())
        actor = Actor(deps, obj, act=not (meta.paused or meta.dry_run))
        try:
            spec = PulsarClusterSpec.model_validate(obj["spec"])
        except ValidationError as error:
            if meta.deleting:
                # Nothing of it is needed to stop pods; what it says about the data is not trusted, so the data stays.
                spec = PulsarClusterSpec.model_construct(instance_ref=ObjectReference.model_construct(name=""))
                return await self._pass(ClusterPass(obj, meta, spec, conditions, actor, owner_of(obj, part_of="")))
            conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, invalid_fields(error))
            conditions.summarize(ConditionType.ACCEPTED, ready_message="")
            await write_status(
                deps, obj, cluster_status(None, ClusterView(), conditions, obj, owner_of(obj, part_of=""))
            )
            return DONE
        owner = owner_of(obj, part_of=spec.instance_ref.name)
        return await self._pass(ClusterPass(obj, meta, spec, conditions, actor, owner))

    async def _pass(self, state: ClusterPass) -> Outcome:
        """Converge or tear down, then the status, whatever happened."""
        deps, obj, meta, spec = self._deps, state.obj, state.meta, state.spec
        conditions, actor = state.conditions, state.actor
        try:
            state.view.dependents = len(needed_by := await dependents_of_cluster(deps, obj, live=meta.deleting))
            kept = waited_for(obj, needed_by, deps.clock.now()) if meta.deleting else []
            if kept and await still_runs(deps, obj, Component.BROKER, Component.STANDALONE):
                await self._run(state)
                state.view.waiting_for = state.view.kept_for = explain(obj, kept)
            elif meta.deleting:
                waiting = await tear_down(deps, state.owner, obj, spec, actor)
                if waiting is None:
                    return DONE
                state.view.waiting_for = waiting
            else:
                await self._run(state)
        except NameConflictError as error:
            state.view.name_conflict = str(error)
        except PortError as error:
            state.view.error = str(error)
            state.backoff = True
        set_conditions(conditions, spec, state.view, deleting=meta.deleting, paused=meta.paused)
        status = cluster_status(spec, state.view, conditions, obj, state.owner)
        await write_status(deps, obj, status.model_copy(update={"pending_actions": actor.pending or None}))
        if state.backoff:
            return Outcome(backoff=True)
        if state.again:
            return Outcome(requeue_after=AGAIN_SECONDS)
        settled = conditions.is_true(ConditionType.READY) and conditions.is_true(ConditionType.UP_TO_DATE)
        if settled and state.view.drain is None:
            return DONE
        return Outcome(requeue_after=RETRY_SECONDS)

    async def _run(self, state: ClusterPass) -> None:
        deps, view, actor = self._deps, state.view, state.actor
        view.store = await self._configuration_store(state)
        children = await Children.observe(deps, state.obj)
        leftovers = children.of_previous_owner()
        if leftovers:
            view.waiting_for = f"{leftovers[0]} of the deleted object of the same name to be gone"
            return
        view.refused.extend(spec_problems(state.spec))
        if view.refused:
            # What runs stays as it is: half of an unacceptable specification would be worse than the old one.
            self._observe(state, children)
            return
        rendered = self._render(state)
        view.rendered = rendered
        if actor.act:
            await ensure_finalizer(deps, state.obj)
        await children.apply(actor, rendered.shared)
        if Component.ZOOKEEPER in rendered.components:
            await apply_ensemble(actor, state.owner, children, Component.ZOOKEEPER, rendered.of(Component.ZOOKEEPER))
        await children.apply(actor, rendered.of(Component.STANDALONE))
        self._observe(state, children)
        if state.spec.mode is ClusterMode.DISTRIBUTED:
            await self._metadata(state)
            await self._ordered(state, children)
        await children.prune(actor, rendered.all(), keep=NEVER_PRUNED)
        drains = self._drains(state)
        await roll(state, children, drains)
        if drains is not None:
            await drains.clean(changing=view.drain is not None)
        await self._balance(state)
        view.waiting_for = view.waiting_for or _unready(view)
        view.refused.extend(actor.refused)

    async def _configuration_store(self, state: ClusterPass) -> StoreFact:
        """The instance's store: this cluster's own metadata store, or what the instance's status names."""
        ref = state.spec.instance_ref
        found = await resolve(self._deps, Kind.INSTANCE, ref, from_namespace=state.meta.namespace)
        if found.obj is None:
            if found.found:
                return StoreFact(
                    False,
                    reason=Reason.REFERENCE_NOT_ALLOWED,
                    message=f"{found.text} does not allow references from Kubernetes namespace "
                    f"{state.meta.namespace}: add it to its spec.allowedKubernetesNamespaces",
                )
            return StoreFact(
                False,
                reason=Reason.REFERENCE_NOT_FOUND,
                message=f"{found.text} of spec.instanceRef does not exist: create it",
            )
        state.view.instance_found = True
        store = found.obj["spec"].get("configurationStore") or {}
        own = (store.get("cluster") or {}).get("name") == state.meta.name and found.obj["metadata"][
            "namespace"
        ] == state.meta.namespace
        if own or state.spec.mode is ClusterMode.STANDALONE:
            state.view.own_configuration_store = True
            return StoreFact(True)
        ready = condition_of(found.obj, ConditionType.CONFIGURATION_STORE_READY)
        status = found.obj.get("status") or {}
        if ready is not None and ready["status"] == "True" and status.get("configurationStoreServers"):
            return StoreFact(True, status["configurationStoreServers"], status.get("configurationStoreChroot"))
        why = ready["message"] if ready else "not observed yet"
        return StoreFact(
            False,
            servers=status.get("configurationStoreServers"),
            chroot=status.get("configurationStoreChroot"),
            message=f"Configuration store of {found.text}: {why}",
        )

    def _render(self, state: ClusterPass) -> RenderedCluster:
        store, images, owner = state.view.store, self._deps.images, state.owner
        return render_cluster(
            ClusterInputs(
                owner=owner,
                spec=state.spec,
                images=ImageTemplates(images.broker, images.bookie, images.proxy),
                configuration_store=StoreAddress.of(store.servers, store.chroot) if store.servers else None,
                super_digest_secret=super_digest_name(owner.name, Component.ZOOKEEPER),
            )
        )

    def _observe(self, state: ClusterPass, children: Children) -> None:
        for component in BRING_UP_ORDER:
            sts = children.stateful_set(component)
            if sts is not None:
                state.view.components[component] = observe_component(sts, children.pods(component))

    async def _metadata(self, state: ClusterPass) -> None:
        """Initialise or check the metadata of the cluster once its store answers."""
        view, spec, rendered = state.view, state.spec, state.view.rendered
        assert rendered is not None and rendered.metadata_store is not None and spec.metadata_store is not None
        zookeeper = view.components.get(Component.ZOOKEEPER)
        managed = spec.metadata_store.managed
        if managed is not None and not has_quorum(zookeeper, managed):
            view.metadata = None
            return
        local = Store(rendered.metadata_store.servers, rendered.metadata_store.chroot or None)
        store = None
        if view.own_configuration_store:
            store = local
        elif view.store.ready and view.store.servers:
            store = Store(view.store.servers, view.store.chroot)
        result = await ensure_cluster_metadata(
            self._deps,
            BootstrapRequest(
                cluster_name=pulsar_name(state.obj),
                object_name=state.meta.name,
                namespace=state.meta.namespace,
                local_store=local,
                configuration_store=store,
                urls=ClusterUrls(
                    service_url=rendered.endpoints.broker_web_service_url,
                    broker_service_url=rendered.endpoints.broker_service_url,
                ),
                labels=labels(state.owner, None),
                bookie_volumes_exist=await self._bookie_volumes_exist(state),
                act=state.actor.act,
            ),
        )
        view.metadata = MetadataFact(
            local_ready=result.local_ready,
            registered=result.registered,
            reason=result.reason,
            message=result.message,
            instance_id=result.instance_id,
        )
        state.actor.pending.extend(result.pending)
        for action in result.actions:
            await state.actor.record_event(Reason.METADATA_INITIALIZED, action)
        if result.actions:
            for note in result.notes:
                await state.actor.record_event(Reason.METADATA_INITIALIZED, note)

    async def _bookie_volumes_exist(self, state: ClusterPass) -> bool:
        """Whether any claim of a bookie exists: then there is, or was, data under this metadata."""
        selector = selector_text(state.owner, Component.BOOKIE)
        return bool(await self._deps.kube.list(PVCS, state.meta.namespace, selector=selector))

    async def _ordered(self, state: ClusterPass, children: Children) -> None:
        """Create components as their gates open; keep those that exist as rendered."""
        view, rendered = state.view, state.view.rendered
        assert rendered is not None
        for component in (Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER, Component.PROXY):
            if component not in rendered.components:
                continue
            gate = gates(bring_up_facts(state.spec, view))[component]
            view.gates[component] = gate
            exists = children.stateful_set(component) is not None
            if gate is not None and not exists:
                view.waiting_for = view.waiting_for or gate.message
                continue
            if component in (Component.BROKER, Component.PROXY) and not view.store_known:
                continue  # rendering without the store's address would roll every broker onto a wrong one
            manifests = rendered.of(component)
            drains = self._drains(state) if component is Component.BROKER else None
            if drains is not None:
                manifests = await resized(state, children, drains, manifests)
            await children.apply(state.actor, manifests)
            sts = children.stateful_set(component)
            if sts is not None:
                view.components[component] = observe_component(sts, children.pods(component))

    def _drains(self, state: ClusterPass) -> BrokerDrains | None:
        """What brokers do before they go; None where there are no brokers that could be asked."""
        view = state.view
        brokers = view.components.get(Component.BROKER)
        if view.rendered is None or state.spec.broker is None or brokers is None or not brokers.ready:
            return None
        if state.spec.mode is ClusterMode.STANDALONE:
            return None
        if state.drains is None:
            state.drains = BrokerDrains(self._deps, state.actor, state.obj, state.spec, self._brokers(state))
        return state.drains

    def _brokers(self, state: ClusterPass) -> AdminEndpoint:
        """The brokers' Service."""
        rendered = state.view.rendered
        assert rendered is not None
        return AdminEndpoint(pulsar_name(state.obj), str(rendered.endpoints.broker_web_service_url))

    async def _balance(self, state: ClusterPass) -> None:
        """Who balances: Pulsar, or the operator for a PulsarRebalance (load_balancer.py)."""
        view, rendered, spec = state.view, state.view.rendered, state.spec
        if spec.mode is ClusterMode.STANDALONE or rendered is None:
            return
        old = (state.obj.get("status") or {}).get("balancer")
        drives = spec.load_balancing.driver is BalancingDriver.OPERATOR
        await standing_rebalance(self._deps, state.actor, state.obj, spec, drives=drives)
        brokers = view.components.get(Component.BROKER)
        if brokers is None or not brokers.ready:
            return
        rebalances = await reader_of(self._deps).every(Kind.REBALANCE)
        wanted = holder(state.obj, rebalances, (old or {}).get("heldFor"))
        # Not given back between two brokers of a roll: it would undo what was just planned.
        keep = drives or view.drain is not None or (old is not None and view.brokers_roll)
        try:
            found = await hold(self._deps, state.actor, self._brokers(state), old, wanted, drives=keep)
        except PortError as error:
            # Its pods are as they should be; the next look tries again.
            await state.actor.warn(Reason.ADMIN_UNREACHABLE, f"The settings of Pulsar's balancer: {error}")
            state.again = True
            return
        view.balancer, state.again = found.status, found.again


def bring_up_facts(spec: PulsarClusterSpec, view: ClusterView) -> BringUpFacts:
    """The gates' input, from what the pass knows so far."""
    zookeeper = view.components.get(Component.ZOOKEEPER)
    bookie, broker = view.components.get(Component.BOOKIE), view.components.get(Component.BROKER)
    metadata = view.metadata
    if metadata is None:
        text = _text("ZooKeeper", zookeeper)
        gate = Gate(Reason.WAITING_FOR_ZOOKEEPER, f"ZooKeeper to be ready: {text}")
    else:
        gate = Gate(metadata.reason, metadata.message)
    return BringUpFacts(
        metadata_ready=metadata is not None and metadata.local_ready,
        metadata_gate=gate,
        bookies_writable=_enough_bookies(spec, bookie),
        bookies_text=f"bookies to be ready: {_text('bookies', bookie)}",
        configuration_store=view.store,
        registered=metadata is not None and metadata.registered,
        brokers_ready=None if broker is None or broker.ready is None else broker.ready > 0,
        brokers_text=f"brokers to be ready: {_text('brokers', broker)}",
    )


def _enough_bookies(spec: PulsarClusterSpec, bookie: ComponentFacts | None) -> bool | None:
    """Whether a ledger can be created: as many bookies as an ensemble has."""
    if bookie is None or bookie.ready is None or spec.bookkeeper is None:
        return None
    return bookie.ready >= resolve_quorum(spec.bookkeeper.ensemble, spec.bookkeeper.replicas).ensemble_size


def _text(what: str, facts: ComponentFacts | None) -> str:
    return facts.summary(what)[1] if facts is not None else f"{what}: not created yet"


def _unready(view: ClusterView) -> str | None:
    """The first component in bring-up order that exists and is not ready."""
    for component in BRING_UP_ORDER:
        facts = view.components.get(component)
        if facts is not None and facts.all_ready is False:
            noun = NOUNS[component]
            return f"{noun} to be ready: {_text(noun, facts)}"
    return None
