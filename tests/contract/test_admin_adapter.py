"""The adapter over HTTP: redirects, retries, deadlines, limits and what errors say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from urllib.parse import unquote

import pytest
from aiohttp import web

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.admin_urls import build_url
from pulsar_operator.ports import (
    AdminEndpoint,
    ConflictError,
    NotFoundError,
    PortError,
    RefusedError,
    UnavailableError,
    UnownedError,
)
from tests.fakes.admin import encoded, serve
from tests.fakes.pulsar import FakePulsar
from tests.support.core.recorder import CountingMetrics

Script = Callable[[web.Request], web.StreamResponse | None]


@pytest.fixture
async def admin() -> AsyncIterator[AiohttpAdmin]:
    """The adapter, closed at the end."""
    found = AiohttpAdmin(CountingMetrics(), deadline=5.0)
    yield found
    await found.close()


def answers(*responses: Callable[[], web.StreamResponse]) -> Script:
    """These answers, one per request, then Pulsar's own."""
    queue = list(responses)
    return lambda request: queue.pop(0)() if queue else None


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_redirects_keep_method_and_body(admin: AiohttpAdmin, status: int) -> None:
    target = FakePulsar(tenants={"t": {"adminRoles": [], "allowedClusters": ["a"]}})
    async with serve(target) as (owner, seen):

        def script(request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": f"{owner}{request.raw_path}"})

        async with serve(FakePulsar(), script=script) as (url, _):
            endpoint = AdminEndpoint("a", url)
            await admin.call(endpoint, "PUT", ("namespaces", "t", "n"), body={"bundles": {"numBundles": 2}})
            await admin.call(endpoint, "PUT", ("persistent", "t", "n", "a%2Fb?"))
    assert target.namespaces["t/n"]["bundles"]["numBundles"] == 2
    assert seen[1] == "PUT " + encoded("persistent", "t", "n", "a%2Fb?")


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://x/", "http://", ""])
async def test_redirects_elsewhere_are_not_followed(admin: AiohttpAdmin, location: str) -> None:
    script = answers(lambda: web.Response(status=307, headers={"Location": location} if location else {}))
    async with serve(FakePulsar(), script=script) as (url, seen):
        with pytest.raises(UnavailableError):
            await admin.call(AdminEndpoint("a", url), "GET", ("clusters",))
    assert len(seen) == 1


async def test_redirects_end(admin: AiohttpAdmin) -> None:
    def script(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": request.raw_path})

    async with serve(FakePulsar(), script=script) as (url, seen):
        with pytest.raises(UnavailableError, match="redirects"):
            await admin.call(AdminEndpoint("a", url), "GET", ("clusters",))
    assert len(seen) == 11


@pytest.mark.parametrize(
    ("method", "response"),
    [
        ("GET", lambda: web.Response(status=503)),
        ("POST", lambda: web.Response(status=503)),
        ("POST", lambda: web.Response(status=429, headers={"Retry-After": "0"})),
        ("PUT", lambda: web.Response(status=500, text='{"reason":"KeeperException$SessionExpiredException"}')),
    ],
)
async def test_passing_faults_are_retried(
    admin: AiohttpAdmin, method: str, response: Callable[[], web.StreamResponse]
) -> None:
    pulsar = FakePulsar(tenants={"t": {"adminRoles": [], "allowedClusters": ["a"]}})
    body = {"adminRoles": ["r"], "allowedClusters": ["a"]}
    name = "new" if method == "PUT" else "t"
    async with serve(pulsar, script=answers(response, response)) as (url, seen):
        await admin.call(AdminEndpoint("a", url), method, ("tenants", name), body=None if method == "GET" else body)
    assert len(seen) == 3


@pytest.mark.parametrize(("method", "status"), [("GET", 500), ("POST", 500)])
async def test_other_server_errors_are_not_retried(admin: AiohttpAdmin, method: str, status: int) -> None:
    script = answers(
        lambda: web.Response(
            status=status, text='{"reason":"bang SessionExpired"}' if method == "POST" else '{"reason":"bang"}'
        )
    )
    async with serve(FakePulsar(), script=script) as (url, seen):
        with pytest.raises(UnavailableError, match="bang"):
            await admin.call(AdminEndpoint("a", url), method, ("tenants", "t"), body=None)
    assert len(seen) == 1


async def test_a_hanging_broker_ends_at_the_deadline(admin: AiohttpAdmin) -> None:
    release = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    server = web.Server(hang)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        with pytest.raises(UnavailableError, match=r"no answer within 0\.2 s"):
            await admin.call(AdminEndpoint("a", url), "POST", ("tenants", "t"), body={}, deadline=0.2)
    finally:
        release.set()
        await runner.cleanup()


async def test_no_listener_is_unavailable_and_says_where(admin: AiohttpAdmin) -> None:
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        await admin.call(AdminEndpoint("a", "http://127.0.0.1:1"), "POST", ("tenants", "t"), deadline=0.5)


@pytest.mark.parametrize("url", ["ftp://h", "nonsense", "http://[", ""])
async def test_a_bad_address_is_unavailable(admin: AiohttpAdmin, url: str) -> None:
    with pytest.raises(UnavailableError):
        await admin.call(AdminEndpoint("a", url), "GET", ("clusters",), deadline=0.5)


async def test_calls_per_cluster_are_limited() -> None:
    admin = AiohttpAdmin(CountingMetrics(), concurrency=2, deadline=10)
    running = {"a": 0, "b": 0}
    most = dict(running)
    both = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        cluster = request.path.rsplit("/", 1)[1]
        running[cluster] += 1
        most[cluster] = max(most[cluster], running[cluster])
        if running == {"a": 2, "b": 2}:
            both.set()
        await both.wait()
        running[cluster] -= 1
        return web.Response(status=204)

    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        await asyncio.gather(
            *(admin.call(AdminEndpoint(c, url), "GET", ("tenants", c)) for c in ("a", "b") for _ in range(6))
        )
    finally:
        await admin.close()
        await runner.cleanup()
    assert most == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, RefusedError),
        (401, RefusedError),
        (403, RefusedError),
        (404, NotFoundError),
        (405, RefusedError),
        (408, UnavailableError),
        (409, ConflictError),
        (412, RefusedError),
        (422, RefusedError),
        (500, UnavailableError),
        (504, UnavailableError),
    ],
)
async def test_errors_carry_pulsars_words(admin: AiohttpAdmin, status: int, error: type[Exception]) -> None:
    script = answers(lambda: web.json_response({"reason": "because\nof this"}, status=status))
    async with serve(FakePulsar(), script=script) as (url, _):
        with pytest.raises(error, match=r"because$") as caught:
            await admin.call(AdminEndpoint("a", url), "DELETE", ("tenants", "t\nforged line"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["reason", "message", "text"])
@pytest.mark.parametrize("status", [409, 412, 500])
async def test_errors_carry_no_logins(admin: AiohttpAdmin, status: int, form: str) -> None:
    """They end in conditions and events, which many may read."""
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0." + 43 * "s"
    said = f"no connection to pulsar://me:hidden1@west:6650 with Bearer opaque{9 * 'h'}, {token} is refused"
    body = said if form == "text" else json.dumps({form: said})
    script = answers(lambda: web.Response(status=status, text=body))
    async with serve(FakePulsar(), script=script) as (url, _):
        with pytest.raises(PortError, match=r"no connection to pulsar://.*west:6650 with Bearer .* refused") as caught:
            await admin.call(AdminEndpoint("a", url), "DELETE", ("tenants", "t"))
    assert not any(each in str(caught.value) for each in ("me:", "hidden1", "opaque", "eyJ", "sss"))


@pytest.mark.parametrize("begin", ["Failed to find ownership for topic:", "Can't find owner for topic "])
async def test_a_topic_that_nobody_owns_is_no_refusal_and_is_not_asked_again_at_once(
    admin: AiohttpAdmin, begin: str
) -> None:
    """412 says so only with these words; what it is for is up to the caller."""
    words = f"{begin}persistent://t/n/x"
    script = answers(lambda: web.json_response({"reason": words}, status=412))
    async with serve(FakePulsar(), script=script) as (url, seen):
        with pytest.raises(UnownedError, match=f"HTTP 412: {words}$"):
            await admin.call(AdminEndpoint("a", url), "GET", ("persistent", "t", "n", "x", "stats"))
        assert len(seen) == 1
    script = answers(lambda: web.json_response({"reason": words}, status=400))
    async with serve(FakePulsar(), script=script) as (url, _):
        with pytest.raises(RefusedError):
            await admin.call(AdminEndpoint("a", url), "GET", ("persistent", "t", "n", "x", "stats"))


async def test_html_and_broken_json(admin: AiohttpAdmin) -> None:
    script = answers(
        lambda: web.Response(status=404, text="<html>secret stack</html>", content_type="text/html"),
        lambda: web.Response(status=200, text="not json"),
    )
    async with serve(FakePulsar(), script=script) as (url, _):
        with pytest.raises(UnavailableError, match=r"404.*not from Pulsar") as caught:
            await admin.call(AdminEndpoint("a", url), "GET", ("x",))
        assert "stack" not in str(caught.value)
        with pytest.raises(UnavailableError, match="not JSON"):
            await admin.call(AdminEndpoint("a", url), "GET", ("x",))


async def test_bodies_are_sent_as_declared(admin: AiohttpAdmin) -> None:
    got: list[tuple[str, str, str]] = []

    def record(request: web.Request) -> web.StreamResponse:
        got.append((request.method, request.headers.get("Content-Type", "-"), request.headers["User-Agent"]))
        return web.Response(status=204)

    pulsar = FakePulsar(tenants={"t": {"adminRoles": [], "allowedClusters": ["a"]}})
    async with serve(pulsar) as (url, _):
        endpoint = AdminEndpoint("a", url)
        await admin.call(endpoint, "PUT", ("namespaces", "t", "n"))
        await admin.call(endpoint, "PUT", ("persistent", "t", "n", "p", "partitions"), body=4)
        await admin.call(endpoint, "POST", ("namespaces", "t", "n", "messageTTL"), body=0)
    assert pulsar.partitioned == {"persistent://t/n/p": 4}
    assert pulsar.namespaces["t/n"]["message_ttl_in_seconds"] == 0, "0 is a body, not its absence"
    async with serve(pulsar, script=record) as (url, _):
        await admin.call(AdminEndpoint("a", url), "PUT", ("x",), body={}, content_type="application/vnd.x+json")
        await admin.call(AdminEndpoint("a", url), "GET", ("x",))
    assert [g[1] for g in got] == ["application/vnd.x+json", "-"]
    assert all(g[2].startswith("pulsar-operator/") for g in got)


async def test_every_attempt_is_counted() -> None:
    metrics = CountingMetrics()
    admin = AiohttpAdmin(metrics, deadline=5)
    async with serve(FakePulsar(), script=answers(lambda: web.Response(status=503))) as (url, _):
        await admin.call(AdminEndpoint("a", url), "GET", ("clusters",))
    await admin.close()
    assert metrics.calls == [("admin_call", "a", "GET", "503"), ("admin_call", "a", "GET", "200")]


@pytest.mark.parametrize("body", [{}, {"reason": "HTTP 422 {}"}])
async def test_a_422_without_words_is_a_failure_inside_the_broker(admin: AiohttpAdmin, body: dict[str, str]) -> None:
    script = answers(lambda: web.json_response(body, status=422))
    async with serve(FakePulsar(), script=script) as (url, _):
        with pytest.raises(UnavailableError, match="HTTP 422"):
            await admin.call(AdminEndpoint("a", url), "DELETE", ("namespaces", "t", "n"))


async def test_a_race_inside_the_broker_is_no_refusal(admin: AiohttpAdmin) -> None:
    reason = "[no message for java.util.ConcurrentModificationException]"
    script = answers(lambda: web.json_response({"reason": reason}, status=400))
    async with serve(FakePulsar(), script=script) as (url, _):
        with pytest.raises(UnavailableError, match="HTTP 400"):
            await admin.call(AdminEndpoint("a", url), "GET", ("clusters", "a", "namespaceIsolationPolicies"))


@pytest.mark.parametrize("name", ["a/b", "../x", "%2F", "a\nb", "ü?#;&+ "])
def test_a_segment_stays_a_segment(name: str) -> None:
    url = build_url("http://h:1/", ("tenants", name))
    assert str(url).startswith("http://h:1/admin/v2/tenants/")
    last = str(url).removeprefix("http://h:1/admin/v2/tenants/")
    assert not set(last) & set("/?#;&+ \n")
    assert unquote(last) == name


@pytest.mark.parametrize(("method", "requests"), [("POST", 1), ("PUT", 2)])
async def test_a_broken_connection_repeats_only_what_may_be_repeated(method: str, requests: int) -> None:
    admin = AiohttpAdmin(CountingMetrics(), deadline=5)
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.method)
        if len(seen) == 1:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=204)

    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = AdminEndpoint("a", f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        if method == "POST":
            with pytest.raises(UnavailableError, match="may have taken effect"):
                await admin.call(endpoint, method, ("tenants", "t"), body={})
        else:
            await admin.call(endpoint, method, ("tenants", "t"), body={})
    finally:
        await admin.close()
        await runner.cleanup()
    assert len(seen) == requests


async def test_answers_in_plain_text(admin: AiohttpAdmin) -> None:
    """Only where they are expected, and never a page of something in between."""
    script = answers(
        lambda: web.Response(text="group 1", content_type="application/json"),
        lambda: web.Response(text="group 1", content_type="application/json"),
        lambda: web.Response(text=" <html>sign in</html>", content_type="text/html"),
        lambda: web.Response(body=b"\xff"),
        lambda: web.Response(status=204),
    )
    async with serve(FakePulsar(), script=script) as (url, _):
        endpoint, path = AdminEndpoint("a", url), ("namespaces", "t", "n", "antiAffinity")
        assert await admin.call(endpoint, "GET", path, text=True) == "group 1"
        with pytest.raises(UnavailableError, match="not JSON"):
            await admin.call(endpoint, "GET", path)
        for words in ("HTML", "UTF-8"):
            with pytest.raises(UnavailableError, match=words):
                await admin.call(endpoint, "GET", path, text=True)
        assert await admin.call(endpoint, "GET", path, text=True) is None
