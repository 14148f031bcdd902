"""The facts that a pass over a PulsarCluster reads before it acts: one immutable value."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pydantic import ValidationError

from pulsar_operator.api.constants import Component, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.instance import PulsarInstanceStatus
from pulsar_operator.api.v1alpha1.security import Authentication, Authorization
from pulsar_operator.api.v1alpha1.tls import EdgeMode
from pulsar_operator.balance.autoscaling.outlook import Read
from pulsar_operator.controllers.core.clusters import brokers_endpoint, published_endpoint
from pulsar_operator.controllers.core.objects import Meta
from pulsar_operator.controllers.core.references import Resolved, resolve
from pulsar_operator.controllers.core.stores import store_state
from pulsar_operator.controllers.dataplane.objects.children import observe_children
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_name
from pulsar_operator.controllers.dataplane.observed.edge_secrets import edge_secrets
from pulsar_operator.controllers.dataplane.observed.meters import Loads
from pulsar_operator.controllers.dataplane.observed.rack_facts import known_racks
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.bookie_racks import KnownRacks, too_few
from pulsar_operator.domain.dataplane.cluster.bring_up import StoreFact
from pulsar_operator.domain.dataplane.cluster.cluster_view import InstanceFact
from pulsar_operator.domain.dataplane.decommission.volume_claims import is_claim_of
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.pods import pods_of
from pulsar_operator.domain.dataplane.observed.edge_certificate import (
    EdgeCertificate,
    EdgeSecrets,
    certified,
    edge_certificate,
    edge_of,
    effective_edge,
    lagging,
)
from pulsar_operator.domain.dataplane.observed.running_versions import (
    all_on_record,
    applied_versions,
    known_pod_versions,
)
from pulsar_operator.domain.dataplane.observed.store_sessions import granted_by
from pulsar_operator.domain.dataplane.registration.metadata import (
    DamagedRecordError,
    Record,
    RecordState,
    parse_record,
    recorded_quorum,
)
from pulsar_operator.domain.dataplane.registration.quorum_record import known_quorum
from pulsar_operator.domain.dataplane.rollout.facts import RollOrder
from pulsar_operator.domain.dataplane.rollout.versions import downgrade
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of, with_desired, with_quorum
from pulsar_operator.domain.render import (
    ListenerPlan,
    Owner,
    Quorum,
    RenderedCluster,
    Security,
    security_of,
    selector_text,
)
from pulsar_operator.domain.render.child_names import workload_name
from pulsar_operator.domain.render.external_listeners import KnownAddresses, known_addresses, tls_hosts
from pulsar_operator.domain.render.security import has_token
from pulsar_operator.domain.stored import parsed
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import (
    CONFIG_MAPS,
    PVCS,
    SERVICES,
    STATEFUL_SETS,
    AdminEndpoint,
    Deps,
    Json,
)


@dataclass(frozen=True)
class ClusterFacts:
    """A PulsarCluster with its children and records."""

    obj: Json
    meta: Meta
    spec: PulsarClusterSpec
    owner: Owner
    instance: InstanceFact
    live: Live
    before: PulsarClusterStatus = field(default_factory=PulsarClusterStatus)
    """The status as stored."""
    claims: Sequence[Json] = ()
    """Claims of bookies' volumes with the operator's labels."""
    config_map: Json | None = None
    """ConfigMap with the record of the instance id, as read; None if there is none, or the mode has none."""
    quorum: Quorum | None = None
    """Quorums of the ledgers so far; None if nothing was brought up yet, or in mode Standalone."""
    quorum_on_record: Quorum | None = None
    """Quorums in the record."""
    racks: KnownRacks | None = None
    """Racks of the bookies; None if the specification names no racks."""
    loads: Loads = field(default_factory=dict)
    """Loads of the pods of components with autoscaling."""
    recorded: Read | None = None
    """Recorded traffic; None if no decision uses it."""
    stored_spec: PulsarClusterSpec | None = None
    """The stored specification if other replicas than its own count; None if it is ``spec``."""
    edge_secrets: EdgeSecrets | None = None
    """Secrets with the certificate of the edge; None if no pod uses TLS by the specification."""
    unlabelled_claims: bool = False
    """Whether claims have the names of bookies' volumes and lack the operator's labels; read until the store is
    initialized and if no claim carries them."""

    @property
    def bookie_volumes(self) -> bool:
        """Whether any claim of a bookie exists: then there is, or was, data for its metadata."""
        return bool(self.claims) or self.unlabelled_claims

    @property
    def declared(self) -> PulsarClusterSpec:
        """The stored specification; ``spec`` has the replicas that autoscaling decided."""
        return self.stored_spec or self.spec

    @property
    def listeners(self) -> ListenerPlan:
        """The listener plan of the brokers."""
        external = tuple(self.spec.listeners or ())
        return ListenerPlan(self.owner, Component.BROKER, self.spec.cluster_domain, external=external)

    @property
    def brokers_listening(self) -> int:
        """Number of brokers with addresses at external listeners: desired ones, and those that are not removed yet."""
        there = self.live.stateful_set(Component.BROKER)
        pods = pods_of(there, self.live.pods(Component.BROKER)) if there is not None else ()
        desired = self.spec.broker.replicas if self.spec.broker is not None else 0
        have = replicas_of(there) if there is not None else 0
        return max(desired, have, *(pod.ordinal + 1 for pod in pods))

    @property
    def addresses(self) -> KnownAddresses:
        """The addresses at external listeners by the Services as read."""
        return addresses_in(self, self.live)

    @cached_property
    def edge(self) -> EdgeMode:
        """Which connections proxies accept now: both while they change to another mode."""
        there = self.live.stateful_set(Component.PROXY)
        return effective_edge(self.spec, there["spec"]["template"] if there is not None else None, self._proxies)

    @property
    def proxies_lagging(self) -> tuple[str, ...]:
        """Names of the proxies that do not accept the connections of that mode yet."""
        return lagging(self.edge, self._proxies)

    @property
    def _proxies(self) -> list[Json]:
        return [each for each in self.live.pods(Component.PROXY) if "deletionTimestamp" not in each["metadata"]]

    @cached_property
    def certificate(self) -> EdgeCertificate | None:
        """The certificate at the edge; None if no pod uses TLS by the specification."""
        edge, secrets = edge_of(self.spec), self.edge_secrets
        if edge is None or secrets is None:
            return None
        hosts = tls_hosts(self.listeners, self.addresses)
        if self.spec.proxy is not None and Component.PROXY in certified(self.spec):
            service = ListenerPlan(self.owner, Component.PROXY, self.spec.cluster_domain).host
            hosts.append((edge.host or service).strip("[]"))
        return edge_certificate(edge, secrets, self.owner, hosts)

    def uncertified(self, component: Component) -> Blocker | None:
        """Returns why pods of a component that need the certificate cannot be created or changed; None if they can."""
        found = self._certificate_of(component)
        return found.blocker if found is not None else None

    def unfit(self, component: Component) -> Blocker | None:
        """Returns why no pods of a component that need the certificate are added; None if they may be."""
        found = self._certificate_of(component)
        return found.unfit if found is not None else None

    def _certificate_of(self, component: Component) -> EdgeCertificate | None:
        return self.certificate if component in certified(self.spec) else None

    @property
    def too_few_racks(self) -> str | None:
        """Returns why no ledger could be created once brokers enforce a minimum of racks, as a message. None if ledgers
        could be created."""
        keeper = self.spec.bookkeeper
        if keeper is None or keeper.racks is None or self.racks is None:
            return None
        return too_few(keeper.racks, self.racks)

    @property
    def overruled(self) -> bool:
        """Whether the recorded quorums differ from the effective ones, which brokers have, although the specification
        did not change them."""
        return self.quorum is not None and self.quorum_on_record not in (None, self.quorum)

    @property
    def record(self) -> Record | None:
        """The record of the instance id; None if it does not exist or cannot be read."""
        try:
            return None if self.config_map is None else parse_record(self.config_map.get("data") or {})
        except DamagedRecordError:
            return None

    @property
    def remembered(self) -> frozenset[str]:
        """Versions in the record, while servers that hold data do not exist; empty if not known."""
        store = self.spec.metadata_store
        managed = store is not None and store.managed is not None
        holding = (Component.ZOOKEEPER, Component.BOOKIE) if managed else (Component.BOOKIE,)
        if self.record is None or all(self.live.stateful_set(each) for each in holding):
            return frozenset()
        return self.record.versions

    @cached_property
    def running(self) -> frozenset[str] | None:
        """Versions of the workloads' templates, of pods that are not replaced yet, and of volumes that no server has
        opened yet; empty if nothing ran yet, None if not known."""
        found = applied_versions(self.live) | known_pod_versions(self.live) | self.remembered
        if self.before.version and not all_on_record(self.live):
            found |= {self.before.version}
        return found or (None if self.live.every(STATEFUL_SETS.kind) else frozenset())

    @property
    def order(self) -> RollOrder:
        """The order in which components get the newest template."""
        return RollOrder(backwards=downgrade(self.running or frozenset(), self.spec.version))

    @property
    def secured(self) -> bool:
        """Whether brokers verify tokens, by their workload or by the stored status; either may be lost."""
        known = self.before.endpoints
        workloads = filter(None, map(self.live.stateful_set, (Component.BROKER, Component.STANDALONE)))
        return (known is not None and known.token_audience is not None) or any(map(has_token, workloads))

    def brokers(self, rendered: RenderedCluster | None) -> AdminEndpoint | None:
        """The brokers' Service, as rendered or else as published; None if there is neither."""
        if rendered is None:
            return published_endpoint(self.obj)
        urls = rendered.endpoints
        return brokers_endpoint(self.obj, urls.broker_web_service_url, secured=urls.token_audience is not None)


def addresses_in(facts: ClusterFacts, live: Live) -> KnownAddresses:
    """Returns the addresses at external listeners by the Services among children."""
    services = {each["metadata"]["name"]: each for each in live.every(SERVICES.kind)}
    entries = next(
        (
            each.get("data")
            for each in live.every(CONFIG_MAPS.kind)
            if each["metadata"]["name"] == facts.listeners.addresses
        ),
        None,
    )
    return known_addresses(facts.listeners, facts.brokers_listening, services, entries)


async def observe(
    deps: Deps, obj: Json, meta: Meta, spec: PulsarClusterSpec, before: PulsarClusterStatus, owner: Owner
) -> ClusterFacts:
    """Reads all facts. Raises PortError: facts are complete or absent."""
    volumes = selector_text(owner, Component.BOOKIE)
    instance, live, claims = await asyncio.gather(
        _instance(deps, meta, spec, before),
        observe_children(deps, obj),
        deps.kube.list(PVCS, meta.namespace, selector=volumes),
    )
    record = live.get(CONFIG_MAPS.kind, record_name(meta.name))
    if record is None and spec.mode is ClusterMode.DISTRIBUTED:
        # The list shows what has our labels: one that was restored by hand may have none.
        record = await deps.kube.get(CONFIG_MAPS, meta.namespace, record_name(meta.name))
    unlabelled = not claims and await _claims_without_labels(deps, meta, spec, owner, record)
    desired = with_desired(spec, before, live, deps.clock.now())
    stored = None if desired is spec else spec
    facts = ClusterFacts(obj, meta, desired, owner, instance, live, before, claims, record, stored_spec=stored)
    facts = replace(facts, unlabelled_claims=unlabelled, edge_secrets=await edge_secrets(deps, desired, owner))
    if desired.bookkeeper is None:
        return facts
    facts = replace(facts, racks=await known_racks(deps, desired.bookkeeper, live))
    return _with_quorum(facts, desired.bookkeeper)


async def _claims_without_labels(
    deps: Deps, meta: Meta, spec: PulsarClusterSpec, owner: Owner, config_map: Json | None
) -> bool:
    """Whether there is a claim with the name of a bookie's, as a StatefulSet uses it: one that was restored manually
    may have no labels. Read only until the metadata is initialized. Raises PortError."""
    state = ((config_map or {}).get("data") or {}).get("state")
    if spec.mode is not ClusterMode.DISTRIBUTED or state == RecordState.INITIALIZED:
        return False
    workload = workload_name(owner.name, Component.BOOKIE)
    every = await deps.kube.list(PVCS, meta.namespace)
    return any(is_claim_of(workload, str(each["metadata"]["name"])) for each in every)


def _with_quorum(facts: ClusterFacts, keeper: BookKeeper) -> ClusterFacts:
    record = (facts.config_map or {}).get("data") or {}
    known = known_quorum(keeper, facts.live, record=record, status=facts.before, volumes=facts.bookie_volumes)
    enough = with_quorum(facts.spec, known)
    if enough is not facts.spec:
        facts = replace(facts, spec=enough, stored_spec=facts.declared)
    try:
        return replace(facts, quorum=known, quorum_on_record=recorded_quorum(record))
    except ValueError:
        return replace(facts, quorum=known)


async def _instance(deps: Deps, meta: Meta, spec: PulsarClusterSpec, before: PulsarClusterStatus) -> InstanceFact:
    """Returns the instance's store: this cluster's own metadata store, or the one in the instance's status."""
    found = await resolve(deps, Kind.INSTANCE, spec.instance_ref, from_namespace=meta.namespace)
    if found.obj is None:
        if found.found:
            return InstanceFact(
                False,
                StoreFact(
                    False,
                    reason=Reason.REFERENCE_NOT_ALLOWED,
                    message=f"{found.text} does not allow references from Kubernetes namespace {meta.namespace}. Add "
                    "the namespace to its spec.allowedKubernetesNamespaces",
                ),
            )
        return InstanceFact(
            False,
            StoreFact(
                False,
                reason=Reason.REFERENCE_NOT_FOUND,
                message=f"{found.text}, which spec.instanceRef names, does not exist. Create it",
            ),
        )
    try:
        security = _security(deps, found.obj)
    except ValidationError:
        text = f"This version of the operator cannot read spec.authentication of {found.text}. Upgrade the operator"
        return InstanceFact(False, StoreFact(False, reason=Reason.PARENT_NOT_READY, message=text))
    return replace(_store(found, meta, spec, before), security=security)


def _security(deps: Deps, instance: Json) -> Security | None:
    """Returns the authentication and authorization of an instance; None if it has none. Raises ValidationError."""
    spec, meta = instance["spec"], instance["metadata"]
    if spec.get("authentication") is None:
        return None
    tokens = Authentication.model_validate(spec["authentication"]).service_account_tokens
    given = spec.get("authorization")
    roles = Authorization.model_validate(given) if given is not None else None
    return security_of(tokens, roles, namespace=meta["namespace"], name=meta["name"], operator=deps.operator_role)


def _store(found: Resolved, meta: Meta, spec: PulsarClusterSpec, before: PulsarClusterStatus) -> InstanceFact:
    """Returns what an existing instance says about its configuration store."""
    assert found.obj is not None
    store = found.obj["spec"].get("configurationStore") or {}
    is_own = (store.get("cluster") or {}).get("name") == meta.name
    if (is_own and found.obj["metadata"]["namespace"] == meta.namespace) or spec.mode is ClusterMode.STANDALONE:
        metadata = before.condition(ConditionType.METADATA_READY)
        ready = metadata is not None and metadata.status is ConditionStatus.TRUE
        since = metadata.last_transition_time if metadata is not None and ready else None
        return InstanceFact(True, StoreFact(True, since=since), own_store=True)
    status, state = parsed(PulsarInstanceStatus, found.obj.get("status")), store_state(found.obj)
    known = StoreFact(
        False,
        status.configuration_store_servers,
        status.configuration_store_chroot,
        outages=status.configuration_store_outages or (),
        session=granted_by((store.get("managed") or {}).get("config")),
    )
    if state.ready and known.servers:
        return InstanceFact(True, replace(known, ready=True, since=state.since))
    return InstanceFact(
        True, replace(known, message=f"The configuration store of {found.text} is not ready. {sentence(state.message)}")
    )
