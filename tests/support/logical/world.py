"""A world for tests of the logical plane: an API server and a Pulsar in memory, and its controllers."""

from __future__ import annotations

from typing import Any

from pulsar_operator.adapters.clock import SystemEntropy
from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, ANNOTATION_PAUSE, API_VERSION, Kind
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.logical.isolation_policy import IsolationPolicyController
from pulsar_operator.controllers.logical.namespace import NamespaceController
from pulsar_operator.controllers.logical.resource_group import ResourceGroupController
from pulsar_operator.controllers.logical.tenant import TenantController
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.controllers.topicset.controller import TopicSetController
from pulsar_operator.ports import CUSTOM, Deps, Json, Key
from tests.fakes.admin import FakeAdmin
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.pulsar import FakePulsar
from tests.support.core.clocks import SteppingClock
from tests.support.core.recorder import CountingMetrics

NS = "apps"
LOGICAL = (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY, Kind.TOPIC_SET)


class LogicalWorld:
    """Objects go in through ``tenant``, ``namespace`` and ``topic``; ``run`` plays the operator."""

    def __init__(self, *clusters: str, admin: Any = None, urls: dict[str, str] | None = None) -> None:
        """Starts with instance "prod" and ready clusters; ``admin`` and ``urls`` replace the in-memory Pulsar."""
        self.kube = FakeKube()
        names = list(clusters or ("a",))
        self.pulsar = FakePulsar(clusters=list(names))
        self.admin = admin or FakeAdmin(self.pulsar)
        self.urls = urls or {}
        self.version: str = getattr(self.admin, "pulsar", self.pulsar).version
        self.put(Kind.INSTANCE, "prod", {"configurationStore": {"external": {"servers": "zk:2181"}}})
        for name in names:
            self.cluster(name)
        self.restart()

    def restart(self) -> None:
        """A new operator process."""
        none: Any = None
        self.stepping = SteppingClock()
        deps = Deps(self.kube, none, self.admin, self.stepping, SystemEntropy(), CountingMetrics(), FakeBookies())
        self.controllers: dict[Kind, Any] = {
            Kind.TENANT: TenantController(deps),
            Kind.NAMESPACE: NamespaceController(deps),
            Kind.TOPIC: TopicController(deps),
            Kind.RESOURCE_GROUP: ResourceGroupController(deps),
            Kind.ISOLATION_POLICY: IsolationPolicyController(deps),
            Kind.TOPIC_SET: TopicSetController(deps),
        }

    # ------------------------------------------------------------------------------------------------ objects

    def put(self, kind: Kind, name: str, spec: Json, *, ns: str = NS, annotations: Json | None = None) -> Json:
        """A user applies an object."""
        meta: Json = {"name": name, "namespace": ns}
        if annotations is not None:
            meta["annotations"] = annotations
        return self.kube.put({"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec})

    def cluster(self, name: str, *, ready: bool = True, ns: str = NS) -> None:
        """A PulsarCluster, ready or not."""
        self.put(Kind.CLUSTER, name, {"instanceRef": {"name": "prod"}}, ns=ns)
        self.cluster_status(name, ready=ready, ns=ns)

    def cluster_status(self, name: str, *, ready: bool, ns: str = NS) -> None:
        """What the cluster controller published."""
        conditions = [{"type": "BrokersReady", "status": "True" if ready else "False", "reason": "Ready"}]
        url = self.urls.get(name, f"http://{name}:8080")
        status = {"conditions": conditions, "endpoints": {"brokerWebServiceUrl": url}, "version": self.version}
        self.kube.set_status(CUSTOM[Kind.CLUSTER], ns, name, status)

    def tenant(self, name: str = "t", /, *, ns: str = NS, annotations: Json | None = None, **spec: Any) -> Json:
        """A PulsarTenant."""
        body = {"instanceRef": {"name": "prod"}, **spec}
        return self.put(Kind.TENANT, name, body, ns=ns, annotations=annotations)

    def namespace(
        self, name: str = "n", /, *, tenant: str = "t", ns: str = NS, annotations: Json | None = None, **spec: Any
    ) -> Json:
        """A PulsarNamespace."""
        body = {"tenantRef": {"name": tenant}, **spec}
        return self.put(Kind.NAMESPACE, name, body, ns=ns, annotations=annotations)

    def topic(
        self, name: str = "x", /, *, namespace: str = "n", ns: str = NS, annotations: Json | None = None, **spec: Any
    ) -> Json:
        """A PulsarTopic."""
        body = {"namespaceRef": {"name": namespace}, **spec}
        return self.put(Kind.TOPIC, name, body, ns=ns, annotations=annotations)

    def group(self, name: str = "g", /, *, ns: str = NS, annotations: Json | None = None, **spec: Any) -> Json:
        """A PulsarResourceGroup."""
        body = {"instanceRef": {"name": "prod"}, **spec}
        return self.put(Kind.RESOURCE_GROUP, name, body, ns=ns, annotations=annotations)

    def isolation(self, name: str = "i", /, *, ns: str = NS, annotations: Json | None = None, **spec: Any) -> Json:
        """A PulsarIsolationPolicy."""
        body = {"instanceRef": {"name": "prod"}, **spec}
        return self.put(Kind.ISOLATION_POLICY, name, body, ns=ns, annotations=annotations)

    def topics(
        self, name: str = "s", /, *, namespace: str = "n", ns: str = NS, annotations: Json | None = None, **spec: Any
    ) -> Json:
        """A PulsarTopicSet; without another template of non-partitioned topics without policies."""
        body = {"namespaceRef": {"name": namespace}, "template": {}, **spec}
        return self.put(Kind.TOPIC_SET, name, body, ns=ns, annotations=annotations)

    def get(self, kind: Kind, name: str, *, ns: str = NS) -> Json | None:
        """The stored object."""
        return self.kube.live(CUSTOM[kind], ns, name)

    def status(self, kind: Kind, name: str, *, ns: str = NS) -> Json:
        """Its status."""
        obj = self.get(kind, name, ns=ns)
        assert obj is not None, f"{kind} {name} is gone"
        return dict(obj.get("status") or {})

    def condition(self, kind: Kind, name: str, type_: str = "Ready", *, ns: str = NS) -> tuple[str, str, str]:
        """(status, reason, message) of a condition."""
        for condition in self.status(kind, name, ns=ns).get("conditions") or []:
            if condition["type"] == type_:
                return condition["status"], condition["reason"], condition["message"]
        return "absent", "", ""

    def delete(self, kind: Kind, name: str, *, ns: str = NS) -> None:
        """A user deletes an object."""
        self.kube.remove(CUSTOM[kind], ns, name)

    def reasons(self, kind: Kind | None = None) -> list[str]:
        """Reasons of the recorded events."""
        return [e.reason for e in self.kube.events if kind is None or e.object_kind == kind.value]

    # --------------------------------------------------------------------------------------------- the operator

    async def reconcile(self, kind: Kind, name: str, *, ns: str = NS) -> Outcome:
        """One pass over one object."""
        outcome: Outcome = await self.controllers[kind].reconcile(Key(kind, ns, name))
        return outcome

    async def run(self, passes: int = 6) -> None:
        """Passes over everything until nothing is written any more."""
        for _ in range(passes):
            before = len(self.kube.changes), len(getattr(self.admin, "writes", ()))
            for kind in LOGICAL:
                for obj in self.kube.all(CUSTOM[kind]):
                    await self.reconcile(kind, obj["metadata"]["name"], ns=obj["metadata"]["namespace"])
            if before == (len(self.kube.changes), len(getattr(self.admin, "writes", ()))):
                return

    async def second_pass_writes(self) -> tuple[list[Any], list[Any]]:
        """What one more pass over everything writes: to Kubernetes, to Pulsar."""
        kube, admin = len(self.kube.writes), len(self.admin.writes)
        for kind in LOGICAL:
            for obj in self.kube.all(CUSTOM[kind]):
                await self.reconcile(kind, obj["metadata"]["name"], ns=obj["metadata"]["namespace"])
        return self.kube.writes[kube:], self.admin.writes[admin:]


PAUSED = {ANNOTATION_PAUSE: "true"}
DRY_RUN = {ANNOTATION_DRY_RUN: "true"}
