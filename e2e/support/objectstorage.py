"""A server of S3 in the cluster: versitygw in one pod, on a folder that goes with it, with one bucket."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.kind.paths import paths
from e2e.support.deploy import ROOT
from e2e.support.kubectl import Kubectl

IMAGE = "pulsar-operator/s3-server:1"
RECIPE = ROOT / "e2e/kind/recipes/s3/Dockerfile"
NAME, SECRET, BUCKET = "s3", "s3-keys", "traffic"
PORT = 7070
REGION = "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": "sizing", "AWS_SECRET_ACCESS_KEY": "of-this-test-alone"}
MAKE_BUCKET = f"""
from pyarrow import fs
fs.S3FileSystem(
    endpoint_override="{NAME}:{PORT}", scheme="http", region="{REGION}", allow_bucket_creation=True
).create_dir("{BUCKET}")
"""


@dataclass(frozen=True)
class ObjectStorage:
    """The running server."""

    kubectl: Kubectl
    namespace: str

    @property
    def values(self) -> dict[str, str]:
        """Of the chart pulsar, so that sizing has its tables there."""
        return {
            "sizing.storage.url": f"s3://{BUCKET}/sizing",
            "sizing.storage.s3Endpoint": f"http://{NAME}.{self.namespace}.svc:{PORT}",
            "sizing.storage.s3Region": REGION,
            "sizing.storage.credentialsSecret": SECRET,
        }

    def objects(self, image: str) -> list[dict[str, Any]]:
        """What it consists of; ``image`` has pyarrow, and makes the bucket."""
        labels = {"app": NAME}
        server = {
            "name": NAME,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "args": ["--port", f":{PORT}", "--region", REGION, "posix", "/data"],
            "env": [
                {"name": f"ROOT_{name}", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": f"AWS_{key}"}}}
                for name, key in (("ACCESS_KEY", "ACCESS_KEY_ID"), ("SECRET_KEY", "SECRET_ACCESS_KEY"))
            ],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
            "securityContext": RESTRICTED_CONTAINER,
        }
        maker = {
            "name": "bucket",
            "image": image,
            "imagePullPolicy": "Never",
            "command": ["python3", "-c", MAKE_BUCKET],
            "envFrom": [{"secretRef": {"name": SECRET}}],
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            "securityContext": RESTRICTED_CONTAINER,
        }
        data: dict[str, Any] = {"name": "data", "emptyDir": {}}
        tmp: dict[str, Any] = {"name": "tmp", "emptyDir": {}}
        shared = {"automountServiceAccountToken": False, "securityContext": RESTRICTED_POD}
        return [
            {"apiVersion": "v1", "kind": "Secret", "metadata": self._meta(SECRET), "stringData": KEYS},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": self._meta(NAME),
                "spec": {"selector": labels, "ports": [{"port": PORT}]},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": self._meta(NAME) | {"labels": labels},
                "spec": {**shared, "containers": [server], "volumes": [data]},
            },
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": self._meta("s3-bucket"),
                "spec": {
                    "backoffLimit": 10,
                    "template": {
                        "spec": {**shared, "restartPolicy": "OnFailure", "containers": [maker], "volumes": [tmp]}
                    },
                },
            },
        ]

    def _meta(self, name: str) -> dict[str, Any]:
        return {"name": name, "namespace": self.namespace}


RESTRICTED_POD = {"runAsNonRoot": True, "runAsUser": 10000, "runAsGroup": 0, "fsGroup": 10000} | {
    "seccompProfile": {"type": "RuntimeDefault"}
}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def build_image(cluster: str) -> None:
    """The server's image, in the engine and in the cluster's first node."""
    program = paths().s3_server
    if not program.is_file():
        raise FileNotFoundError(f"{program} is not there: run `python -m e2e.kind tools` first")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy2(program, Path(folder) / program.name)
        command = ["docker", "build", "-q", "-t", IMAGE, "-f", str(RECIPE), folder]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    load = [sys.executable, "-m", "e2e.kind", "load", cluster, IMAGE]
    subprocess.run(load, cwd=ROOT, check=True, capture_output=True, timeout=600)


@contextmanager
def object_storage(kubectl: Kubectl, namespace: str, image: str) -> Iterator[ObjectStorage]:
    """A server with an empty bucket; all of it goes in the end. Its own image must be in the nodes: build_image."""
    found = ObjectStorage(kubectl, namespace)
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": found.objects(image)})
    kubectl.apply(manifest)
    try:
        wait = ("wait", "-n", namespace, "--timeout=180s")
        kubectl.run(*wait, f"pod/{NAME}", "--for=condition=Ready", timeout=200)
        kubectl.run(*wait, "job/s3-bucket", "--for=condition=Complete", timeout=200)
        yield found
    finally:
        kubectl.run("delete", "-n", namespace, "-f", "-", "--ignore-not-found", stdin=manifest)
