"""Counting writes where they land: the API server's audit log, the brokers' metadata in ZooKeeper, admin metrics."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

from e2e.support.kubectl import Kubectl

OPERATOR_USER = "system:serviceaccount:pulsar-operator:"
WRITTEN_PATHS = ("/admin/clusters", "/admin/policies", "/admin/partitioned-topics", "/ledgers/INSTANCEID", "/bookies")
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def audit_lines(node: str, path: str = "/var/log/kubernetes/audit.log") -> int:
    """Number of lines in the node's audit log; a position to count from."""
    done = subprocess.run(["docker", "exec", node, "wc", "-l", path], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def operator_writes(node: str, since_line: int, path: str = "/var/log/kubernetes/audit.log") -> list[str]:
    """Writes of the operator's service account since a line: verb, resource and name; Lease renewals left out."""
    done = subprocess.run(
        ["docker", "exec", node, "tail", "-n", f"+{since_line + 1}", path], capture_output=True, text=True, check=True
    )
    found = []
    for line in done.stdout.splitlines():
        entry: dict[str, Any] = json.loads(line)
        user = (entry.get("user") or {}).get("username", "")
        ref = entry.get("objectRef") or {}
        if not user.startswith(OPERATOR_USER) or entry.get("verb") not in WRITES:
            continue
        if ref.get("resource") == "leases" or entry.get("stage") != "ResponseComplete":
            continue
        sub = f"/{ref['subresource']}" if ref.get("subresource") else ""
        found.append(f"{entry['verb']} {ref.get('resource')}{sub} {ref.get('name')}")
    return found


def znode_versions(
    kubectl: Kubectl, namespace: str, pod: str, *, paths: tuple[str, ...] = WRITTEN_PATHS
) -> dict[str, tuple[int, int]]:
    """Version and modification transaction of every znode under ``paths``; default: what the operator writes."""
    with port_forward(kubectl, namespace, f"pod/{pod}", 2181) as port:
        zookeeper = KazooClient(hosts=f"127.0.0.1:{port}")
        zookeeper.start(timeout=20)
        try:
            out: dict[str, tuple[int, int]] = {}
            todo = list(paths)
            while todo:
                path = todo.pop()
                stat = zookeeper.exists(path)
                if stat is None:
                    continue
                out[path] = (stat.version, stat.mzxid)
                todo.extend(f"{path}/{child}" for child in zookeeper.get_children(path))
            return out
        finally:
            zookeeper.stop()
            zookeeper.close()


def admin_log_position(kubectl: Kubectl, namespace: str, pod: str) -> int:
    """Number of lines in a broker's log; a position to count from."""
    return len(kubectl.run("logs", "-n", namespace, pod).splitlines())


def admin_writes(kubectl: Kubectl, namespace: str, pod: str, since: int) -> list[str]:
    """Admin REST requests other than GET in a broker's request log since a position."""
    lines = kubectl.run("logs", "-n", namespace, pod).splitlines()[since:]
    return [m.group(0) for line in lines if (m := re.search(r'"(PUT|POST|DELETE|PATCH) /admin/\S+', line))]


@contextmanager
def port_forward(kubectl: Kubectl, namespace: str, target: str, port: int) -> Iterator[int]:
    """A local port on 127.0.0.1 that leads to a pod or Service; kubectl chooses it."""
    process = kubectl.popen("-n", namespace, "port-forward", "--address", "127.0.0.1", target, f":{port}")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, f"port-forward to {target} failed: {line.strip()}"
        yield int(found.group(1))
    finally:
        process.terminate()
        process.wait(timeout=10)
