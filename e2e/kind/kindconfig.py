"""The configuration file of a kind cluster, as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.kind.source import Source

PULSAR_NODE_PORT = 30650
WEB_NODE_PORT = 30080
SECOND_NODE_PORT = 30651
"""Binary protocol of a second cluster."""
POLICY_FOLDER = "/etc/kubernetes/policies"
POLICY_FILE = "audit.yaml"
HOSTS_FOLDER = "/etc/containerd/certs.d"
AUDIT_LOG = "/var/log/kubernetes/audit.log"


@dataclass(frozen=True)
class Cluster:
    """What a cluster is asked to be."""

    name: str
    pulsar_port: int = 6650
    web_port: int = 8080
    audit: bool = True
    second_port: int = 0
    """For the binary protocol of a second cluster; 0 = none."""
    registry: str = ""
    """127.0.0.1:PORT of a registry of its own, that the node pulls from; "" = none."""

    @property
    def node(self) -> str:
        """The name of its node, which is the name of its container too."""
        return f"{self.name}-control-plane"

    @property
    def context(self) -> str:
        """The name of its context in the kubeconfig file."""
        return f"kind-{self.name}"


def cluster_folder(cache_root: Path, name: str) -> Path:
    """Where the files of one cluster are kept (its kubeconfig file apart)."""
    return cache_root / "clusters" / name


def ports_file(cache_root: Path, name: str) -> Path:
    """The file that says which ports of this machine a cluster was made with, as JSON."""
    return cluster_folder(cache_root, name) / "ports.json"


def render(cluster: Cluster, source: Source, policies: Path) -> str:
    """The kind configuration of a cluster; policies is the folder on this machine that holds the audit policy.

    What containerd is to know of the cluster's registry is in the folder ``registry`` beside it.
    """
    lines = ["kind: Cluster", "apiVersion: kind.x-k8s.io/v1alpha4", "networking:"]
    if source == "built":
        # The built node brings a bridge of its own: kind's default network is an image from a registry.
        lines.append("  disableDefaultCNI: true")
    lines += [
        "  podSubnet: 10.244.0.0/16",
    ]
    if cluster.registry:
        # kind's guide "Local Registry"; kind translates it for containerd 2.
        patch = f'[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "{HOSTS_FOLDER}"'
        lines += ["containerdConfigPatches:", "- |", *(f"  {line}" for line in patch.splitlines())]
    lines += [
        "kubeadmConfigPatches:",
        "- |",
        "  kind: KubeletConfiguration",
        # Machines with cgroup v1 still exist; the kubelet of 1.35 gives up on them unless told not to.
        "  failCgroupV1: false",
    ]
    if cluster.audit:
        lines += _audit_patch()
    lines += [
        "nodes:",
        "- role: control-plane",
        "  extraPortMappings:",
        _port(PULSAR_NODE_PORT, cluster.pulsar_port),
        _port(WEB_NODE_PORT, cluster.web_port),
        *([_port(SECOND_NODE_PORT, cluster.second_port)] if cluster.second_port else []),
    ]
    mounts = [(policies, POLICY_FOLDER)] if cluster.audit else []
    if cluster.registry:
        mounts.append((policies.parent / "registry", HOSTS_FOLDER))
    if mounts:
        lines.append("  extraMounts:")
    for host, container in mounts:
        lines.append(f"  - {{hostPath: {_quoted(str(host))}, containerPath: {container}, readOnly: true}}")
    return "\n".join(lines) + "\n"


def _audit_patch() -> list[str]:
    # kubeadm's v1beta3, which kind writes for Kubernetes before 1.36: extraArgs is a map there.
    return [
        "- |",
        "  kind: ClusterConfiguration",
        "  apiServer:",
        "    extraArgs:",
        f"      audit-policy-file: {POLICY_FOLDER}/{POLICY_FILE}",
        f"      audit-log-path: {AUDIT_LOG}",
        '      audit-log-maxsize: "200"',
        '      audit-log-maxbackup: "2"',
        "    extraVolumes:",
        "    - name: audit-policies",
        f"      hostPath: {POLICY_FOLDER}",
        f"      mountPath: {POLICY_FOLDER}",
        "      readOnly: true",
        "      pathType: DirectoryOrCreate",
        "    - name: audit-logs",
        f"      hostPath: {Path(AUDIT_LOG).parent}",
        f"      mountPath: {Path(AUDIT_LOG).parent}",
        "      readOnly: false",
        "      pathType: DirectoryOrCreate",
    ]


def _port(container: int, host: int) -> str:
    # Loopback only: a test cluster is nobody else's business.
    return f"  - {{containerPort: {container}, hostPort: {host}, listenAddress: 127.0.0.1, protocol: TCP}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
