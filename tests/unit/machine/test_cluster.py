"""The configuration of a cluster, and when it counts as ready."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.kind.cluster import AUDIT_POLICY, PortInUseError, require_free, unready_part
from e2e.kind.docker import Docker
from e2e.kind.kindconfig import AUDIT_LOG, Cluster, render
from e2e.kind.registry import Registry

POLICIES = Path("/some where/policies")


def config(cluster: Cluster, source: Any = "built") -> Any:
    return yaml.safe_load(render(cluster, source, POLICIES))


def patches(document: Any) -> dict[str, Any]:
    return {patch["kind"]: patch for patch in map(yaml.safe_load, document["kubeadmConfigPatches"])}


def test_a_second_cluster_has_a_port_where_it_is_asked_for() -> None:
    (node,) = config(Cluster("x", second_port=16651))["nodes"]
    assert [(port["containerPort"], port["hostPort"]) for port in node["extraPortMappings"]] == [
        (30650, 6650),
        (30080, 8080),
        (30651, 16651),
    ]


def test_ports_are_mapped_on_loopback_only() -> None:
    (node,) = config(Cluster("x", 16650, 18080))["nodes"]
    assert node["role"] == "control-plane"
    assert [(port["containerPort"], port["hostPort"], port["listenAddress"]) for port in node["extraPortMappings"]] == [
        (30650, 16650, "127.0.0.1"),
        (30080, 18080, "127.0.0.1"),
    ]


def test_the_built_node_brings_its_own_network_and_the_stock_one_kinds() -> None:
    assert config(Cluster("x"))["networking"]["disableDefaultCNI"] is True
    assert "disableDefaultCNI" not in config(Cluster("x"), "stock")["networking"]


def test_cgroup_v1_is_accepted() -> None:
    assert patches(config(Cluster("x")))["KubeletConfiguration"]["failCgroupV1"] is False


def test_audit_reads_its_policy_from_the_mounted_folder() -> None:
    document = config(Cluster("x"))
    server = patches(document)["ClusterConfiguration"]["apiServer"]
    (mount,) = document["nodes"][0]["extraMounts"]
    assert mount["hostPath"] == str(POLICIES)
    assert server["extraArgs"]["audit-policy-file"].startswith(mount["containerPath"] + "/")
    assert server["extraArgs"]["audit-log-path"] == AUDIT_LOG
    # kubeadm refuses values of extraArgs that are not strings.
    assert all(isinstance(value, str) for value in server["extraArgs"].values())
    mounted = {volume["mountPath"]: volume["readOnly"] for volume in server["extraVolumes"]}
    assert mounted == {mount["containerPath"]: True, str(Path(AUDIT_LOG).parent): False}


def test_without_audit_there_is_nothing_of_it() -> None:
    text = render(Cluster("x", audit=False), "built", POLICIES)
    assert "audit" not in text
    assert "extraMounts" not in yaml.safe_load(text)["nodes"][0]


def test_a_registry_beside_the_cluster_is_known_to_its_containerd() -> None:
    cluster = Cluster("x", registry="127.0.0.1:5001")
    document = config(cluster)
    (patch,) = document["containerdConfigPatches"]
    assert 'config_path = "/etc/containerd/certs.d"' in patch
    assert "containerdConfigPatches" not in config(Cluster("x"))
    mounts = {mount["containerPath"]: mount["hostPath"] for mount in document["nodes"][0]["extraMounts"]}
    assert mounts["/etc/containerd/certs.d"] == str(POLICIES.parent / "registry")
    assert document["networking"].keys() == {"disableDefaultCNI", "podSubnet"}


def test_the_registry_is_reached_by_its_containers_name(tmp_path: Path) -> None:
    Registry(Docker(), "built", Cluster("x", registry="127.0.0.1:5001"), tmp_path).write_hosts()
    assert (tmp_path / "registry/127.0.0.1:5001/hosts.toml").read_text() == '[host."http://x-registry:5000"]\n'


def test_the_audit_policy_keeps_writes_and_drops_leases_and_events() -> None:
    rules = yaml.safe_load(AUDIT_POLICY.read_text())["rules"]
    dropped = {name for rule in rules[:1] for group in rule["resources"] for name in group["resources"]}
    assert dropped == {"leases", "events"}
    kept = [rule for rule in rules if rule["level"] != "None"]
    assert [rule["level"] for rule in kept] == ["Metadata"]
    assert {"create", "update", "patch", "delete"} <= set(kept[0]["verbs"])


def node(ready: str) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def deployment(ready: int) -> dict[str, Any]:
    metadata = {"name": "coredns"}
    return {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 2}, "status": {"readyReplicas": ready}}


def daemons(wanted: int, ready: int) -> dict[str, Any]:
    status = {"desiredNumberScheduled": wanted, "numberReady": ready}
    return {"kind": "DaemonSet", "metadata": {"name": "proxy"}, "spec": {}, "status": status}


STARTED = "2026-01-02T03:04:05.678901Z"


def pod(started_at: str, ready: bool = True) -> dict[str, Any]:
    running = {"ready": ready, "state": {"running": {"startedAt": started_at}}}
    status = {"phase": "Running", "containerStatuses": [running]}
    return {"kind": "Pod", "metadata": {"name": "dns"}, "status": status}


@pytest.mark.parametrize(
    ("nodes", "workloads", "says"),
    [
        ([node("True")], [deployment(2), daemons(1, 1)], ""),
        ([node("True")], [pod("2026-01-02T03:04:05Z")], ""),
        ([node("True")], [{"kind": "Pod", "metadata": {}, "status": {"phase": "Succeeded"}}], ""),
        ([node("True")], [pod("2026-01-02T03:04:09Z", ready=False)], "pod dns is not ready"),
        # What the API remembers of a pod from before the node's restart says nothing about now.
        ([node("True")], [pod("2026-01-02T03:04:04Z")], "pod dns is not ready"),
        ([node("True")], [{"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Pending"}}], "pod p is not"),
        ([], [deployment(2)], "nothing there"),
        ([node("True")], [], "nothing there"),
        ([node("Unknown")], [deployment(2)], "node n is not ready"),
        ([node("True")], [deployment(1)], "Deployment coredns has 1 ready pods of 2"),
        ([node("True")], [daemons(1, 0)], "DaemonSet proxy has 0"),
        ([node("True")], [{"kind": "DaemonSet", "metadata": {"name": "new"}, "spec": {}}], "DaemonSet new"),
    ],
)
def test_readiness(nodes: list[Any], workloads: list[Any], says: str) -> None:
    answer = unready_part({"items": nodes}, {"items": workloads}, STARTED)
    assert answer.startswith(says)
    assert bool(answer) == bool(says)


def test_a_port_that_is_taken_is_named_with_its_option() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} .* --web-port"):
            require_free(port, "--web-port")
    require_free(port, "--web-port")
