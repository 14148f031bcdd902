"""Disks that a test can fill: local volumes on file systems in memory, made in kind's node, and a cluster whose bookies
keep their ledgers there. All other volumes of kind have the node's disk, and its figures.

A bookie's two RocksDBs allocate 74 MiB each ahead (write-ahead log and manifest, seen with the settings of Pulsar
4.0.8), so that 29 % of such a disk are in use before a message is stored.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.support.bookies import COPIES
from e2e.support.deploy import quickstart_documents
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl

CLASS = "small-disks"
LABEL = "pulsar-e2e/small-disk"
FOLDER = "/mnt/pulsar-e2e-disks"
"""In the node."""
NUMBER = 4
MEBIBYTES = 512
"""Of each disk: what the operator takes for entry logs of 16 MiB, the least it makes (domain/render/volumes.py)."""
LOW, WANTED, FULL = 35, 40, 45
"""Marks in percent: above what is in use from the start, below what half a disk of messages in two copies brings three
disks to."""

_MOUNT = 'for each in "$@"; do mkdir -p "$each" && mount -t tmpfs -o "size=$0m" tmpfs "$each" || exit 1; done'
# What is still mounted cannot be removed, and is tried again; a folder without its mount is one of a node that was
# started anew meanwhile.
_UNMOUNT = 'for each in "$0"/*; do [ -d "$each" ] || continue; umount "$each"; rm -rf "$each" || exit 1; done'


@dataclass(frozen=True)
class SmallDisks:
    """NUMBER of them in one node, with their PersistentVolumes and a StorageClass."""

    kubectl: Kubectl
    node: str

    @property
    def names(self) -> list[str]:
        """Of the PersistentVolumes."""
        return [f"small-disk-{number}" for number in range(NUMBER)]

    def make(self) -> None:
        """All of them, empty; what an earlier run left is removed first."""
        self.remove()
        self._in_node(_MOUNT, str(MEBIBYTES), *map(_path, self.names))
        self.kubectl.apply("\n---\n".join(json.dumps(each) for each in self.manifests()))

    def remove(self) -> None:
        """Whatever there is of them, once no claim is left."""
        self.kubectl.run("delete", "pv", "-l", LABEL, "--ignore-not-found", "--timeout=120s", timeout=140)
        self.kubectl.run("delete", "storageclass", CLASS, "--ignore-not-found", "--timeout=60s")
        eventually(lambda: self._in_node(_UNMOUNT, FOLDER) == "", within=120, what="the small disks are gone")

    def used(self) -> dict[str, float]:
        """Percent in use by name, as the node says."""
        rows = [line.split() for line in self._in_node('df -P -k "$@"', "sh", *map(_path, self.names)).splitlines()[1:]]
        # Filesystem, 1024-blocks, Used, Available, Capacity, Mounted on
        sizes = {row[5]: (int(row[1]), int(row[2])) for row in rows}
        for path, (size, _) in sizes.items():
            assert size == MEBIBYTES * 1024, f"{path} is no disk of its own: {size} KiB"
        return {name: 100 * sizes[_path(name)][1] / sizes[_path(name)][0] for name in self.names}

    def manifests(self) -> list[dict[str, Any]]:
        """The StorageClass, which makes none, and the PersistentVolumes."""
        labels = {LABEL: "true"}
        found: dict[str, Any] = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS, "labels": labels},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self.node]}
        return [
            found,
            *(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": name, "labels": labels},
                    "spec": {
                        "capacity": {"storage": f"{MEBIBYTES}Mi"},
                        "accessModes": ["ReadWriteOnce"],
                        "persistentVolumeReclaimPolicy": "Retain",
                        "storageClassName": CLASS,
                        "local": {"path": _path(name)},
                        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
                    },
                }
                for name in self.names
            ),
        ]

    def _in_node(self, script: str, *arguments: str) -> str:
        """What a shell script prints, whose $0, $1, ... are the arguments. Raises RuntimeError."""
        command = ["docker", "exec", self.node, "sh", "-c", script, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{script} in {self.node}: {done.stderr.strip()}")
        return done.stdout


def _path(name: str) -> str:
    return f"{FOLDER}/{name}"


@contextmanager
def small_disks(kubectl: Kubectl, node: str) -> Iterator[SmallDisks]:
    """Made, and removed in the end, when the claims must be gone."""
    found = SmallDisks(kubectl, node)
    found.make()
    yield found
    found.remove()


def bookkeeper() -> dict[str, Any]:
    """``spec.bookkeeper``: three bookies, which become four where a disk is full, and for nothing else."""
    return {
        "replicas": 3,
        "ensemble": COPIES,
        "journal": {"size": "512Mi"},
        "ledgers": {"size": f"{MEBIBYTES}Mi", "storageClassName": CLASS},
        # What a process writes to a file system in memory counts as memory of its container: room for a whole disk.
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "1200Mi"}},
        "autoscaling": {
            "minReplicas": 3,
            "maxReplicas": NUMBER,
            "targets": {"lowDiskPercent": LOW, "diskPercent": WANTED, "fullDiskPercent": FULL},
            # Longer than the test: only what waits for no window can add a bookie.
            "behavior": {"scaleUp": {"stabilizationWindowSeconds": 3600}},
        },
    }


def manifest() -> str:
    """The quickstart as YAML, with these bookies."""
    found = quickstart_documents()
    for each in found:
        if each["kind"] == "PulsarCluster":
            each["spec"] |= {"reclaimPolicy": "Delete", "bookkeeper": bookkeeper()}
    return yaml.safe_dump_all(found, sort_keys=False)
