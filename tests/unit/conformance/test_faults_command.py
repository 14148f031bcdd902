"""The fault command of the end-to-end tests: which pod a target is, and what its container is told; no kind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.support import faults_command
from e2e.support.faults_command import Faults, Owner
from e2e.support.kubectl import Kubectl

PODS = {
    "big-broker-0": ("broker", "10.0.0.1"),
    "big-broker-1": ("broker", "10.0.0.2"),
    "big-broker-10": ("broker", "10.0.0.11"),
    "big-bookie-1": ("bookie", "10.0.0.3"),
    "big-proxy-0": ("proxy", "10.0.0.4"),
    "big-proxy-1": ("proxy", "10.0.0.41"),
    "big-zookeeper-0": ("zookeeper", "10.0.0.5"),
    "big-zookeeper-1": ("zookeeper", "10.0.0.6"),
}
OTHERS = {
    ("far", "owner-name=west", "broker"): ["west-broker-0", "west-broker-1"],
    ("pulsar", "owner-name=world", "configuration-store"): ["world-configuration-store-0"],
}
"""Pods of another cluster and of the instance."""


class Node(Kubectl):
    """A cluster whose containers are RUNNING, PAUSED or gone; one that is killed seems to run for one more look, and is
    another one two looks later."""

    def __init__(self) -> None:
        super().__init__("kubectl", None)
        pods = [*PODS, *(pod for some in OTHERS.values() for pod in some)]
        object.__setattr__(self, "states", {f"{pod}-c0": "RUNNING" for pod in pods})
        object.__setattr__(self, "told", [])
        object.__setattr__(self, "starting", {})

    states: dict[str, str]
    told: list[str]
    starting: dict[str, int]

    def run(self, *args: str, stdin: str | None = None, timeout: float = 120) -> str:
        """kubectl."""
        if args[0] == "exec":
            return f"Mode: {'leader' if args[3] == 'big-zookeeper-1' else 'follower'}"
        if args[1] == "pods" and "owner-name=big," not in args[5]:
            owner, _, kind = args[5].removeprefix("pulsaroperator.io/").partition(",app.kubernetes.io/component=")
            names = OTHERS.get((args[3], owner, kind), [])
            return json.dumps({"items": [{"metadata": {"name": pod}, "status": {}} for pod in names]})
        if args[1] == "pods":
            assert args[2:4] == ("-n", "pulsar") and args[5].startswith("pulsaroperator.io/owner-name=big,")
            kind = args[5].rpartition("component=")[2]
            found = [
                {"metadata": {"name": pod}, "status": {"podIP": at}} for pod, (one, at) in PODS.items() if one == kind
            ]
            return json.dumps({"items": found})
        return json.dumps({"status": {"containerStatuses": [self.status(args[2])]}})

    def status(self, pod: str) -> dict[str, Any]:
        """Of a pod's container, which starts again."""
        if pod in self.starting:
            self.starting[pod] -= 1
            if self.starting[pod] == 2:
                del self.states[f"{pod}-c0"]
            if self.starting[pod] in (1, 2):
                return {"containerID": "containerd://old", "state": {"terminated": {}}}
            if self.starting[pod] == 0:
                del self.starting[pod]
                self.states[f"{pod}-c1"] = "RUNNING"
        (name,) = [name for name in self.states if name.startswith(f"{pod}-c")]
        return {"containerID": f"containerd://{name}", "state": {"running": {}}}

    def task(self, *args: str) -> str:
        """ctr task."""
        if args == ("ls",):
            return "\n".join(["TASK PID STATUS", *(f"{name}    4711    {to}" for name, to in self.states.items())])
        self.told.append(" ".join(args))
        name = args[-1]
        if args[0] == "kill":
            self.starting[name.removesuffix("-c0")] = 4
        else:
            self.states[name] = {"pause": "PAUSED", "resume": "RUNNING"}[args[0]]
        return ""


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def faults(node: Node) -> Faults:
    return Faults(node, "pulsar", "big", node.task, every=0.001)


@pytest.mark.parametrize(
    ("target", "pods"),
    [
        ("broker big-broker-1.big-broker-headless.pulsar.svc.cluster.local", ["big-broker-1"]),
        ("bookie big-bookie-1.big-bookie-headless.pulsar.svc.cluster.local:3181", ["big-bookie-1"]),
        ("proxy 10.0.0.4", ["big-proxy-0"]),
        ("zookeeper-leader", ["big-zookeeper-1"]),
        ("zookeeper", ["big-zookeeper-0", "big-zookeeper-1"]),
    ],
)
def test_a_target_is_a_pod(faults: Faults, node: Node, target: str, pods: list[str]) -> None:
    assert faults.do("pause", target) == pods
    assert node.told == [f"pause {pod}-c0" for pod in pods]


@pytest.mark.parametrize("target", ["broker big-broker-2.x", "bookie big-broker-0.x", "proxy 10.0.0", "function x"])
def test_a_target_that_is_no_pod_is_refused(faults: Faults, node: Node, target: str) -> None:
    with pytest.raises(LookupError, match=f"big has no '{target}'"):
        faults.do("kill", target)
    assert node.told == []


def test_the_instance_and_its_other_cluster_are_reached_where_they_are_named(faults: Faults, node: Node) -> None:
    named = replace(faults, instance=Owner("pulsar", "world"), remote=Owner("far", "west"))
    assert named.do("pause", "remote-brokers") == ["west-broker-0", "west-broker-1"]
    assert named.do("pause", "configuration-store") == ["world-configuration-store-0"]
    for target in ("remote-brokers", "configuration-store"):
        with pytest.raises(LookupError, match=f"big has no '{target}'"):
            faults.do("pause", target)


def test_a_process_that_was_killed_is_stopped_once_it_is_there_again(faults: Faults, node: Node) -> None:
    for action in ("kill", "pause", "pause", "resume", "resume"):
        faults.do(action, "broker big-broker-0.x")
    assert node.told == ["kill -s SIGKILL big-broker-0-c0", "pause big-broker-0-c1", "resume big-broker-0-c1"]


def test_the_command_line_says_where(node: Node, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    made: list[tuple[str, Path | None]] = []

    def connect(binary: str, kubeconfig: Path | None) -> Node:
        made.append((binary, kubeconfig))
        return node

    monkeypatch.setattr(faults_command, "Kubectl", connect)
    monkeypatch.setattr(faults_command, "runtime", lambda name: node.task if name == "n" else None)
    owners = {"instance": Owner("pulsar", "world"), "remote": Owner("far", "west")}
    line = faults_command.command(Kubectl("k", None), "n", "pulsar", "big", **owners)
    assert line.endswith(" --cluster big --instance pulsar/world --remote far/west {action} {target}")
    words = faults_command.command(Kubectl("k", Path("/a b/c")), "n", "pulsar", "big").partition("faults_command ")[2]
    assert words.endswith(" --kubeconfig '/a b/c' {action} {target}")
    place = ["--kubectl", "k", "--node", "n", "--namespace", "pulsar", "--cluster", "big", "--kubeconfig", "/a b/c"]
    assert faults_command.main([*place, "pause", "zookeeper"]) == 0
    assert capsys.readouterr().out == "big-zookeeper-0, big-zookeeper-1\n"
    assert faults_command.main([*place, "--remote", "far/west", "pause", "remote-brokers"]) == 0
    assert capsys.readouterr().out == "west-broker-0, west-broker-1\n"
    assert made == [("k", Path("/a b/c"))] * 2
