"""Counting writes where they land: the API server's audit log, the brokers' metadata in ZooKeeper, admin metrics."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

from e2e.support.admin import ask
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl

OPERATOR_USER = "system:serviceaccount:pulsar-operator:"
WRITTEN_PATHS = ("/admin/clusters", "/admin/policies", "/admin/partitioned-topics", "/ledgers/INSTANCEID", "/bookies")
CONTROL = "counted-by-tests"
"""Key of the property that is written to see that writes are counted."""
_REQUEST = re.compile(r'RequestLog - .*?"(PUT|POST|DELETE|PATCH) (/admin/\S+)')
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def audit_lines(node: str, path: str = "/var/log/kubernetes/audit.log") -> int:
    """Number of lines in the node's audit log; a position to count from."""
    done = subprocess.run(["docker", "exec", node, "wc", "-l", path], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def operator_writes(node: str, since_line: int, path: str = "/var/log/kubernetes/audit.log") -> list[str]:
    """Writes of the operator's service account since a line; see ``audited_writes``."""
    done = subprocess.run(
        ["docker", "exec", node, "tail", "-n", f"+{since_line + 1}", path], capture_output=True, text=True, check=True
    )
    return audited_writes(done.stdout)


def audited_writes(log: str) -> list[str]:
    """Writes of the operator in an audit log: verb, resource and name; Lease renewals left out.

    The last line counts when it is whole: a log is read while it is written.
    """
    found = []
    # Of lines as the log has them: str.splitlines knows more ends, such as U+0085 in the name of an object.
    for line in log.split("\n")[:-1]:
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


def sees_operator_writes(kubectl: Kubectl, node: str, since_line: int, namespace: str, topic: str) -> None:
    """Assert that a write of the operator is counted since that line, and nothing else was before it.

    For the end of a time in which nothing was counted. A PulsarTopic's ``driftPolicy`` is changed, of which Pulsar
    knows nothing: the operator writes the status, for the generation. Then it is changed back.
    """
    wanted = [f"patch pulsartopics/status {topic}"]
    for number, policy in enumerate(("Report", "Repair"), start=1):
        patch = json.dumps({"spec": {"driftPolicy": policy}})
        kubectl.run("patch", "pulsartopic", topic, "-n", namespace, "--type=merge", "-p", patch)
        expected = wanted * number

        def counted(expected: list[str] = expected) -> bool:
            found = operator_writes(node, since_line)
            assert found == expected, found
            return True

        eventually(counted, within=60, what=f"the operator's write of the status of {topic} is counted")


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


def changed(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> set[str]:
    """Znodes that were written, made or removed between two readings."""
    return {path for path in {*before, *after} if before.get(path) != after.get(path)}


def admin_log_position(kubectl: Kubectl, namespace: str, pod: str) -> int:
    """Number of lines in a broker's log; a position to count from."""
    return len(kubectl.run("logs", "-n", namespace, pod).splitlines())


def admin_writes(kubectl: Kubectl, namespace: str, pod: str, since: int) -> list[str]:
    """Admin REST requests other than GET in a broker's request log since a position."""
    return requested_writes(kubectl.run("logs", "-n", namespace, pod).splitlines()[since:])


def requested_writes(lines: Iterable[str]) -> list[str]:
    """Method and path of the writes in lines of a broker's log (Jetty's class RequestLog)."""
    found = (_REQUEST.search(line) for line in lines)
    return [f"{one[1]} {one[2]}" for one in found if one]


@contextmanager
def sees_admin_writes(
    kubectl: Kubectl, namespace: str, pod: str, since: int, admin_url: str, pulsar_namespace: str
) -> Iterator[None]:
    """Assert that one write through admin REST is counted since that position, and nothing else was before it.

    For the end of a time in which nothing was counted. The write is a property of a namespace; it is there inside, for
    whoever counts znodes, and removed at the end.
    """
    path = f"namespaces/{pulsar_namespace}/property/{CONTROL}"

    def counted() -> bool:
        found = admin_writes(kubectl, namespace, pod, since)
        assert found == [f"PUT /admin/v2/{path}/1"], found
        return True

    ask(admin_url, "PUT", f"{path}/1")
    try:
        eventually(counted, within=60, what="the write through admin REST is counted")
        yield
    finally:
        ask(admin_url, "DELETE", path)


@contextmanager
def port_forward(
    kubectl: Kubectl, namespace: str, target: str, port: int, *, address: str = "127.0.0.1", local: int = 0
) -> Iterator[int]:
    """A port of a loopback address that leads to a pod or Service; kubectl chooses it, unless ``local`` says which."""
    ports = f"{local or ''}:{port}"
    process = kubectl.popen("-n", namespace, "port-forward", "--address", address, target, ports)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(rf"{re.escape(address)}:(\d+)", line)
        assert found, f"port-forward to {target} failed: {line.strip()}"
        yield int(found.group(1))
    finally:
        process.terminate()
        process.wait(timeout=10)
