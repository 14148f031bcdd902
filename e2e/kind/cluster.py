"""The life of a kind cluster: created, found healthy, started again after its engine was down, or made anew."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.kind import kindconfig, nodeimage, versions
from e2e.kind.cache import Cache, digest_texts
from e2e.kind.docker import Docker
from e2e.kind.kindconfig import Cluster
from e2e.kind.nodeimage import scratch_folder
from e2e.kind.nodeload import load, missing_images
from e2e.kind.prereq import SYSTEM_FOLDERS
from e2e.kind.registry import Registry, container_name
from e2e.kind.shell import CommandError, Log, capture
from e2e.kind.source import Source
from e2e.kind.steps import SkippedError, Step

AUDIT_POLICY = Path(__file__).parent / "recipes" / "cluster" / "audit-policy.yaml"
READY_SECONDS = 120.0
#: A running node whose API does not come back in this time is made anew.
REPAIR_SECONDS = 90.0


class PortInUseError(CommandError):
    """Another program listens on a port that the cluster is to have."""


@dataclass(frozen=True)
class ClusterMachine:
    """Acts on one cluster."""

    cache: Cache
    docker: Docker
    source: Source
    cluster: Cluster

    def steps(self, tags: list[str]) -> list[Step]:
        """Make the cluster be there and healthy, then load the images that the engine has of these tags."""
        hint = f"python -m e2e.kind down {self.cluster.name}"
        there = Step(f"cluster {self.cluster.name}", self.healthy, self._ensure, done_word="up", hint=hint)
        # A cluster with a registry pulls from it: that is what it is for.
        return [there, self.registry.step() if self.cluster.registry else self.load_step(tags)]

    @property
    def registry(self) -> Registry:
        """The registry beside it, for a cluster that has one."""
        return Registry(self.docker, self.source, self.cluster, self._folder)

    def load_step(self, tags: list[str]) -> Step:
        """Load what the node lacks of these images."""

        def build(log: Log) -> str:
            if not self.docker.image_facts(tags):
                raise SkippedError("none of the product images is built: python -m e2e.kind images")
            missing = missing_images(self.docker, self.cluster.node, tags)
            with scratch_folder(self.cache, f"load-{self.cluster.name}") as scratch:
                load(self.docker, self.cluster.node, missing, log, scratch)
            return f"loaded {', '.join(missing)}"

        def fresh() -> bool:
            have = self.docker.image_facts(tags)
            return bool(have) and not missing_images(self.docker, self.cluster.node, tags)

        return Step(f"images in {self.cluster.name}", fresh, build)

    def healthy(self) -> bool:
        """Whether the cluster is as asked for, its API answers, and its node and system pods are ready."""
        return self.state() == "running" and self._as_asked() and self.kubeconfig.is_file() and self._ready()

    def state(self) -> str:
        """The state of the node's container: running, exited, ... or "absent"."""
        try:
            return self.docker.capture("inspect", "--format", "{{.State.Status}}", self.cluster.node).strip()
        except CommandError:
            return "absent"

    @property
    def kubeconfig(self) -> Path:
        """The cluster's own kubeconfig file."""
        return self.cache.kubeconfig(self.cluster.name)

    def down(self, log: Log) -> None:
        """Remove the cluster and its files; nothing happens when there is none."""
        # What `kind delete cluster` does, but it works without the kind program too.
        if self.state() != "absent":
            self.docker.run(log, "rm", "--force", "--volumes", self.cluster.node)
        self.docker.succeeds("rm", "--force", "--volumes", container_name(self.cluster.name))
        self.kubeconfig.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ensure(self, log: Log) -> str:
        state = self.state()
        if state != "absent" and self._as_asked():
            if state != "running":
                log.write(f"the node's container is {state}: starting it")
                # A container can be stuck in the hands of an engine that died; then only a new one helps.
                self.docker.succeeds("start", self.cluster.node, timeout=60)
            if not self.kubeconfig.is_file():
                self._kind(log, "export", "kubeconfig", "--name", self.cluster.name, "--kubeconfig", self.kubeconfig)
            if self._wait(REPAIR_SECONDS):
                return "started again" if state != "running" else "ready"
            log.write(f"not ready after {REPAIR_SECONDS:.0f} s: making it anew")
        self._create(log)
        return "made anew" if state != "absent" else "created"

    def _create(self, log: Log) -> None:
        self.down(log)
        for option, port in self._ports().items():
            require_free(port, f"--{option.replace('_', '-')}")
        policies = self._folder / "policies"
        policies.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(AUDIT_POLICY, policies / kindconfig.POLICY_FILE)
        if self.cluster.registry:
            self.registry.write_hosts()
        config = self._folder / "kind.yaml"
        config.write_text(self._config())
        image = versions.STOCK_NODE_IMAGE if self.source == "stock" else versions.BUILT_NODE_IMAGE
        name = ("--name", self.cluster.name)
        self._kind(
            log, "create", "cluster", *name, "--config", config, "--image", image, "--kubeconfig", self.kubeconfig
        )
        if not self._wait(READY_SECONDS):
            raise CommandError(f"the new cluster is not ready after {READY_SECONDS:.0f} s: {self._unready()}")
        kindconfig.ports_file(self.cache.root, self.cluster.name).write_text(json.dumps(self._ports()))
        # Last: without it the next run takes the cluster for half made.
        (self._folder / "digest").write_text(self._digest())

    def _ports(self) -> dict[str, int]:
        """Ports of this machine, by the name of the option."""
        found = {"pulsar_port": self.cluster.pulsar_port, "web_port": self.cluster.web_port}
        return {**found, "second_port": self.cluster.second_port} if self.cluster.second_port else found

    def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._ready():
            if time.monotonic() > deadline:
                return False
            time.sleep(1)
        return True

    def _ready(self) -> bool:
        return self._unready() == ""

    def _unready(self) -> str:
        try:
            nodes = self._get("nodes")
            workloads = self._get("deployments,daemonsets,pods", "--namespace", "kube-system")
            started = self.docker.capture("inspect", "--format", "{{.State.StartedAt}}", self.cluster.node).strip()
        except (CommandError, json.JSONDecodeError) as error:
            return f"the API does not answer ({error})"
        return unready_part(nodes, workloads, started)

    def _get(self, *what: str) -> Mapping[str, Any]:
        options = ["--kubeconfig", str(self.kubeconfig), "--request-timeout=5s", "--output", "json"]
        command = [str(self.cache.bin / "kubectl"), "get", *what, *options]
        answer: Mapping[str, Any] = json.loads(capture(command, timeout=15))
        return answer

    def _as_asked(self) -> bool:
        note = self._folder / "digest"
        return note.is_file() and note.read_text() == self._digest()

    def _digest(self) -> str:
        node = versions.STOCK_NODE_IMAGE if self.source == "stock" else nodeimage.node_digest()
        return digest_texts(self._config(), node, AUDIT_POLICY.read_text())

    def _config(self) -> str:
        return kindconfig.render(self.cluster, self.source, self._folder / "policies")

    @property
    def _folder(self) -> Path:
        return kindconfig.cluster_folder(self.cache.root, self.cluster.name)

    def _kind(self, log: Log, *arguments: str | Path) -> None:
        path = os.pathsep.join((os.environ.get("PATH", ""), *SYSTEM_FOLDERS))
        log.run([self.cache.bin / "kind", *arguments], env={"PATH": path}, timeout=600)


def unready_part(nodes: Mapping[str, Any], workloads: Mapping[str, Any], started: str) -> str:
    """What keeps a cluster from being ready, or "": from the lists of its nodes and of its system workloads and pods.

    started is when the node's container started (RFC 3339, UTC): what the API says about pods that started earlier is
    from before a restart, and they are not running now.
    """
    if not nodes["items"] or not workloads["items"]:
        return "nothing there yet"
    for node in nodes["items"]:
        conditions = {item["type"]: item["status"] for item in node.get("status", {}).get("conditions", [])}
        if conditions.get("Ready") != "True":
            return f"node {node['metadata']['name']} is not ready"
    for workload in workloads["items"]:
        status = workload.get("status", {})
        if workload["kind"] == "Pod":
            if not _pod_runs(status, started):
                return f"pod {workload['metadata']['name']} is not ready"
            continue
        if workload["kind"] == "DaemonSet":
            wanted, ready = status.get("desiredNumberScheduled", -1), status.get("numberReady", 0)
        else:
            wanted, ready = workload["spec"].get("replicas", 1), status.get("readyReplicas", 0)
        if ready < wanted or wanted < 0:
            return f"{workload['kind']} {workload['metadata']['name']} has {ready} ready pods of {wanted}"
    return ""


def _pod_runs(status: Mapping[str, Any], started: str) -> bool:
    if status.get("phase") == "Succeeded":
        return True
    containers = status.get("containerStatuses", [])
    # Whole seconds on both sides, and so comparable as text.
    begins = [item.get("state", {}).get("running", {}).get("startedAt", "")[:19] for item in containers]
    ready = all(item.get("ready", False) for item in containers)
    return bool(containers) and ready and all(begin >= started[:19] for begin in begins)


def require_free(port: int, option: str) -> None:
    """Raise PortInUseError when something listens on this port of 127.0.0.1, naming the option that picks another."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortInUseError(f"port {port} of 127.0.0.1 is taken: choose another with {option}") from error
