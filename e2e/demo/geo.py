"""make demo-geo: two clusters of one instance, a message across, a region lost and back, the configuration store lost
and back; each moment with its time and a picture. Reuses what is there; `make demo-geo-down` removes it.

Nine processes of Java: ZooKeeper, bookie, broker and proxy of each cluster, and the configuration store.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pulsar

from e2e.demo.__main__ import Stages, wait_ready
from e2e.demo.client import crossing, received
from e2e.demo.ending import PAIR_TOPIC, pair_ending
from e2e.demo.picture import INDENT, picture
from e2e.kind.paths import paths
from e2e.support.admin import ask
from e2e.support.deploy import NAMESPACE, ROOT, Helm, InstallError, install_operator
from e2e.support.eventually import eventually
from e2e.support.geopair import EAST, INSTANCE, NAMESPACES, WEST, manifest
from e2e.support.kubectl import Kubectl, KubectlError
from e2e.support.objects import all_not_ready, condition
from e2e.support.outage import without
from pulsar_conformance.counting import simple

CLUSTER = "pulsar-demo-geo"
PORTS = ("--pulsar-port", "6652", "--second-port", "6653", "--web-port", "8082")
URLS = {"east": "pulsar://127.0.0.1:6652", "west": "pulsar://127.0.0.1:6653"}
EAST_ADMIN = "http://127.0.0.1:8082"
KEPT = "west"
"""Subscription in west that gets what waited for it."""
EXAMPLE = "the pair of examples/geo.yaml"
CALL_SECONDS = 5.0
"""A call that needs the configuration store is given up after that."""
OUTAGE_SECONDS = 300.0


@dataclass(frozen=True)
class World:
    """The instance, while things happen to it."""

    kubectl: Kubectl
    run: str
    """In the names of what is made, so that the demo can run again."""

    def instance(self) -> dict[str, Any]:
        """The PulsarInstance."""
        found = self.kubectl.get("pulsarinstance", NAMESPACE, INSTANCE)
        assert found is not None, f"PulsarInstance {NAMESPACE}/{INSTANCE} is gone"
        return found

    def until(self, right: Callable[[dict[str, Any]], object], what: str) -> None:
        """Wait until the instance says so, then print its picture with the seconds it took."""
        start = time.monotonic()
        eventually(lambda: right(self.instance()), within=OUTAGE_SECONDS, what=what, every=0.5)
        print(f"{INDENT}{what}: after {time.monotonic() - start:.1f} s\n\n{picture(self.instance())}\n", flush=True)

    def across(self) -> None:
        """A message from each cluster to the other."""
        for source, target in (("east", "west"), ("west", "east")):
            text = f"{self.run} from {source} {time.monotonic_ns()}"
            seconds = crossing(URLS[source], URLS[target], PAIR_TOPIC, text)
            print(f"{INDENT}a message from {source} received in {target} after {seconds * 1000:.0f} ms", flush=True)

    def region_lost(self) -> list[str]:
        """Stop west's brokers until the instance reports it, while east keeps publishing; returns what it published."""
        simple.subscribe(URLS["west"], PAIR_TOPIC, KEPT)
        published: list[str] = []

        def told(instance: dict[str, Any]) -> bool:
            # What waits must grow from one look of the operator to the next.
            published.extend(
                simple.publish(URLS["east"], PAIR_TOPIC, 20, prefix=f"{self.run} waits {len(published) // 20}")
            )
            return condition(instance, "ReplicationHealthy").get("reason") == "NotConnected"

        with without(self.kubectl, "pulsarcluster", WEST.namespace, WEST.name, "broker"):
            self.until(told, "the instance reports that west is not connected")
            print(f"{INDENT}{len(published)} messages published in east during the outage", flush=True)
        return published

    def region_back(self, published: list[str]) -> None:
        """West has brokers again: until it has all that waited for it."""
        start = time.monotonic()
        self.until(lambda found: reachable(found, "west"), "west answers")
        self.until(lambda found: connected(found, "east", "west"), "east is connected to west again")
        got = received(URLS["west"], PAIR_TOPIC, KEPT, published)
        assert got == published, f"{len(published)} messages waited, and came in another order"
        print(f"{INDENT}all {len(got)} messages received in west, in order, {time.monotonic() - start:.1f} s after")

    def store_lost(self) -> None:
        """Stop the configuration store: topics in use keep working, and no topic can be created."""
        with without(self.kubectl, "pulsarinstance", NAMESPACE, INSTANCE, "configuration-store"):
            self.until(lambda found: store(found) == "False", "the instance reports that its store is unavailable")
            self.across()
            try:
                self.make_topic()
            except OSError as error:
                print(f"{INDENT}a new topic cannot be created: {error}", flush=True)
            else:
                raise AssertionError("a topic was made without a configuration store")

    def store_back(self) -> None:
        """Wait until topics can be created again."""
        start = time.monotonic()
        eventually(self.make_topic, within=OUTAGE_SECONDS, what="a topic is made", every=0.5)
        print(f"{INDENT}a topic is created after {time.monotonic() - start:.1f} s", flush=True)
        self.until(lambda found: store(found) == "True", "the instance reports that its store is available")
        self.across()

    def make_topic(self) -> bool:
        """Make a partitioned topic in east; one that is there counts, as a call given up may have been carried out."""
        try:
            path = f"persistent/shop/orders/new-{self.run}/partitions"
            ask(EAST_ADMIN, "PUT", path, 2, seconds=CALL_SECONDS)
        except HTTPError as error:
            if error.code != 409:
                raise
        return True


def store(instance: dict[str, Any]) -> str:
    """Status of ConfigurationStoreReady."""
    return str(condition(instance, "ConfigurationStoreReady").get("status"))


def reachable(instance: dict[str, Any], cluster: str) -> bool:
    """Whether a cluster answers."""
    rows = instance["status"].get("clusters") or []
    return any(row["name"] == cluster and row.get("reachable") for row in rows)


def connected(instance: dict[str, Any], source: str, target: str) -> bool:
    """Whether all replicators from one cluster to the other are connected."""
    rows = instance["status"].get("replication") or []
    return any((row["from"], row["to"]) == (source, target) and row.get("connected") for row in rows)


def machine() -> tuple[Kubectl, str]:
    """The kind cluster of this demo, and the helm binary."""
    subprocess.run([sys.executable, "-m", "e2e.kind", "up", CLUSTER, *PORTS], cwd=ROOT, check=True)
    where = paths()
    return Kubectl(where["kubectl"], Path(where["kubeconfigs"][CLUSTER])), where["helm"]


def parting(kubectl: Kubectl) -> str:
    """Where both clusters are, and what to try."""
    template = "jsonpath={.spec.containers[0].image}"
    image = kubectl.run("get", "pod", f"{EAST.name}-broker-0", "-n", EAST.namespace, "-o", template)
    text = pair_ending(f"{kubectl.binary} --kubeconfig {kubectl.kubeconfig}", image, URLS)
    return f"{text}\nmake demo-geo-down removes everything again"


def main() -> None:
    """make demo-geo."""
    stages = Stages()
    with stages.stage("machine, images, Kubernetes"):
        kubectl, helm = machine()
    with stages.stage("helm install of the operator"):
        print(INDENT + install_operator(Helm(helm, kubectl), watch=list(NAMESPACES)).strip().splitlines()[0])
    with stages.stage(f"kubectl apply of {EXAMPLE}, in the size of one machine"):
        print(INDENT + kubectl.apply(manifest()).strip().replace("\n", f"\n{INDENT}"))
    with stages.stage("until every object is Ready"):
        wait_ready(lambda: all_not_ready(kubectl, *NAMESPACES), EXAMPLE)
    world = World(kubectl, datetime.now(UTC).strftime("%Y%m%dT%H%M%S"))
    with stages.stage("a message across, and one back"):
        world.across()
        world.until(
            lambda found: connected(found, "east", "west") and connected(found, "west", "east"),
            "the instance reports that both are connected",
        )
    with stages.stage("a region lost: west has no brokers"):
        published = world.region_lost()
    with stages.stage("the region is back"):
        world.region_back(published)
    with stages.stage("the configuration store lost"):
        world.store_lost()
    with stages.stage("the configuration store is back"):
        world.store_back()
        wait_ready(lambda: all_not_ready(kubectl, *NAMESPACES), EXAMPLE)
    print(f"\n{picture(world.instance())}\n\n{stages.table()}\n\n{parting(kubectl)}")


if __name__ == "__main__":
    try:
        main()
    except (
        *(AssertionError, InstallError, KubectlError, OSError),
        *(pulsar.PulsarException, subprocess.CalledProcessError),
    ) as problem:
        sys.exit(f"\ndemo failed: {problem}")
