"""Where everything is: for tests and scripts, as an object, and as JSON on the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.kind import javaclient, kindconfig, productimages, pulsar, s3ajars, versions
from e2e.kind.cache import Cache, default_cache
from e2e.kind.kindconfig import Cluster
from e2e.kind.source import Source, known_source

KUBECONFIG_PREFIX = "kubeconfig-"


@dataclass(frozen=True)
class Paths:
    """Names and places, whether or not they are there yet. ``p["etcd"]`` gives what the JSON has under that name."""

    cache: Cache
    source: Source

    @property
    def bin(self) -> Path:
        """The folder of the tools."""
        return self.cache.bin

    @property
    def kubectl(self) -> Path:
        """kubectl of the clusters' version."""
        return self.cache.bin / "kubectl"

    @property
    def helm(self) -> Path:
        """Helm."""
        return self.cache.bin / "helm"

    @property
    def kind(self) -> Path:
        """kind."""
        return self.cache.bin / "kind"

    @property
    def kube_apiserver(self) -> Path:
        """kube-apiserver, for tests without a cluster."""
        return self.cache.bin / "kube-apiserver"

    @property
    def etcd(self) -> Path:
        """etcd, for tests without a cluster."""
        return self.cache.bin / "etcd"

    @property
    def pulsar_home(self) -> Path:
        """The unpacked Pulsar distribution."""
        return pulsar.pulsar_home(self.cache)

    @property
    def newer_pulsar_home(self) -> Path:
        """A newer Pulsar, for what only that has; ``python -m e2e.kind newer-pulsar`` makes it."""
        return pulsar.pulsar_home(self.cache, versions.NEWER_PULSAR)

    @property
    def java_client(self) -> Path:
        """The folder of jars of the conformance suite's Java program."""
        return javaclient.java_client(self.cache)

    @property
    def s3_server(self) -> Path:
        """versitygw: a server of S3 on a folder."""
        return self.cache.bin / "versitygw"

    @property
    def s3a_jars(self) -> Path:
        """The folder of jars that Spark needs for S3."""
        return s3ajars.s3a_jars(self.cache)

    def kubeconfig(self, cluster: str) -> Path:
        """The kubeconfig file of a cluster."""
        return self.cache.kubeconfig(cluster)

    def node(self, cluster: str) -> str:
        """The container that is a cluster's node: ``docker exec`` works on it."""
        return Cluster(cluster).node

    def context(self, cluster: str) -> str:
        """The context's name in a cluster's kubeconfig file."""
        return Cluster(cluster).context

    def pulsar_port(self, cluster: str) -> int:
        """The port of 127.0.0.1 that leads to the NodePort of the binary protocol."""
        return self._cluster(cluster).pulsar_port

    def web_port(self, cluster: str) -> int:
        """The port of 127.0.0.1 that leads to the NodePort of HTTP."""
        return self._cluster(cluster).web_port

    def clusters(self) -> list[str]:
        """The clusters that have a kubeconfig file."""
        names = (file.name.removeprefix(KUBECONFIG_PREFIX) for file in self.cache.root.glob(f"{KUBECONFIG_PREFIX}*"))
        return sorted(name for name in names if not name.endswith(".lock"))

    def images(self) -> dict[str, str]:
        """Image tags by a short name."""
        return {
            **{product.tag.split(":")[0]: product.tag for product in productimages.PRODUCTS},
            "pulsar_base": productimages.pulsar_base(self.source),
            "python_base": productimages.python_base(self.source),
            "node": versions.STOCK_NODE_IMAGE if self.source == "stock" else versions.BUILT_NODE_IMAGE,
        }

    def as_json(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        files = (
            "bin",
            "kubectl",
            "helm",
            "kind",
            "kube_apiserver",
            "etcd",
            "pulsar_home",
            "java_client",
            "s3_server",
            "s3a_jars",
        )
        return {
            "cache": str(self.cache.root),
            **{name: str(getattr(self, name)) for name in files},
            "kubeconfigs": {name: str(self.kubeconfig(name)) for name in self.clusters()},
            "clusters": {
                name: {
                    "kubeconfig": str(self.kubeconfig(name)),
                    "context": self.context(name),
                    "node": self.node(name),
                    "pulsar_port": self.pulsar_port(name),
                    "web_port": self.web_port(name),
                }
                for name in self.clusters()
            },
            "images": self.images(),
            "image_source": self.source,
            "node_ports": {
                "pulsar": kindconfig.PULSAR_NODE_PORT,
                "web": kindconfig.WEB_NODE_PORT,
                "second": kindconfig.SECOND_NODE_PORT,
            },
            "audit_log": kindconfig.AUDIT_LOG,
            "logs": str(self.cache.logs),
        }

    def __getitem__(self, name: str) -> Any:
        return self.as_json()[name]

    def _cluster(self, name: str) -> Cluster:
        ports = kindconfig.ports_file(self.cache.root, name)
        return Cluster(name, **json.loads(ports.read_text())) if ports.is_file() else Cluster(name)


def repository_root() -> Path:
    """The root of this checkout."""
    return Path(__file__).resolve().parents[2]


def paths(cache: Cache | None = None, environ: Mapping[str, str] | None = None) -> Paths:
    """Names and places of this machine; runs nothing and asks no engine."""
    environ = os.environ if environ is None else environ
    cache = cache or default_cache(environ)
    return Paths(cache, known_source(cache, environ))
