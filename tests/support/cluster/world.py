"""The whole control loop without a cluster: every real controller over ports that are fakes or real servers.

``ClusterWorld.fakes()`` keeps everything in memory. ``real_world`` (real_world.py) uses a real API server, a real
ZooKeeper and HTTP. What Kubernetes does is played by Workloads; what Pulsar does by FakePulsar, which answers only
while brokers are ready. Nothing sleeps: ``run`` alternates the operator and Kubernetes until neither changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulsar_operator.api.constants import (
    ANNOTATION_DRY_RUN,
    ANNOTATION_PAUSE,
    LABEL_OWNER_KIND,
    LABEL_OWNER_NAME,
    Kind,
)
from pulsar_operator.controllers.core.index import Effect, RefIndex, key_of
from pulsar_operator.controllers.core.reconciler import Outcome, Reconciler
from pulsar_operator.controllers.dataplane.cluster.cluster_controller import ClusterController
from pulsar_operator.controllers.dataplane.instance.instance_controller import InstanceController
from pulsar_operator.controllers.dataplane.objects.children import OWNED
from pulsar_operator.controllers.logical.isolation_policy import IsolationPolicyController
from pulsar_operator.controllers.logical.namespace import NamespaceController
from pulsar_operator.controllers.logical.resource_group import ResourceGroupController
from pulsar_operator.controllers.logical.tenant import TenantController
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.controllers.rebalance.controller import RebalanceController
from pulsar_operator.controllers.topicset.controller import TopicSetController
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.instance.geo_replication import ReplicationReadings
from pulsar_operator.domain.dataplane.instance.reachability import Reachability
from pulsar_operator.domain.dataplane.observed.store_sessions import StoreReads
from pulsar_operator.ports import (
    CUSTOM,
    PODS,
    STATEFUL_SETS,
    AdminEndpoint,
    Deps,
    Json,
    Key,
    KubePort,
    PortError,
    PulsarAdminPort,
    ResourceType,
    ZooKeeperPort,
)
from pulsar_operator.runtime import known_settings
from tests.fakes.admin import FakeAdmin
from tests.fakes.bookies import FakeBookies
from tests.fakes.counters import FakeCounters
from tests.fakes.kube import FakeKube
from tests.fakes.pulsar import FakePulsar
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.cluster.backstage import Backstage, FakeBackstage
from tests.support.cluster.data_plane import DataPlane, GatedAdmin, GatedZooKeeper
from tests.support.cluster.workloads import Workloads
from tests.support.core.clocks import FreshEntropy, SteppingClock
from tests.support.core.journal import Journal, TappedAdmin, TappedBookies, TappedKube, TappedZooKeeper
from tests.support.core.recorder import CountingMetrics
from tests.support.yamls import documents

NS = "pulsar"
QUICKSTART = Path(__file__).resolve().parents[3] / "examples" / "quickstart.yaml"
ORDER = (
    Kind.INSTANCE,
    Kind.CLUSTER,
    Kind.TENANT,
    Kind.NAMESPACE,
    Kind.TOPIC,
    Kind.RESOURCE_GROUP,
    Kind.ISOLATION_POLICY,
    Kind.REBALANCE,
    Kind.TOPIC_SET,
)
QUIET_ROUNDS = 2
"""Rounds without any change after which nothing more is expected."""


def quickstart(namespace: str = NS) -> list[Json]:
    """The custom resources of examples/quickstart.yaml, moved to a Kubernetes namespace."""
    found = [d for d in documents(QUICKSTART.read_text(encoding="utf-8")) if d["kind"] != "Namespace"]
    return [{**d, "metadata": {**d["metadata"], "namespace": namespace}} for d in found]


def always(_: str) -> bool:
    """What runs inside the pods is not gated."""
    return True


class ClusterWorld:
    """Objects go in, ``run`` plays operator and Kubernetes, everything can be looked at."""

    def __init__(
        self,
        *,
        kube: KubePort,
        backstage: Backstage,
        zookeeper: ZooKeeperPort,
        admin: PulsarAdminPort,
        pulsar: FakePulsar,
        namespace: str,
    ) -> None:
        """``zookeeper`` and ``admin`` are reached by the names in the manifests; gates are laid around them here."""
        self.namespace = namespace
        self.backstage = backstage
        self.pulsar = pulsar
        self.journal = Journal()
        zookeeper = GatedZooKeeper(zookeeper, always)
        self.bookies = FakeBookies()
        """HTTP servers of bookies and auto-recovery; ``dataplane.copy`` has the latter do what they were asked."""
        self.dataplane = DataPlane(backstage, zookeeper, pulsar, self.bookies)
        self.clock, self._entropy = SteppingClock(), FreshEntropy()
        self.counters = FakeCounters(self.clock)
        if isinstance(kube, FakeKube):
            kube.time = self._time  # a method, so that a copy of the world has the copy's clock
        self.workloads = Workloads(backstage, needs=self.dataplane.needs, clock=self.clock.now)
        self.deps = Deps(
            TappedKube(kube, self.journal),
            TappedZooKeeper(GatedZooKeeper(zookeeper, self.store_answers, self.dataplane.server_state), self.journal),
            TappedAdmin(GatedAdmin(admin, self.brokers_answer), self.journal),
            self.clock,
            self._entropy,
            CountingMetrics(),
            TappedBookies(self.bookies, self.journal),
            counters=self.counters,
            settings=known_settings(),
        )
        self.outcomes: dict[Key, Outcome | PortError] = {}
        """How the last pass of each object ended."""
        self.unreachable: set[str] = set()
        """Hosts outside of Kubernetes that do not answer."""
        self.restart()

    @classmethod
    def fakes(cls) -> ClusterWorld:
        """Everything in memory."""
        kube, pulsar = FakeKube(), FakePulsar(clusters=[])
        return cls(
            kube=kube,
            backstage=FakeBackstage(kube),
            zookeeper=FakeZooKeeper(),
            admin=FakeAdmin(pulsar),
            pulsar=pulsar,
            namespace=NS,
        )

    def _time(self) -> str:
        return timestamp(self.clock.now())

    def restart(self) -> None:
        """A new operator process: nothing in memory survives."""
        deps = replace(
            self.deps, reachability=Reachability(), replication=ReplicationReadings(), store_reads=StoreReads()
        )
        self.controllers: dict[Kind, Reconciler] = {
            Kind.INSTANCE: InstanceController(deps),
            Kind.CLUSTER: ClusterController(deps),
            Kind.TENANT: TenantController(deps),
            Kind.NAMESPACE: NamespaceController(deps),
            Kind.TOPIC: TopicController(deps),
            Kind.RESOURCE_GROUP: ResourceGroupController(deps),
            Kind.ISOLATION_POLICY: IsolationPolicyController(deps),
            Kind.REBALANCE: RebalanceController(deps),
            Kind.TOPIC_SET: TopicSetController(deps),
        }

    # ------------------------------------------------------------------------------------- what answers, and where

    def store_answers(self, servers: str) -> bool:
        """Whether a majority of the ensemble's pods is ready; nobody is unreachable."""
        host = servers.split(",", maxsplit=1)[0].split(":", maxsplit=1)[0]
        service, _, rest = host.partition(".")
        namespace, found, _ = rest.partition(".svc.")
        if host in self.unreachable or not found:
            return host not in self.unreachable
        return self.workloads.ready.get((namespace, service), 0) >= self.dataplane.majority.get(service, 1)

    def brokers_answer(self, endpoint: AdminEndpoint) -> bool:
        """Whether the Service of the URL has a ready pod behind it, and its metadata still names the cluster."""
        if endpoint.cluster not in self.pulsar.clusters:
            return False
        host = endpoint.url.partition("://")[2].partition(":")[0]
        service, namespace, third = (*host.split("."), "")[:3]
        if namespace.endswith("-headless"):  # one pod by its own name
            service, namespace = service.rsplit("-", 1)[0], third
        return self.workloads.ready.get((namespace, service), 0) > 0

    # ------------------------------------------------------------------------------------------------------- users

    async def apply(self, *manifests: Json) -> None:
        """A user applies objects."""
        for manifest in manifests:
            await self.backstage.put(manifest)

    async def change(self, kind: Kind, name: str, change: Callable[[Json], None]) -> None:
        """A user edits the spec of an object: ``change`` gets it to alter."""
        await self.backstage.edit(CUSTOM[kind], self.namespace, name, lambda obj: change(obj["spec"]))

    async def annotate(self, kind: Kind, name: str, annotation: str, value: str | None) -> None:
        """A user sets an annotation, or takes it off."""

        def change(obj: Json) -> None:
            annotations = obj["metadata"].setdefault("annotations", {})
            annotations.pop(annotation, None)
            if value is not None:
                annotations[annotation] = value

        await self.backstage.edit(CUSTOM[kind], self.namespace, name, change)

    async def pause(self, kind: Kind, name: str, *, on: bool = True) -> None:
        """A user pauses or resumes an object."""
        await self.annotate(kind, name, ANNOTATION_PAUSE, "true" if on else None)

    async def dry_run(self, kind: Kind, name: str, *, on: bool = True) -> None:
        """A user asks for a dry run, or ends it."""
        await self.annotate(kind, name, ANNOTATION_DRY_RUN, "true" if on else None)

    async def delete(self, kind: Kind, name: str) -> None:
        """A user deletes an object."""
        await self.backstage.remove(CUSTOM[kind], self.namespace, name)

    async def delete_all(self) -> None:
        """A user deletes every object at once, as ``kubectl delete -f`` does."""
        for kind in ORDER:
            for obj in await self.backstage.all(CUSTOM[kind]):
                await self.backstage.remove(CUSTOM[kind], obj["metadata"]["namespace"], obj["metadata"]["name"])

    # ---------------------------------------------------------------------------------------------------- looking

    async def live(self, kind: ResourceType | Kind, name: str) -> Json | None:
        """An object, or None."""
        resource = CUSTOM[kind] if isinstance(kind, Kind) else kind
        return await self.backstage.live(resource, self.namespace, name)

    async def get(self, kind: ResourceType | Kind, name: str) -> Json:
        """An object that must exist."""
        found = await self.live(kind, name)
        assert found is not None, f"{kind} {name} does not exist"
        return found

    async def names(self, kind: ResourceType) -> list[str]:
        """Names of all objects of a kind."""
        return [obj["metadata"]["name"] for obj in await self.backstage.all(kind)]

    async def uids(self, kind: ResourceType) -> dict[str, str]:
        """UIDs of all objects of a kind, by name."""
        return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in await self.backstage.all(kind)}

    async def configuration(self, workload: str) -> str:
        """Name of the ConfigMap that new pods of a StatefulSet get."""
        volumes = (await self.get(STATEFUL_SETS, workload))["spec"]["template"]["spec"]["volumes"]
        return str(next(v["configMap"]["name"] for v in volumes if v["name"] == "config"))

    async def status(self, kind: Kind, name: str) -> Json:
        """Status of a custom resource."""
        return dict((await self.get(kind, name)).get("status") or {})

    async def condition(self, kind: Kind, name: str, type_: str = "Ready") -> tuple[str, str, str]:
        """(status, reason, message) of a condition."""
        for found in (await self.status(kind, name)).get("conditions") or ():
            if found["type"] == type_:
                return found["status"], found["reason"], found["message"]
        return "absent", "", ""

    async def trees(self) -> dict[str, dict[str, str]]:
        """Content of every ensemble that ever served, by client address and path."""
        return {servers: await self.dataplane.tree(servers) for servers in sorted(self.dataplane.stores)}

    async def all_ready(self) -> dict[str, str]:
        """Objects that are not Ready, with the message; empty when all are."""
        found = {}
        for kind in ORDER:
            for obj in await self.backstage.all(CUSTOM[kind]):
                name = obj["metadata"]["name"]
                ready = await self.condition(kind, name)
                if ready[0] != "True":
                    found[f"{kind.value} {name}"] = ready[2]
        return found

    # ----------------------------------------------------------------------------------------- operator and world

    async def reconcile(self, key: Key) -> None:
        """One pass, as the engine runs it."""
        try:
            self.outcomes[key] = await self.controllers[key.kind].reconcile(key)
        except PortError as error:
            self.outcomes[key] = error

    async def keys(self) -> list[Key]:
        """Every custom resource, parents first."""
        return [
            Key(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
            for kind in ORDER
            for obj in await self.backstage.all(CUSTOM[kind])
        ]

    async def round(self) -> bool:
        """A pass over every object, then a step of Kubernetes; whether anything was written by anybody."""
        before = len(self.journal.attempts)
        for key in await self.keys():
            await self.reconcile(key)
        changes = await self.workloads.step()
        await self.dataplane.step(self.workloads.ready)
        return changes > 0 or len(self.journal.attempts) > before

    async def idle_steps(self, steps: int) -> None:
        """Kubernetes goes on while no operator runs."""
        for _ in range(steps):
            await self.workloads.step()
            await self.dataplane.step(self.workloads.ready)

    async def run(self, *, rounds: int = 120, each: Callable[[], Any] | None = None) -> None:
        """Rounds until nothing changes any more; ``each`` (async) is called before every one. Fails at no end."""
        quiet = 0
        for _ in range(rounds):
            if each is not None:
                await each()
            quiet = 0 if await self.round() else quiet + 1
            if quiet == QUIET_ROUNDS:
                return
        last = "\n".join(str(call) for call in self.journal.attempts[-12:])
        raise AssertionError(f"no end after {rounds} rounds; the last writes:\n{last}")

    async def run_by_events(self, *, passes: int = 2000) -> None:
        """Like ``run``, but only objects run that an event concerns, and, when no event is left, those that asked to.

        Uses the engine's own rules of who waits for whom, so that a missing wake-up leaves something undone.
        """
        index = RefIndex()
        seen: dict[tuple[str, str, str], str] = {}
        dirty = dict.fromkeys(await self._events(index, seen))
        quiet = 0
        for _ in range(passes):
            if dirty:
                key = next(iter(dirty))
                del dirty[key]
                await self.reconcile(key)
            else:
                before = len(self.journal.attempts)
                changes = await self.workloads.step()
                await self.dataplane.step(self.workloads.ready)
                for key, outcome in list(self.outcomes.items()):
                    if isinstance(outcome, PortError) or outcome.backoff or outcome.requeue_after is not None:
                        await self.reconcile(key)
                quiet = quiet + 1 if not changes and len(self.journal.attempts) == before else 0
                if quiet == QUIET_ROUNDS:
                    return
            dirty |= dict.fromkeys(await self._events(index, seen))
        raise AssertionError(f"no end after {passes} passes")

    async def _events(self, index: RefIndex, seen: dict[tuple[str, str, str], str]) -> list[Key]:
        """Keys that the changes since the last call concern, in a fixed order."""
        keys: set[Key] = set()
        alive: set[tuple[str, str, str]] = set()
        for kind in ORDER:
            for obj in await self.backstage.all(CUSTOM[kind]):
                key = key_of(kind, obj)
                alive.add((kind.value, key.namespace, key.name))
                keys |= _concerned(key, index.update(kind, obj))
            for key in set(index.keys(kind)):
                if (kind.value, key.namespace, key.name) not in alive:
                    keys |= _concerned(key, index.remove(key))
        for child in (*OWNED, PODS):
            for obj in await self.backstage.all(child):
                meta = obj["metadata"]
                place = (child.kind, meta["namespace"], meta["name"])
                alive.add(place)
                if seen.get(place) != meta["resourceVersion"]:
                    seen[place] = meta["resourceVersion"]
                    keys |= _owner(meta)
        for place in set(seen) - alive:
            # The owner of what is gone is not known any more here; the watch has the last state.
            del seen[place]
            keys |= {key for kind in (Kind.INSTANCE, Kind.CLUSTER) for key in index.keys(kind)}
        return sorted(key for key in keys if key in index)

    async def until(self, condition: Callable[[], Any], *, rounds: int = 120) -> None:
        """Rounds until the (async) condition holds."""
        for _ in range(rounds):
            if await condition():
                return
            await self.round()
        raise AssertionError(f"not reached in {rounds} rounds: {await self.all_ready()}")

    async def bring_up(self) -> ClusterWorld:
        """The quickstart, applied and converged."""
        await self.apply(*quickstart(self.namespace))
        await self.run()
        return self


def _concerned(key: Key, effect: Effect) -> set[Key]:
    return ({key} if effect.own else set()) | effect.referrers | effect.referred


def _owner(meta: Json) -> set[Key]:
    labels = meta.get("labels") or {}
    kind, name = labels.get(LABEL_OWNER_KIND), labels.get(LABEL_OWNER_NAME)
    return {Key(Kind(kind), meta["namespace"], name)} if kind and name else set()
