"""The fault command of the conformance suite for a PulsarCluster on kind: a process of a pod killed or standing still.

Actions and targets are those of docs/conformance.md; it prints the pods. Kubernetes does not see it: the node's
container runtime is asked. It imports little, since the suite's checks wait for each call.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl

SRVR = "exec 3<>/dev/tcp/127.0.0.1/2181; echo srvr >&3; cat <&3"
ACTIONS = ("kill", "pause", "resume")
SECONDS = 180.0
"""For a process that is just being started again."""


def runtime(node: str) -> Callable[..., str]:
    """Runs ``ctr task`` on a node of kind; what it prints. Raises RuntimeError with what it says otherwise."""

    def task(*args: str) -> str:
        argv = ["docker", "exec", node, "ctr", "-n", "k8s.io", "task", *args]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"ctr task {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    return task


@dataclass(frozen=True)
class Owner:
    """An object that owns pods."""

    namespace: str
    name: str


@dataclass(frozen=True)
class Faults:
    """Does it to pods of one PulsarCluster; of its instance and of another cluster of that, where they are named."""

    kubectl: Kubectl
    namespace: str
    cluster: str
    task: Callable[..., str]
    """Of the node's container runtime."""
    every: float = 0.2
    instance: Owner | None = None
    remote: Owner | None = None

    def do(self, action: str, target: str) -> list[str]:
        """Names of the pods it was done to. Raises LookupError where there is none of that kind."""
        owner, pods = self._pods(target)
        for pod in pods:
            done = partial(self._done, action, owner.namespace, pod)
            eventually(done, within=SECONDS, what=f"{action} {pod}", every=self.every)
        return pods

    def _pods(self, target: str) -> tuple[Owner, list[str]]:
        kind, _, which = target.partition(" ")
        owner, component = Owner(self.namespace, self.cluster), kind.removesuffix("-leader")
        if kind == "remote-brokers" and self.remote:
            owner, component = self.remote, "broker"
        elif kind == "configuration-store" and self.instance:
            owner = self.instance
        found = self.kubectl.items(
            "pods",
            owner.namespace,
            f"pulsaroperator.io/owner-name={owner.name},app.kubernetes.io/component={component}",
        )
        names = [pod["metadata"]["name"] for pod in found]
        if kind == "zookeeper-leader":
            names = [pod for pod in names if self._leads(pod)]
        elif kind == "proxy":
            names = [pod["metadata"]["name"] for pod in found if which == pod["status"].get("podIP")]
        elif kind in ("broker", "bookie"):
            # A pod's host begins with its name, and a bookie's id with its host.
            names = [pod for pod in names if which.partition(".")[0] == pod]
        if not names:
            raise LookupError(f"{owner.name} has no {target!r} among {len(found)} pods")
        return owner, names

    def _leads(self, pod: str) -> bool:
        return "Mode: leader" in self.kubectl.run("exec", "-n", self.namespace, pod, "--", "bash", "-c", SRVR)

    def _done(self, action: str, namespace: str, pod: str) -> bool:
        """One attempt. A container that was killed before may not be gone, or not be there again."""
        container = self._container(namespace, pod)
        states = {line.split()[0]: line.split()[-1] for line in self.task("ls").splitlines()[1:] if line.strip()}
        state = states.get(container, "")
        if action == "kill" and state in ("RUNNING", "PAUSED"):
            self.task("kill", "-s", "SIGKILL", container)
            ended = partial(self._ended, namespace, pod, container)
            eventually(ended, within=SECONDS, what=f"{pod} ended", every=self.every)
            return True
        # Not SIGSTOP, which stops one process: the freezer stops all that run in the container.
        if action == "pause" and state == "RUNNING":
            self.task("pause", container)
            return True
        if action == "resume" and state == "PAUSED":
            self.task("resume", container)
            return True
        return state == {"pause": "PAUSED", "resume": "RUNNING"}.get(action)

    def _ended(self, namespace: str, pod: str, container: str) -> bool:
        return self._container(namespace, pod) != container

    def _container(self, namespace: str, pod: str) -> str:
        """The container that runs, or empty."""
        found: dict[str, Any] | None = self.kubectl.get("pod", namespace, pod)
        statuses = found["status"].get("containerStatuses", []) if found else []
        running = [one for one in statuses if "running" in one["state"]]
        return running[0]["containerID"].removeprefix("containerd://") if running else ""


def command(
    kubectl: Kubectl,
    node: str,
    namespace: str,
    cluster: str,
    *,
    instance: Owner | None = None,
    remote: Owner | None = None,
) -> str:
    """For --fault-command of the suite."""
    place = ["--kubectl", kubectl.binary, "--node", node, "--namespace", namespace, "--cluster", cluster]
    if kubectl.kubeconfig:
        place += ["--kubeconfig", str(kubectl.kubeconfig)]
    for option, owner in (("--instance", instance), ("--remote", remote)):
        place += [option, f"{owner.namespace}/{owner.name}"] if owner else []
    return f"{shlex.join([sys.executable, '-m', 'e2e.support.faults_command', *place])} {{action}} {{target}}"


def _owner(text: str) -> Owner:
    namespace, _, name = text.partition("/")
    return Owner(namespace, name)


def main(argv: Sequence[str]) -> int:
    """The command line: where, and what to do."""
    parser = argparse.ArgumentParser(prog="python -m e2e.support.faults_command", description=__doc__)
    for name in ("--kubectl", "--node", "--namespace", "--cluster"):
        parser.add_argument(name, required=True)
    parser.add_argument("--kubeconfig", type=Path)
    for name in ("--instance", "--remote"):
        parser.add_argument(name, metavar="NAMESPACE/NAME", type=_owner)
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("target")
    given = parser.parse_args(argv)
    kubectl = Kubectl(given.kubectl, given.kubeconfig)
    faults = Faults(
        kubectl,
        given.namespace,
        given.cluster,
        runtime(given.node),
        instance=given.instance,
        remote=given.remote,
    )
    print(", ".join(faults.do(given.action, given.target)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
