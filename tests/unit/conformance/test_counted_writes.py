"""How the end-to-end tests count writes, on lines of the logs they read; the control fails where they do not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from e2e.support import eventually as waiting
from e2e.support import writes
from e2e.support.kubectl import Kubectl
from e2e.support.writes import (
    OPERATOR_USER,
    audited_writes,
    changed,
    requested_writes,
    sees_admin_writes,
    sees_operator_writes,
)

REQUESTS = """\
2026-11-23T08:26:36,992+0000 [pulsar-web-49-3] INFO  org.apache.pulsar.broker.admin.v2.Namespaces - [null] Created namespace shop/skew
2026-11-23T08:26:36,993+0000 [pulsar-web-49-3] INFO  org.eclipse.jetty.server.RequestLog - 127.0.0.1 - - [23/Nov/2026:08:26:36 +0000] "PUT /admin/v2/namespaces/shop/skew HTTP/1.1" 204 0 "-" "Python-urllib/3.11" 7
2026-11-23T08:26:36,999+0000 [pulsar-web-49-4] INFO  org.eclipse.jetty.server.RequestLog - 127.0.0.1 - - [23/Nov/2026:08:26:36 +0000] "GET /admin/v2/clusters HTTP/1.1" 200 14 "-" "Python-urllib/3.11" 4
2026-11-23T08:26:41,670+0000 [BookKeeperClientWorker-OrderedExecutor-1-0] INFO  org.eclipse.jetty.server.RequestLog - 127.0.0.1 - - [23/Nov/2026:08:26:41 +0000] "PUT /admin/v2/namespaces/shop/skew/0x2aaaaaaa_0x40000000/unload?authoritative=false HTTP/1.1" 204 0 "-" "Pulsar-Java-v4.0.8" 241
2026-11-23T08:26:42,001+0000 [pulsar-web-49-1] INFO  org.eclipse.jetty.server.RequestLog - 127.0.0.1 - - [23/Nov/2026:08:26:42 +0000] "DELETE /admin/v2/tenants/shop HTTP/1.1" 409 60 "-" "aiohttp" 2
2026-11-23T08:26:42,002+0000 [pulsar-web-49-1] INFO  org.eclipse.jetty.server.RequestLog - 127.0.0.1 - - [23/Nov/2026:08:26:42 +0000] "POST /lookup/v2/topic HTTP/1.1" 405 60 "-" "aiohttp" 2
"""  # noqa: E501 - as Pulsar 4.0.8 wrote them


def entry(
    verb: str, resource: str, name: str = "east", *, user: str = f"{OPERATOR_USER}pulsar-operator", **more: Any
) -> str:
    """A line of the audit log."""
    resource, _, sub = resource.partition("/")
    ref = {"resource": resource, "namespace": "pulsar", "name": name, **({"subresource": sub} if sub else {})}
    return json.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": "ResponseComplete",
            "verb": verb,
            "user": {"username": user, "groups": ["system:serviceaccounts"]},
            "objectRef": ref,
            "responseStatus": {"metadata": {}, "code": 200},
            **more,
        },
        ensure_ascii=False,
    )


def log(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_requests_that_write_are_told_from_those_that_read() -> None:
    assert requested_writes(REQUESTS.splitlines()) == [
        "PUT /admin/v2/namespaces/shop/skew",
        "PUT /admin/v2/namespaces/shop/skew/0x2aaaaaaa_0x40000000/unload?authoritative=false",
        "DELETE /admin/v2/tenants/shop",
    ]


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection"])
def test_each_verb_that_writes_counts(verb: str) -> None:
    assert audited_writes(log(entry(verb, "pulsartopics/status", "t"))) == [f"{verb} pulsartopics/status t"]


def test_writes_of_the_operator_are_told_from_others() -> None:
    assert audited_writes(
        log(
            entry("get", "pods"),
            entry("patch", "leases"),
            entry("patch", "pods", user="kubernetes-admin"),
            entry("patch", "pods", user="system:serviceaccount:pulsar:pulsar-operator"),
            entry("patch", "pods", stage="ResponseStarted"),
            entry("delete", "pods", "a\u0085b"),
            entry("create", "services", "s", objectRef={"resource": "services"}),
        )
    ) == ["delete pods a\u0085b", "create services None"]


def test_a_line_that_is_being_written_waits() -> None:
    whole = log(entry("patch", "pods"))
    assert audited_writes(whole + entry("delete", "pods")[:40]) == ["patch pods east"]
    assert audited_writes("") == []


def test_znodes_that_differ_are_named() -> None:
    before = {"/a": (1, 5), "/b": (0, 2), "/c": (0, 2)}
    assert changed(before, dict(before)) == set()
    assert changed(before, {"/a": (2, 7), "/b": (0, 2), "/d": (0, 9)}) == {"/a", "/c", "/d"}
    assert changed(before, {**before, "/b": (0, 3)}) == {"/b"}, "removed and made again"


class CountedKubectl(Kubectl):
    """A cluster whose logs tell of what is done, or do not."""

    def __init__(self) -> None:
        super().__init__("kubectl", Path("none"))
        object.__setattr__(self, "requests", ["a line of before"])
        object.__setattr__(self, "audit", [entry("patch", "pulsarclusters/status")])
        object.__setattr__(self, "deaf", False)
        object.__setattr__(self, "patches", [])

    def run(self, *args: str, stdin: str | None = None, timeout: float = 120) -> str:
        me = cast(Any, self)
        if args[0] == "logs":
            assert args == ("logs", "-n", "pulsar", "east-broker-0")
            return "\n".join(me.requests)
        assert args[:5] == ("patch", "pulsartopic", "payments", "-n", "pulsar") and "--type=merge" in args
        me.patches.append(json.loads(args[-1]))
        me.audit.append(entry("patch", "pulsartopics", "payments", user="kubernetes-admin"))
        if not me.deaf:
            me.audit.append(entry("patch", "pulsartopics/status", "payments"))
        return ""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = cast(Any, CountedKubectl())

    def ask(url: str, method: str, path: str) -> None:
        if not found.deaf:
            request = REQUESTS.splitlines()[1].replace(
                "PUT /admin/v2/namespaces/shop/skew", f"{method} /admin/v2/{path}"
            )
            found.requests.append(request)

    def tail(argv: list[str], **_: Any) -> Any:
        assert argv[:4] == ["docker", "exec", "node", "tail"]
        since = int(argv[5].removeprefix("+"))
        return SimpleNamespace(stdout=log(*found.audit[since - 1 :]))

    monkeypatch.setattr(writes, "ask", ask)
    monkeypatch.setattr(subprocess, "run", tail)
    monkeypatch.setattr(
        writes, "eventually", lambda probe, **o: waiting.eventually(probe, **{**o, "within": 0.02, "every": 0.01})
    )
    return found


def admin(world: Any, since: int = 1) -> Any:
    return sees_admin_writes(world, "pulsar", "east-broker-0", since, "http://x", "shop/orders")


def operator(world: Any, since: int = 1) -> None:
    sees_operator_writes(world, "node", since, "pulsar", "payments")


def test_a_write_that_is_counted_is_seen_and_taken_back(world: Any) -> None:
    with admin(world):
        (written,) = requested_writes(world.requests)
        assert written == "PUT /admin/v2/namespaces/shop/orders/property/counted-by-tests/1"
    assert requested_writes(world.requests)[1:] == ["DELETE /admin/v2/namespaces/shop/orders/property/counted-by-tests"]
    operator(world)
    assert world.patches == [{"spec": {"driftPolicy": policy}} for policy in ("Report", "Repair")]


def test_a_count_that_sees_nothing_fails(world: Any) -> None:
    world.deaf = True
    with (
        pytest.raises(AssertionError, match=r"through admin REST is counted; last seen: AssertionError\(\W*\[\]"),
        admin(world),
    ):
        pass
    with pytest.raises(AssertionError, match=r"status of payments is counted; last seen: AssertionError\(\W*\[\]"):
        operator(world)


def test_a_log_that_began_anew_is_seen(world: Any) -> None:
    """What is counted from a position behind the end is nothing, whatever happened."""
    with pytest.raises(AssertionError, match="is counted"), admin(world, since=50):
        pass
    with pytest.raises(AssertionError, match="is counted"):
        operator(world, since=50)


def test_a_write_of_before_is_told_by_the_control(world: Any) -> None:
    world.audit.append(entry("delete", "pods", "east-broker-0"))
    world.requests.append(REQUESTS.splitlines()[4])
    with pytest.raises(AssertionError, match=r"DELETE /admin/v2/tenants/shop"), admin(world):
        pass
    with pytest.raises(AssertionError, match="delete pods east-broker-0"):
        operator(world)
