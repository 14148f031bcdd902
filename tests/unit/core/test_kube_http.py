"""adapters/kube*.py against a scripted HTTP server: errors, deadlines, paging, events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient, resource_of, resource_path
from pulsar_operator.adapters.metrics import PrometheusMetrics
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    NotFoundError,
    NotServedError,
    PortError,
    RefusedError,
    ServerError,
    UnavailableError,
)
from tests.support.core.objects import config_map, tenant
from tests.support.core.recorder import CountingMetrics


class Script:
    """Answers requests from a queue of (status, body, headers); notes what was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any, dict[str, str]]] = []
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str], Any]] = []
        self.delay = 0.0

    def add(self, status: int, body: Any, **headers: str) -> None:
        self.answers.append((status, body, {k.replace("_", "-"): v for k, v in headers.items()}))

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.method, request.raw_path, dict(request.query), dict(request.headers), body))
        await asyncio.sleep(self.delay)
        status, answer, headers = self.answers.pop(0) if self.answers else (200, {}, {})
        if isinstance(answer, str):
            return web.Response(status=status, text=answer, headers=headers)
        return web.json_response(answer, status=status, headers=headers)


class Bench:
    def __init__(self, script: Script, client: KubeClient) -> None:
        self.script = script
        self.client = client
        self.metrics = CountingMetrics()
        self.events = EventRecorder(client, self.metrics, SystemClock(), reporter="pod", capacity=3)
        self.kube = KubeAdapter(client, self.metrics, self.events)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    script = Script()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    configuration.api_key["BearerToken"] = "Bearer secret-token"
    client = KubeClient(configuration, deadline=2.0)
    yield Bench(script, client)
    await client.close()
    await runner.cleanup()


def status(message: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "message": message, "details": details}


@pytest.mark.parametrize(
    ("code", "body", "headers", "error", "retry_after"),
    [
        (400, status("m"), {}, RefusedError, None),
        (403, status("m"), {}, RefusedError, None),
        (
            403,
            status('User "m" cannot get resource "x" in API group "" in the namespace "m"'),
            {},
            ForbiddenError,
            None,
        ),
        (405, status("m"), {}, RefusedError, None),
        (422, status("m", causes=[{"field": "spec.x"}]), {}, RefusedError, None),
        (422, status("m", causes=[{"field": "metadata.uid"}]), {}, ConflictError, None),
        (404, status("m", name="a"), {}, NotFoundError, None),
        (404, status("m"), {}, NotServedError, None),
        (404, "404 page not found m", {}, NotServedError, None),
        (409, status("m"), {}, ConflictError, None),
        (410, status("m"), {}, ConflictError, None),
        (401, status("m"), {}, UnavailableError, None),
        (408, status("m"), {}, UnavailableError, None),
        (429, status("m"), {"Retry_After": "7"}, UnavailableError, 7.0),
        (429, status("m", retryAfterSeconds=3), {}, UnavailableError, 3.0),
        (429, status("m"), {"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT"}, UnavailableError, None),
        (500, status("m"), {}, ServerError, None),
        (500, status("m"), {"Retry_After": "7"}, ServerError, 7.0),
        (500, "m of a proxy", {}, UnavailableError, None),
        (500, {"message": "m of a proxy"}, {}, UnavailableError, None),
        (502, status("m"), {}, UnavailableError, None),
        (504, status("m"), {}, DeadlineError, None),
        (504, "m of a proxy", {}, UnavailableError, None),
        (503, "m: upstream", {"Retry_After": "1"}, UnavailableError, 1.0),
        (302, "m", {}, UnavailableError, None),
    ],
)
async def test_errors(
    bench: Bench, code: int, body: Any, headers: dict[str, str], error: type[PortError], retry_after: float | None
) -> None:
    bench.script.add(code, body, **headers)
    with pytest.raises(error, match="m") as raised:
        await bench.kube.apply(config_map("ns", "a", {}))
    assert type(raised.value) is error or issubclass(type(raised.value), error)
    assert not (error is UnavailableError and isinstance(raised.value, DeadlineError))
    assert not (isinstance(raised.value, UnavailableError) and raised.value.status not in (code, 0))
    assert raised.value.retry_after == retry_after
    if isinstance(raised.value, RefusedError):
        assert raised.value.status == code
    assert "secret-token" not in str(raised.value)
    assert bench.metrics.calls == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            'statefulsets.apps is forbidden: User "system:serviceaccount:ops:o" cannot list resource "statefulsets" in '
            'API group "apps" in the namespace "b"',
            "the operator has no permission to list statefulsets.apps in Kubernetes namespace b",
        ),
        (
            'secrets "x" is forbidden: User "o" cannot patch resource "secrets" in API group "" in the namespace "b": '
            'requires one of ["container.secrets.update"] permission(s).',
            "the operator has no permission to patch secrets in Kubernetes namespace b",
        ),
        (
            'pulsartenants.pulsaroperator.io is forbidden: User "o" cannot list resource "pulsartenants" in API group '
            '"pulsaroperator.io" at the cluster scope',
            "the operator has no permission to list pulsartenants.pulsaroperator.io in the whole Kubernetes cluster",
        ),
        (
            'pulsartopics.pulsaroperator.io "t" is forbidden: User "o" cannot patch resource "pulsartopics/status" in '
            'API group "pulsaroperator.io" in the namespace "b"',
            "the operator has no permission to patch pulsartopics/status.pulsaroperator.io in Kubernetes namespace b",
        ),
    ],
)
async def test_a_missing_right_is_reported_by_what_is_missing(bench: Bench, words: str, told: str) -> None:
    bench.script.add(403, status(words))
    with pytest.raises(ForbiddenError) as raised:
        await bench.kube.apply(config_map("ns", "a", {}))
    assert str(raised.value) == told and raised.value.status == 403


@pytest.mark.parametrize(
    "words",
    [
        'admission webhook "guard.example.com" denied the request: not on Fridays',
        'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2',
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged',
        'configmaps "x" is forbidden: unable to create new content in namespace b because it is being terminated',
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: it has dependents",
    ],
)
async def test_what_admission_and_quotas_deny_is_no_missing_right(bench: Bench, words: str) -> None:
    bench.script.add(403, status(words))
    with pytest.raises(RefusedError) as raised:
        await bench.kube.apply(config_map("ns", "a", {}))
    assert str(raised.value) == words and not isinstance(raised.value, ForbiddenError)


async def test_a_missing_definition_is_not_a_missing_object(bench: Bench) -> None:
    bench.script.add(404, status("not found", name="a"))
    assert await bench.kube.get(CUSTOM[Kind.TENANT], "ns", "a") is None
    for body in (status("the server could not find the requested resource"), "404 page not found"):
        bench.script.add(404, body)
        with pytest.raises(UnavailableError):
            await bench.kube.get(CUSTOM[Kind.TENANT], "ns", "a")


async def test_whether_a_definition_is_installed_is_discovered(bench: Bench) -> None:
    bench.script.add(404, "404 page not found")
    assert await bench.kube.installed(CUSTOM[Kind.TENANT]) is False
    for names, expected in ((["pulsartopics"], False), (["pulsartopics", "pulsartenants"], True)):
        bench.script.add(200, {"kind": "APIResourceList", "resources": [{"name": name} for name in names]})
        assert await bench.kube.installed(CUSTOM[Kind.TENANT]) is expected


async def test_deadline_and_no_server(bench: Bench) -> None:
    bench.script.delay = 5
    with pytest.raises(DeadlineError, match=r"no answer within 2 s"):
        await bench.kube.get(CONFIG_MAPS, "ns", "a")
    nowhere = KubeClient(Configuration(host="http://127.0.0.1:1"))
    with pytest.raises(UnavailableError):
        await nowhere.request("GET", "/api")
    await nowhere.close()


async def test_answers_that_are_no_json(bench: Bench) -> None:
    for body in ("<html>", '"text"', "[]"):
        bench.script.add(200, body)
        with pytest.raises(UnavailableError):
            await bench.kube.get(CONFIG_MAPS, "ns", "a")


async def test_requests_are_encoded_and_named(bench: Bench) -> None:
    await bench.kube.get(CONFIG_MAPS, "ns", "../../secrets/x?y")
    await bench.kube.apply(config_map("ns", "a", {"k": "v"}), manager="m")
    _, path, _, headers, _ = bench.script.asked[0]
    assert path == "/api/v1/namespaces/ns/configmaps/..%2F..%2Fsecrets%2Fx%3Fy"
    assert headers["User-Agent"].startswith("pulsar-operator/") and headers["Authorization"] == "Bearer secret-token"
    method, _, query, headers, body = bench.script.asked[1]
    assert (method, query) == ("PATCH", {"fieldManager": "m", "force": "true"})
    assert headers["Content-Type"] == "application/apply-patch+yaml" and body["data"] == {"k": "v"}
    assert bench.metrics.calls == [("kube_write", "apply", "ConfigMap")]


def page(names: str, token: str = "") -> dict[str, Any]:
    return {"metadata": {"continue": token}, "items": [{"metadata": {"name": n}} for n in names]}


async def test_an_expired_list_starts_over_and_is_never_mixed(bench: Bench) -> None:
    bench.script.add(200, page("ab", "t1"))
    bench.script.add(410, status("expired"))
    bench.script.add(200, page("xy", "t2"))
    bench.script.add(200, page("z"))
    found = await bench.kube.list(CONFIG_MAPS, "ns")
    assert [o["metadata"]["name"] for o in found] == ["x", "y", "z"] and found[0]["kind"] == "ConfigMap"


async def test_a_list_that_always_expires_asks_for_everything_at_once(bench: Bench) -> None:
    for _ in range(3):
        bench.script.add(200, page("ab", "t"))
        bench.script.add(410, status("expired"))
    bench.script.add(200, page("abc"))
    assert len(await bench.kube.list(CONFIG_MAPS, "ns")) == 3
    assert "limit" not in bench.script.asked[-1][2]


async def test_a_list_leaves_out_who_wrote_which_field(bench: Bench) -> None:
    obj = config_map("ns", "a", {})
    obj["metadata"]["managedFields"] = [{"manager": "m"}]
    bench.script.add(200, {"metadata": {}, "items": [obj]})
    (found,) = await bench.kube.list(CONFIG_MAPS, "ns")
    assert "managedFields" not in found["metadata"] and found["metadata"]["name"] == obj["metadata"]["name"]


async def test_a_list_with_a_failing_page_is_an_error(bench: Bench) -> None:
    bench.script.add(200, page("ab", "t"))
    bench.script.add(500, status("no"))
    with pytest.raises(ServerError):
        await bench.kube.list(CONFIG_MAPS, "ns")


async def test_a_status_write_is_repeated_when_the_object_changed_in_the_meantime(bench: Bench) -> None:
    stored = tenant("ns", uid="u", resourceVersion="1")
    bench.script.add(200, stored)
    bench.script.add(409, status("modified"))
    bench.script.add(200, tenant("ns", uid="u", resourceVersion="2"))
    bench.script.add(200, stored)
    await bench.kube.apply_status({**stored, "metadata": {"name": "t", "namespace": "ns", "uid": "u"}, "status": {}})
    assert [a[4]["metadata"]["resourceVersion"] for a in bench.script.asked if a[0] == "PATCH"] == ["1", "2"]


async def test_a_status_write_of_a_known_version_is_one_request(bench: Bench) -> None:
    meta = {"name": "t", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    bench.script.add(200, tenant("ns", uid="u", resourceVersion="8"))
    await bench.kube.apply_status({**tenant("ns"), "metadata": meta, "status": {}})
    assert [(a[0], a[4]["metadata"]["resourceVersion"]) for a in bench.script.asked] == [("PATCH", "7")]


async def test_a_status_write_of_an_old_version_reads_the_object_and_is_made(bench: Bench) -> None:
    meta = {"name": "t", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    bench.script.add(409, status("modified"))
    bench.script.add(200, tenant("ns", uid="u", resourceVersion="9"))
    bench.script.add(200, tenant("ns", uid="u", resourceVersion="10"))
    stored = await bench.kube.apply_status({**tenant("ns"), "metadata": meta, "status": {}})
    assert [a[0] for a in bench.script.asked] == ["PATCH", "GET", "PATCH"]
    assert bench.script.asked[-1][4]["metadata"]["resourceVersion"] == "9"
    assert stored["metadata"]["resourceVersion"] == "10"


async def test_entries_of_the_status_are_removed_where_it_is_written(bench: Bench) -> None:
    stored = tenant("ns", uid="u", resourceVersion="7")
    for pointer in ("/status/a", "/metadata/labels/a"):
        bench.script.add(200, stored)
        await bench.kube.remove_entries(stored, [pointer])
    assert [a[1].partition("?")[0].rpartition("/")[2] for a in bench.script.asked] == ["status", "t"]
    with pytest.raises(ValueError, match="status"):
        await bench.kube.remove_entries(stored, ["/status/a", "/metadata/labels/a"])
    assert len(bench.script.asked) == 2


async def test_a_status_write_of_an_old_version_never_reaches_another_object(bench: Bench) -> None:
    meta = {"name": "t", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    bench.script.add(409, status("modified"))
    bench.script.add(200, tenant("ns", uid="other", resourceVersion="9"))
    with pytest.raises(ConflictError, match="replaced by another object"):
        await bench.kube.apply_status({**tenant("ns"), "metadata": meta, "status": {}})
    assert [a[0] for a in bench.script.asked] == ["PATCH", "GET"]


def test_only_declared_types() -> None:
    with pytest.raises(ValueError, match=r"Declare it in ports/kube\.py"):
        resource_of({"apiVersion": "batch/v1", "kind": "Job"})
    assert resource_path(CUSTOM[Kind.TOPIC], None) == "/apis/pulsaroperator.io/v1alpha1/pulsartopics"


async def test_repeated_events_are_one_object_with_a_count(bench: Bench) -> None:
    involved = tenant("ns", uid="u")
    for _ in range(5):
        await bench.kube.event(involved, kind="Warning", reason="R", message="m")
    bench.events.start()
    await bench.events.close()
    (method, path, _, _, body) = bench.script.asked[0]
    assert (method, path, body["count"]) == ("POST", "/api/v1/namespaces/ns/events", 5)
    assert body["involvedObject"]["uid"] == "u" and body["type"] == "Warning" and len(bench.script.asked) == 1


async def test_an_event_known_from_before_a_restart_is_counted_on(bench: Bench) -> None:
    bench.script.add(409, status("exists"))
    bench.script.add(200, {"count": 41})
    await bench.kube.event(tenant("ns", uid="u"), kind="Normal", reason="R", message="m")
    bench.events.start()
    await bench.events.close()
    assert [(a[0], (a[4] or {}).get("count")) for a in bench.script.asked] == [
        ("POST", 1),
        ("GET", None),
        ("PATCH", 42),
    ]


async def test_too_many_events_and_broken_ones_are_dropped_without_an_error(bench: Bench) -> None:
    for n in range(10):
        await bench.kube.event(tenant("ns", uid="u"), kind="Normal", reason="R", message=f"m{n}")
    assert bench.events.dropped == 7
    await bench.kube.event({}, kind="Normal", reason="R", message="m")
    bench.script.add(403, status("forbidden"))
    bench.events.start()
    await bench.events.close()
    assert len(bench.script.asked) == 3


def test_metrics_text() -> None:
    now = 100.0
    metrics = PrometheusMetrics(lambda: now)
    metrics.reconciled("PulsarTopic", "error", 0.2)
    metrics.queue_depth(4)
    metrics.admin_call("c", "GET", "200", 0.1)
    metrics.kube_write("apply", "Pod")
    metrics.event_received("Pod")
    metrics.count_objects(lambda: {("PulsarTopic", "Ready"): 3, ("PulsarTopic", "InvalidSpec"): 1})
    now = 112.5
    text = metrics.render().decode()
    for line in (
        'pulsar_operator_reconciles_total{kind="PulsarTopic",result="error"} 1.0',
        'pulsar_operator_reconcile_errors_total{kind="PulsarTopic"} 1.0',
        'pulsar_operator_reconcile_duration_seconds_count{kind="PulsarTopic"} 1.0',
        "pulsar_operator_queue_depth 4.0",
        'pulsar_operator_admin_calls_total{cluster="c",method="GET",status="200"} 1.0',
        'pulsar_operator_kube_writes_total{kind="Pod",verb="apply"} 1.0',
        'pulsar_operator_watch_last_event_age_seconds{kind="Pod"} 12.5',
        'pulsar_operator_objects{kind="PulsarTopic",reason="InvalidSpec"} 1.0',
        'pulsar_operator_objects{kind="PulsarTopic",reason="Ready"} 3.0',
    ):
        assert line in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            'StatefulSet.apps "x" is invalid: spec.containers[0].env[0].value: Invalid value: "s3\\"cret": '
            "must be no more than 3 characters",
            'StatefulSet.apps "x" is invalid: spec.containers[0].env[0].value: Invalid value: '
            "must be no more than 3 characters",
        ),
        ("spec.a: Invalid value: s3cret: no", "spec.a: Invalid value: no"),
        ('spec.a: Invalid value: "s3cret"', "spec.a: Invalid value: "),
        ('spec.replicas: Invalid value: "integer": must be a string', "spec.replicas: Invalid value: must be a string"),
    ],
)
async def test_a_refused_value_is_not_repeated(bench: Bench, words: str, told: str) -> None:
    bench.script.add(422, status(words))
    with pytest.raises(RefusedError) as raised:
        await bench.kube.apply(config_map("ns", "a", {}))
    assert str(raised.value) == told


async def test_a_dry_run_stores_nothing(bench: Bench) -> None:
    await bench.kube.dry_run_create(config_map("ns", "a", {"k": "v"}))
    method, path, query, _, body = bench.script.asked[0]
    assert (method, path.partition("?")[0]) == ("POST", "/api/v1/namespaces/ns/configmaps")
    assert query["dryRun"] == "All" and body == config_map("ns", "a", {"k": "v"})
    assert bench.metrics.calls == [], "it is no write"


async def test_warnings_are_those_of_the_very_object(bench: Bench) -> None:
    bench.script.add(200, {"metadata": {}, "items": [{"reason": "FailedCreate", "message": "m"}]})
    found = await bench.kube.warnings(config_map("ns", "a", {}) | {"metadata": {"namespace": "ns", "uid": "u-1"}}, "R")
    assert [each["message"] for each in found] == ["m"]
    _, path, query, _, _ = bench.script.asked[0]
    assert path.partition("?")[0] == "/api/v1/namespaces/ns/events"
    assert query["fieldSelector"] == "involvedObject.uid=u-1,reason=R,type=Warning" and query["limit"] == "50"
