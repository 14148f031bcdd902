"""Runs the demo, stage by stage, each with its time. Reuses what is there; `make demo-down` removes it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from e2e.demo.client import exchange
from e2e.demo.ending import ending
from e2e.kind.paths import paths
from e2e.support.deploy import (
    NAMESPACE,
    OPERATOR_NAMESPACE,
    QUICKSTART,
    ROOT,
    Helm,
    InstallError,
    install_operator,
    quickstart,
)
from e2e.support.eventually import eventually
from e2e.support.first_message import read_stages, table_of
from e2e.support.kubectl import Kubectl, KubectlError
from e2e.support.objects import all_not_ready

CLUSTER = "pulsar-demo"
HOST_URL = "pulsar://127.0.0.1:6650"
"""Where kind's port for the proxies is on this machine."""
MESSAGES = 1000
READY_SECONDS = 600


class Stages:
    """Prints each stage with its time, and all of them at the end."""

    def __init__(self) -> None:
        self.times: list[tuple[str, float]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage; its time is kept also when it fails."""
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        try:
            yield
        finally:
            self.times.append((name, time.monotonic() - start))
            print(f"   {name}: {self.times[-1][1]:.1f} s", flush=True)

    def table(self) -> str:
        """All stages and their sum."""
        rows = [*self.times, ("total", sum(seconds for _, seconds in self.times))]
        wide = max(34, *(len(name) + 2 for name, _ in rows))
        return "\n".join(f"  {name:<{wide}}{seconds:>8.1f} s" for name, seconds in rows)


def machine(context: str | None) -> tuple[Kubectl, str]:
    """A cluster to use, and the helm binary. KUBE_CONTEXT names an existing one; otherwise kind is brought up."""
    if context:
        built = Path(paths()["bin"])
        tools = [str(built / name) if (built / name).exists() else name for name in ("kubectl", "helm")]
        print(f"   using the cluster of context {context}; it must be able to pull or already have the images")
        return Kubectl(tools[0], None, context), tools[1]
    subprocess.run([sys.executable, "-m", "e2e.kind", "up", CLUSTER], cwd=ROOT, check=True)
    where = paths()
    return Kubectl(where["kubectl"], Path(where["kubeconfigs"][CLUSTER])), where["helm"]


def install(kubectl: Kubectl, helm: str) -> None:
    """helm upgrade --install of the operator, watching the demo's namespace."""
    print("   " + install_operator(Helm(helm, kubectl), watch=[NAMESPACE]).strip().splitlines()[0])


def wait_ready(look: Callable[[], list[str]], example: str) -> None:
    """Until ``look`` finds nothing that is not Ready, telling what it waits for whenever that changes."""
    told: set[str] = set()
    start = time.monotonic()

    def probe() -> bool:
        waiting = look()
        for line in waiting:
            if line not in told:
                told.add(line)
                print(f"   {time.monotonic() - start:5.1f} s  {line}", flush=True)
        return not waiting

    eventually(probe, within=READY_SECONDS, what=f"every object of {example} is Ready", every=1.0)


@contextmanager
def service_url(kubectl: Kubectl) -> Iterator[str]:
    """The proxy as seen from the host: the kind port, or a port-forward where another cluster is used."""
    if not kubectl.context:
        yield HOST_URL
        return
    forward = kubectl.popen("-n", NAMESPACE, "port-forward", "service/east-proxy", "16651:6650")
    try:
        assert forward.stdout is not None
        line = forward.stdout.readline()
        if "Forwarding" not in line:
            sys.exit(f"port-forward failed: {line.strip()}")
        yield "pulsar://127.0.0.1:16651"
    finally:
        forward.terminate()
        forward.wait(timeout=10)


def talk(url: str) -> datetime:
    """Messages on both topics of the quickstart; when those of the first topic were received."""
    run, first = datetime.now(UTC).strftime("%Y%m%dT%H%M%S"), None
    for topic in ("persistent://shop/orders/payments", "persistent://shop/orders/clicks"):
        result = exchange(url, topic, messages=MESSAGES, subscription="demo", run=run)
        first = first or datetime.now(UTC)
        print(f"   {topic}: sent {result.sent}, received {result.received} ({result.first} .. {result.last})")
        for name, count in result.partitions.items():
            print(f"     {name:<28}{count:>6} messages")
    assert first is not None
    return first


def way_to_the_first_message(kubectl: Kubectl, begin: datetime, message: datetime) -> str:
    """The stages from kubectl apply to the first message, where the cluster was made by this run."""
    cluster = kubectl.get("pulsarcluster", NAMESPACE, "east")
    if cluster is None or datetime.fromisoformat(cluster["metadata"]["creationTimestamp"]) < begin:
        return "the cluster existed before this run: only a run that creates it measures its start"
    return "from kubectl apply to the first message\n" + table_of(read_stages(kubectl, NAMESPACE, "east", message))


def operator_share(kubectl: Kubectl) -> str:
    """What the operator process did since it started, from its own metrics."""
    path = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/services/pulsar-operator-metrics:9090/proxy/metrics"
    sums = {"reconcile_duration_seconds_count": 0.0, "reconcile_duration_seconds_sum": 0.0, "kube_writes_total": 0.0}
    for line in kubectl.run("get", "--raw", path).splitlines():
        found = re.match(r"pulsar_operator_(\w+)(?:\{.*\})? (\S+)$", line)
        if found and found.group(1) in sums:
            sums[found.group(1)] += float(found.group(2))
    passes, seconds, writes = sums.values()
    return f"the operator made {passes:.0f} passes in {seconds:.1f} s together and {writes:.0f} writes to Kubernetes"


def parting(kubectl: Kubectl) -> str:
    """Where the Pulsar is and what to try, in commands that work in any shell of this machine."""
    template = "jsonpath={.spec.containers[0].image}"
    image = kubectl.run("get", "pod", "east-broker-0", "-n", NAMESPACE, "-o", template)
    if kubectl.context:
        return ending(f"{kubectl.binary} --context {kubectl.context}", image, "")
    text = ending(f"{kubectl.binary} --kubeconfig {kubectl.kubeconfig}", image, HOST_URL)
    return f"{text}\nmake demo-down removes everything again"


def main() -> None:
    """make demo."""
    stages = Stages()
    with stages.stage("machine, images, Kubernetes"):
        kubectl, helm = machine(os.environ.get("KUBE_CONTEXT"))
    with stages.stage("helm install of the operator"):
        install(kubectl, helm)
    # Kind leads the ports of its node to 127.0.0.1 alone; on somebody's cluster they would be open on every node.
    text = QUICKSTART.read_text(encoding="utf-8") if kubectl.context else quickstart()
    begin = datetime.now(UTC).replace(microsecond=0)  # as Kubernetes writes times
    with stages.stage("kubectl apply -f examples/quickstart.yaml"):
        print("   " + kubectl.apply(text).strip().replace("\n", "\n   "))
    with stages.stage("until every object is Ready"):
        wait_ready(lambda: all_not_ready(kubectl, NAMESPACE), "examples/quickstart.yaml")
    with stages.stage("messages through the proxy"), service_url(kubectl) as url:
        message = talk(url)
    print("\n$ kubectl get pulsar -A\n" + kubectl.run("get", "pulsar", "-A"))
    print(operator_share(kubectl))
    print("\n" + way_to_the_first_message(kubectl, begin, message))
    print("\n" + stages.table())
    print("\n" + parting(kubectl))


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, InstallError, KubectlError, subprocess.CalledProcessError) as problem:
        sys.exit(f"\ndemo failed: {problem}")
