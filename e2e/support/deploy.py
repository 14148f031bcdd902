"""Installing the operator and the quickstart: shared by the demo and the end-to-end tests."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.kind.kindconfig import PULSAR_NODE_PORT, WEB_NODE_PORT
from e2e.support.kubectl import Kubectl

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples/quickstart.yaml"
NAMESPACE = "pulsar"
OPERATOR_NAMESPACE = "pulsar-operator"
RELEASE = "pulsar-operator"


class InstallError(RuntimeError):
    """helm said no; the message is what it said and what to look at next."""


@dataclass(frozen=True)
class Helm:
    """Runs helm against the same cluster as a Kubectl."""

    binary: str
    kubectl: Kubectl

    def run(self, *args: str, timeout: float = 300) -> str:
        """Run and return standard output. Raises InstallError."""
        argv = [self.binary, *args]
        if self.kubectl.kubeconfig:
            argv += ["--kubeconfig", str(self.kubectl.kubeconfig)]
        if self.kubectl.context:
            argv += ["--kube-context", self.kubectl.context]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 0:
            raise InstallError(
                f"helm {args[0]}: {done.stderr.strip()}\n"
                f"next: {self.kubectl.binary} -n {OPERATOR_NAMESPACE} get pods,events"
            )
        return done.stdout


def ensure_namespace(kubectl: Kubectl, name: str) -> None:
    """A namespace under Pod Security Standard restricted, as README makes it."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))


def install_operator(
    helm: Helm, *, watch: list[str], namespace: str = OPERATOR_NAMESPACE, extra: tuple[str, ...] = ()
) -> str:
    """helm upgrade --install of the chart in this checkout; a rebuilt image of the same tag rolls the pod."""
    for name in watch:
        ensure_namespace(helm.kubectl, name)
    argv = ["upgrade", "--install", RELEASE, str(ROOT / "helm/pulsar-operator")]
    argv += ["--namespace", namespace, "--create-namespace", "--wait", "--timeout", "4m"]
    argv += ["--set", "image.tag=dev"]
    if watch:
        argv += ["--set", "watchNamespaces={" + ",".join(watch) + "}"]
    for component in ("broker", "bookie", "proxy"):
        argv += ["--set-string", f"pulsarImages.{component}=pulsar-{component}:{{version}}-dev"]
    argv += ["--set-string", f"podAnnotations.pulsaroperator\\.io/image-id={_image_id() or 'unknown'}"]
    argv += [*os.environ.get("HELM_ARGS", "").split(), *extra]
    return helm.run(*argv)


def _image_id() -> str:
    done = subprocess.run(
        ["docker", "image", "inspect", "-f", "{{.Id}}", "pulsar-operator:dev"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip().removeprefix("sha256:")[:12] if done.returncode == 0 else ""


def quickstart_documents() -> list[dict[str, Any]]:
    """The objects of examples/quickstart.yaml, with ports at the proxy that kind leads to 127.0.0.1."""
    found = [doc for doc in yaml.safe_load_all(QUICKSTART.read_text()) if doc]
    for each in found:
        if each["kind"] == "PulsarCluster":
            ports = {"pulsar": PULSAR_NODE_PORT, "http": WEB_NODE_PORT}
            each["spec"]["proxy"]["service"] = {"type": "NodePort", "nodePorts": ports}
    return found


def quickstart() -> str:
    """The same as YAML."""
    return yaml.safe_dump_all(quickstart_documents(), sort_keys=False)
