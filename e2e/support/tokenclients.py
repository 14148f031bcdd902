"""Clients with tokens of ServiceAccounts: pods that publish and consume, and token files that are renewed here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl, KubectlError

IMAGE = "pulsar-conformance:dev"
TOKEN = "/var/run/secrets/pulsar/token"
SCRIPT = """
import sys
import pulsar
url, topic, file = sys.argv[1:]
options = {"authentication": pulsar.AuthenticationToken(lambda: open(file).read().strip())} if file else {}
log = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
client = pulsar.Client(url, operation_timeout_seconds=30, logger=log, **options)
try:
    consumer = client.subscribe(topic, "pod", initial_position=pulsar.InitialPosition.Earliest)
    producer = client.create_producer(topic, send_timeout_millis=30_000)
    producer.send(b"hello")
    message = consumer.receive(timeout_millis=30_000)
    consumer.acknowledge(message)
    print("received", message.data().decode())
    consumer.unsubscribe()
except pulsar.PulsarException as error:
    print("refused", type(error).__name__)
finally:
    client.close()
"""
"""Publishes and consumes one message, or prints with which exception it is refused."""


def service_account(kubectl: Kubectl, namespace: str, name: str) -> None:
    """A ServiceAccount without any right."""
    meta = {"name": name, "namespace": namespace}
    kubectl.apply(json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}))


def run_client(
    kubectl: Kubectl, namespace: str, name: str, *, account: str, audience: str | None, url: str, topic: str
) -> str:
    """What a client in a pod of that ServiceAccount prints; without an audience it has no token. The pod is removed."""
    kubectl.apply(json.dumps(_pod(namespace, name, account, audience, [url, topic, TOKEN if audience else ""])))

    def ended() -> bool:
        phase = kubectl.json("get", "pod", name, "-n", namespace)["status"].get("phase")
        return phase in ("Succeeded", "Failed")

    eventually(ended, within=180, what=f"pod {name} ends", every=1.0)
    said = kubectl.run("logs", name, "-n", namespace)
    kubectl.run("delete", "pod", name, "-n", namespace, "--wait=false")
    return said.strip().splitlines()[-1] if said.strip() else ""


def _pod(namespace: str, name: str, account: str, audience: str | None, arguments: list[str]) -> dict[str, Any]:
    token = {"serviceAccountToken": {"audience": audience, "expirationSeconds": 600, "path": "token"}}
    volumes = [{"name": "token", "projected": {"sources": [token]}}] if audience else []
    mounts = [{"name": "token", "mountPath": TOKEN.rpartition("/")[0], "readOnly": True}] if audience else []
    container = {
        "name": "client",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", SCRIPT, *arguments],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }
    spec = {
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10000,
            "fsGroup": 10000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def token(kubectl: Kubectl, namespace: str, account: str, audience: str, seconds: int = 600) -> str:
    """A token of a ServiceAccount; 600 s are the shortest life that Kubernetes gives."""
    return kubectl.run(
        *("create", "token", account, "-n", namespace, "--audience", audience, "--duration", f"{seconds}s")
    ).strip()


@contextmanager
def renewed_token(
    kubectl: Kubectl, namespace: str, account: str, audience: str, file: Path, *, every: float = 240.0
) -> Iterator[Path]:
    """A file with a token that is replaced before its end, as the kubelet does it for a pod."""
    stop = threading.Event()
    file.write_text(token(kubectl, namespace, account, audience))

    def renew() -> None:
        while not stop.wait(every):
            try:
                text = token(kubectl, namespace, account, audience)
            except KubectlError:
                continue  # the next round is long before the end of the old one
            new = file.with_suffix(".new")
            new.write_text(text)
            new.replace(file)

    thread = threading.Thread(target=renew, name="token", daemon=True)
    thread.start()
    try:
        yield file
    finally:
        stop.set()
        thread.join(60)
