"""A second node for a kind cluster of one: joined by kubeadm as kind joins its workers, and gone in the end.

kind itself makes nodes only with a cluster. The built node image brings a bridge with a fixed range of addresses, so
the range that the controller manager gives the node is written into its network configuration, and each of the two
nodes gets a route to the pods of the other.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl, KubectlError

NETWORK = "kind"
FOLDER = "/etc/cni/net.d"
BRIDGE = f"{FOLDER}/10-bridge.conflist"
ASIDE = "/kind/bridge.conflist"
SOCKET = "unix:///run/containerd/containerd.sock"
JOIN_SECONDS = 300.0


@dataclass(frozen=True)
class SecondNode:
    """A node of a cluster, which is a container of the same name."""

    kubectl: Kubectl
    first: str
    """The other node."""
    name: str

    def start(self) -> None:
        """The container, as kind starts those of nodes: with the first one's image and way to control groups."""
        first = json.loads(_docker("inspect", self.first))[0]
        host = first["HostConfig"]
        labels = {"io.x-k8s.kind.cluster": first["Config"]["Labels"]["io.x-k8s.kind.cluster"]}
        arguments = ["run", "--detach", "--tty", "--name", self.name, "--hostname", self.name, "--init=false"]
        arguments += ["--privileged", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"]
        arguments += ["--tmpfs", "/tmp", "--tmpfs", "/run", "--volume", "/var"]
        arguments += ["--volume", "/lib/modules:/lib/modules:ro", "--network", NETWORK]
        if host.get("CgroupnsMode"):
            arguments += ["--cgroupns", host["CgroupnsMode"]]
        for each in host.get("Devices") or []:
            arguments += ["--device", each["PathOnHost"]]
        for key, value in (labels | {"io.x-k8s.kind.role": "worker"}).items():
            arguments += ["--label", f"{key}={value}"]
        _docker(*arguments, first["Image"])

    def join(self) -> None:
        """Into the cluster: ready once its pods have addresses that the first node knows the way to."""
        eventually(self._answers, within=300, what=f"containerd of {self.name}")
        self._here("mv", BRIDGE, ASIDE)
        token = _docker("exec", self.first, "kubeadm", "token", "create", "--ttl", "15m").strip().splitlines()[-1]
        server = f"{self.first}:6443"
        self._here(
            *("kubeadm", "join", server, "--token", token, "--discovery-token-unsafe-skip-ca-verification"),
            *("--cri-socket", SOCKET, "--node-name", self.name, "--skip-phases", "preflight"),
            timeout=JOIN_SECONDS,
        )
        # Before the kubelet may start a pod: without a network configuration the node is not ready.
        mine = eventually(lambda: (self._range(self.name),), within=60, what=f"addresses of {self.name}")[0]
        text = self._here("cat", ASIDE)
        configuration = json.loads(text)
        (bridge,) = (each for each in configuration["plugins"] if each["type"] == "bridge")
        bridge["ipam"]["ranges"] = [[{"subnet": mine}]]
        self._here("tee", BRIDGE, text=json.dumps(configuration))
        self._route(self.first, mine, self.name)
        self._route(self.name, self._range(self.first), self.first)
        ready = ("wait", f"node/{self.name}", "--for=condition=Ready", "--timeout=180s")
        self.kubectl.run(*ready, timeout=200)

    def load(self, images: Sequence[str]) -> None:
        """Copy images of the engine into the node."""
        saving = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        importing = [
            "docker",
            "exec",
            "--interactive",
            self.name,
            "ctr",
            "--namespace",
            "k8s.io",
            "images",
            "import",
            "-",
        ]
        done = subprocess.run(importing, stdin=saving.stdout, capture_output=True, text=True, timeout=600, check=False)
        if saving.wait(timeout=60) != 0 or done.returncode != 0:
            raise RuntimeError(f"images {' '.join(images)} into {self.name}: {done.stderr.strip()}")

    def remove(self) -> None:
        """The node's pods, the node, its container and the way to it."""
        try:
            mine = self._range(self.name)
            _docker("exec", self.first, "ip", "route", "del", mine)
        except (AssertionError, KubectlError, RuntimeError):
            pass  # It never came so far.
        self.kubectl.run("delete", "node", self.name, "--ignore-not-found", "--timeout=60s")
        _docker("rm", "--force", "--volumes", self.name)

    def _answers(self) -> bool:
        assert self._here("ctr", "version"), "no answer"
        # What the node image itself loads: kube-proxy is among it.
        listing = self._here("ctr", "--namespace", "k8s.io", "images", "ls", "--quiet")
        assert "kube-proxy" in listing, listing
        return True

    def _range(self, node: str) -> str:
        found: Any = self.kubectl.json("get", "node", node)["spec"].get("podCIDR")
        assert found, f"{node} has no range of addresses for pods"
        return str(found)

    def _route(self, at: str, pods: str, to: str) -> None:
        address = json.loads(_docker("inspect", to))[0]["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]
        _docker("exec", at, "ip", "route", "replace", pods, "via", address)

    def _here(self, *command: str, text: str | None = None, timeout: float = 60) -> str:
        return _docker("exec", "--interactive", self.name, *command, text=text, timeout=timeout)


def _docker(*arguments: str, text: str | None = None, timeout: float = 120) -> str:
    """Standard output of a docker command. Raises RuntimeError with what it said."""
    done = subprocess.run(
        ["docker", *arguments], input=text or "", capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"docker {' '.join(arguments[:3])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@contextmanager
def second_node(kubectl: Kubectl, first: str, images: Sequence[str]) -> Iterator[SecondNode]:
    """A node with these images; what runs on it must be gone before it."""
    found = SecondNode(kubectl, first, first.replace("-control-plane", "-worker"))
    subprocess.run(["docker", "rm", "--force", "--volumes", found.name], capture_output=True, check=False)
    kubectl.run("delete", "node", found.name, "--ignore-not-found", "--timeout=60s")
    try:
        found.start()
        found.join()
        found.load(images)
        yield found
    finally:
        found.remove()
