"""Ending a container as a failing machine would: SIGKILL to its process, unseen by Kubernetes until it is gone."""

from __future__ import annotations

import subprocess

from e2e.support.deploy import OPERATOR_NAMESPACE
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl
from e2e.support.watched import is_up


def kill(kubectl: Kubectl, node: str, namespace: str, pod: str) -> None:
    """Kill the only container of a pod, and wait until it runs again and is ready."""

    def container() -> tuple[str, int]:
        found = kubectl.get("pod", namespace, pod)
        assert found is not None and is_up(found), f"{pod} is not ready"
        (status,) = found["status"]["containerStatuses"]
        return status["containerID"].removeprefix("containerd://"), status["restartCount"]

    name, restarts = container()
    subprocess.run(
        ["docker", "exec", node, "ctr", "-n", "k8s.io", "task", "kill", "-s", "SIGKILL", name],
        check=True,
        capture_output=True,
    )
    eventually(lambda: container()[1] > restarts, within=180, what=f"{pod} runs again")


def kill_the_operator(kubectl: Kubectl) -> None:
    """Its pod goes without a chance to end anything."""
    kubectl.run(
        "delete", "pod", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator",
        "--grace-period=0", "--force", "--wait=false",
    )  # fmt: skip


def replace_the_operator(kubectl: Kubectl) -> None:
    """The same, and another one is ready."""

    def pods() -> dict[str, bool]:
        found = kubectl.items("pods", OPERATOR_NAMESPACE, "app.kubernetes.io/name=pulsar-operator")
        return {pod["metadata"]["uid"]: is_up(pod) for pod in found}

    before = pods()
    kill_the_operator(kubectl)
    eventually(
        lambda: any(up for uid, up in pods().items() if uid not in before), within=180, what="another operator is ready"
    )
