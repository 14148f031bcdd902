"""What tests of the metadata bootstrap share: requests, dependencies, a kill switch, trees without the random id."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmation
from pulsar_operator.controllers.core.stores import Store
from pulsar_operator.controllers.dataplane.registration.bootstrap import (
    BootstrapRequest,
    BootstrapResult,
    ensure_cluster_metadata,
)
from pulsar_operator.domain.dataplane.registration.registration import ClusterUrls
from pulsar_operator.ports import CONFIG_MAPS, Deps, Json, KubePort, ZooKeeperPort
from tests.fakes.bookies import FakeBookies
from tests.fakes.killed import Killed
from tests.fakes.kube import FakeKube
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.core.clocks import FreshEntropy

NAMESPACE = "pulsar"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = "2126-01-01T00:00:00Z"


class CountingEntropy(FreshEntropy):
    """Ids that differ, and secrets that can be recognized."""

    def token(self, nbytes: int = 24) -> str:
        return "t" * nbytes


def deps(kube: KubePort, zookeeper: ZooKeeperPort) -> Deps:
    """Dependencies with only what the bootstrap uses."""
    unused = cast(Any, None)
    return Deps(kube, zookeeper, unused, unused, CountingEntropy(), unused, FakeBookies())


def urls(name: str) -> ClusterUrls:
    """URLs as the controller renders them."""
    host = f"{name}-broker.{NAMESPACE}.svc.cluster.local"
    return ClusterUrls(f"http://{host}:8080", f"pulsar://{host}:6650")


def adopting(instance_id: str) -> list[ClusterConfirmation]:
    """A user confirms that a store with that id is taken over."""
    fields = {"action": "AdoptMetadata", "answers": instance_id, "expiresTime": LATER}
    return [ClusterConfirmation.model_validate(fields)]


def request(name: str, local: Store, configuration: Store | None, **changes: Any) -> BootstrapRequest:
    """A request of PulsarCluster <name> in the test namespace."""
    fields: dict[str, Any] = {
        "cluster_name": name,
        "object_name": name,
        "namespace": NAMESPACE,
        "local_store": local,
        "configuration_store": configuration,
        "urls": urls(name),
        "bookies_exist": False,
        "now": NOW,
        "labels": {"app.kubernetes.io/instance": name},
    }
    return BootstrapRequest(**{**fields, **changes})


class _Call(Protocol):
    @property
    def is_write(self) -> bool: ...


class KillSwitch:
    """Counts the writes of several fakes together and ends the operator before or after one of them."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.kill: tuple[int, str] | None = None
        """(number of the write from 0, "before" or "after"); None = never."""

    def watch(self, fake: Any, describe: Callable[[Any], str]) -> None:
        """Hook into FakeKube or FakeZooKeeper."""

        def before(call: _Call) -> None:
            if call.is_write:
                if self.kill == (len(self.writes), "before"):
                    raise Killed
                self.writes.append(describe(call))

        def after(call: _Call) -> None:
            if call.is_write and self.kill == (len(self.writes) - 1, "after"):
                raise Killed

        fake.before.append(before)
        fake.after.append(after)

    def arm(self, number: int, when: str) -> None:
        """Kill at this write of those still to come."""
        self.kill = (len(self.writes) + number, when)

    def disarm(self) -> None:
        """Let everything pass again."""
        self.kill = None


def anonymous(tree: Mapping[str, bytes], instance_id: str) -> dict[str, Any]:
    """A tree that compares: JSON decoded, the instance id replaced by a word."""
    out: dict[str, Any] = {}
    for path, data in tree.items():
        text = data.decode().replace(instance_id, "THE-ID")
        out[path] = json.loads(text) if text.startswith(("{", "[")) else text
    return out


async def record_of(kube: KubePort, name: str) -> Json | None:
    """``data`` of the cluster's record, or None."""
    found = await kube.get(CONFIG_MAPS, NAMESPACE, f"{name}-instance-id")
    return None if found is None else dict(found["data"])


LOCAL, SHARED = Store("local:2181", "/pulsar"), Store("shared:2181")


class BootstrapWorld:
    """A Kubernetes and the ensembles, with an operator that can be killed."""

    def __init__(self) -> None:
        self.kube, self.zookeeper, self.switch = FakeKube(), FakeZooKeeper(), KillSwitch()
        self.switch.watch(self.kube, lambda call: f"{call.verb} {call.kind}")
        self.switch.watch(self.zookeeper, lambda call: f"{call.op} {call.servers}{call.path}")
        self.deps = deps(self.kube, self.zookeeper)

    async def ensure(
        self, name: str = "a", local: Store = LOCAL, shared: Store | None = SHARED, **changes: Any
    ) -> BootstrapResult:
        """One set-up of a cluster."""
        return await ensure_cluster_metadata(self.deps, request(name, local, shared, **changes))

    async def end(self, name: str = "a") -> dict[str, Any]:
        """Everything there is at the end, without the random id."""
        record = await record_of(self.kube, name)
        instance_id = "" if record is None else record["instanceId"]
        trees = {servers: anonymous(e.tree(), instance_id) for servers, e in self.zookeeper.ensembles.items()}
        return {"record": record and {**record, "instanceId": "THE-ID"}, **trees}
