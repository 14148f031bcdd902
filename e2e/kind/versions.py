"""Every version and image name that the machine part pins; those that users are told about are in versions.toml."""

from __future__ import annotations

import platform
import tomllib
from pathlib import Path

TESTED = tomllib.loads((Path(__file__).parents[2] / "versions.toml").read_text(encoding="utf-8"))

KUBERNETES: str = TESTED["kubernetes"]["tested"]
#: The staging repositories of Kubernetes 1.x.y are published as v0.x.y.
KUBERNETES_STAGING = "0" + KUBERNETES[1:]
COREFILE_MIGRATION = "1.0.36"
ETCD = "3.6.16"
COREDNS = "1.14.7"
KIND = "0.33.0"
HELM: str = TESTED["helm"]["tested"]
#: The Kubernetes libraries that Helm is built against: a patch later than in its own go.mod, which the proxy lacks.
HELM_KUBERNETES_LIBS = "0.36.3"
#: kstatus, and the interpreter that Argo CD runs health checks with.
CLI_UTILS = "0.37.2"
CLI_UTILS_KUBERNETES_LIBS = KUBERNETES_STAGING
GOPHER_LUA = "1.1.2"
#: A server of S3 on a folder, under the Apache licence: object storage for tests.
VERSITYGW = "1.8.0"
PROVISIONER_LIB = "13.0.0"
CSI_LIB_UTILS = "0.25.0"
PULSAR: str = TESTED["pulsar"]["tested"]
#: Upgrades of clusters to PULSAR are tested from it; images of it are made on demand.
OLDER_PULSAR: str = TESTED["pulsar"]["upgrade_from"]
#: For what only a newer Pulsar has; no image is made of it.
NEWER_PULSAR: str = TESTED["pulsar"]["newer"]
NEWER_OPENTELEMETRY = "1.62.0"
UV = "0.13.8"
#: The minor version of Python inside the operator image; the wheels beside it are chosen for exactly this one.
IMAGE_PYTHON: str = TESTED["python"]["tested"]
#: The same of the bases that also have Java, which the conformance image stands on: Debian trixie, and Alpine 3.2x.
BUILT_JAVA_PYTHON = "3.13"
STOCK_JAVA_PYTHON = "3.12"
GO_MINIMUM = (1, 26)

#: Names that kubeadm expects on a node of KUBERNETES. ``kubeadm config images list --kubernetes-version`` prints them.
KUBE_IMAGES = tuple(
    f"registry.k8s.io/{name}:v{KUBERNETES}"
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
)
ETCD_IMAGE = "registry.k8s.io/etcd:3.6.6-0"
COREDNS_IMAGE = "registry.k8s.io/coredns/coredns:v1.13.1"
#: kubeadm asks for the first, kind's containerd configuration for the second.
PAUSE_IMAGES = ("registry.k8s.io/pause:3.10.1", "registry.k8s.io/pause:3.10")
PROVISIONER_IMAGE = "pulsar-operator/local-provisioner:1"

STOCK_NODE_IMAGE = "kindest/node:v1.35.0"
BUILT_NODE_IMAGE = f"pulsar-operator/node:v{KUBERNETES}"
STOCK_PYTHON_BASE = f"python:{IMAGE_PYTHON}-slim-bookworm"
BUILT_PYTHON_BASE = f"pulsar-operator/python:{IMAGE_PYTHON}-local1"
#: A manifest of a few hundred bytes: whether it can be pulled tells whether a registry answers at all.
PROBE_IMAGE = "registry.k8s.io/pause:3.10"


def stock_pulsar_base(version: str) -> str:
    """The public image of a Pulsar."""
    return f"apachepulsar/pulsar:{version}"


def built_pulsar_base(version: str) -> str:
    """The image of a Pulsar that is made here instead."""
    return f"pulsar-operator/pulsar-server:{version}-local1"


def dev_tag(version: str) -> str:
    """The tag of the product's images of a Pulsar."""
    return f"{version}-dev"


STOCK_PULSAR_BASE = stock_pulsar_base(PULSAR)
BUILT_PULSAR_BASE = built_pulsar_base(PULSAR)
DEV_TAG = dev_tag(PULSAR)


def goarch() -> str:
    """The name that Go, Docker and Debian give this processor; unknown ones are passed on as they are."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(machine, machine)


def wheel_platform(libc: str = "manylinux_2_28") -> str:
    """The platform name that uv takes for wheels that run in a Linux container on this processor.

    libc is manylinux_2_28 (Debian) or unknown-linux-musl (Alpine).
    """
    return {"amd64": f"x86_64-{libc}", "arm64": f"aarch64-{libc}"}.get(goarch(), "linux")


def go_placeholders() -> dict[str, str]:
    """What ``@NAME@`` stands for in the committed go.mod.in files."""
    return {
        "KUBERNETES": KUBERNETES,
        "STAGING": KUBERNETES_STAGING,
        "COREFILE_MIGRATION": COREFILE_MIGRATION,
        "ETCD": ETCD,
        "COREDNS": COREDNS,
        "HELM": HELM,
        "HELM_KUBERNETES_LIBS": HELM_KUBERNETES_LIBS,
        "CLI_UTILS": CLI_UTILS,
        "CLI_UTILS_KUBERNETES_LIBS": CLI_UTILS_KUBERNETES_LIBS,
        "GOPHER_LUA": GOPHER_LUA,
        "PROVISIONER_LIB": PROVISIONER_LIB,
        "CSI_LIB_UTILS": CSI_LIB_UTILS,
    }
