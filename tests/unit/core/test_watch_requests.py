"""One list page, one stream, over HTTP: every answer that is none is an error with a reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from pulsar_operator.adapters import watch_requests as module
from pulsar_operator.adapters.watch_requests import Event, WatchClient, WatchError

PATH = "/api/v1/pods"
SILENCE = 30.0


class Api:
    """Answers every request with the same bytes."""

    def __init__(
        self, *chunks: bytes, status: int = 200, stays: bool = False, cut: bool = False, **headers: str
    ) -> None:
        self.chunks, self.status, self.stays, self.cut, self.headers = chunks, status, stays, cut, headers
        self.requests: list[web.BaseRequest] = []

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        response = web.StreamResponse(status=self.status, headers=self.headers)
        await response.prepare(request)
        for chunk in self.chunks:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        if self.stays:
            await asyncio.Event().wait()
        if self.cut and request.transport is not None:
            request.transport.abort()
        return response


@asynccontextmanager
async def client(api: Api, **options: Any) -> AsyncIterator[WatchClient]:
    """A client of the API on a free port of 127.0.0.1."""
    runner = web.ServerRunner(web.Server(api.answer, handler_cancellation=True), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    configuration.api_key["authorization"] = "Bearer one"
    requests = WatchClient(configuration, **options)
    try:
        yield requests
    finally:
        await requests.close()
        await runner.cleanup()


async def events(api: Api, silence: float = SILENCE) -> tuple[list[Event], WatchError | None]:
    """What a stream delivers, and what it ends with."""
    found: list[Event] = []
    async with client(api) as requests:
        try:
            async with requests.watch(PATH, {"watch": "true"}, silence) as stream:
                async for each in stream:
                    found.append(each)
        except WatchError as error:
            return found, error
    return found, None


async def fails_to_list(api: Api, **options: Any) -> WatchError:
    async with client(api, **options) as requests:
        with pytest.raises(WatchError) as caught:
            await requests.page(PATH, {"limit": "500"})
    return caught.value


def line(type_: str, name: str = "p", **meta: Any) -> bytes:
    obj = {"metadata": {"name": name, "resourceVersion": "7", **meta}}
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def status(code: int, **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "message": "scripted", **more}).encode()


# ------------------------------------------------------------------------------------------ lists


@pytest.mark.parametrize("size", [0, 1, 3])
async def test_a_list_is_decoded_without_what_takes_most_of_the_memory(size: int) -> None:
    fields = [{"manager": "m", "fieldsV1": {"f:status": {f"f:{n}": {} for n in range(9)}}}]
    meta = {"name": "t", "resourceVersion": "7", "managedFields": fields}
    item = {"metadata": meta, "status": {"managedFields": ["policies.retention"]}}
    api = Api(json.dumps({"metadata": {"resourceVersion": "9"}, "items": [item] * size or None}).encode())
    async with client(api) as requests:
        found = await requests.page(PATH, {"limit": "500", "labelSelector": "a/b=c,d"})
    kept = {"metadata": {"name": "t", "resourceVersion": "7"}, "status": item["status"]}
    assert found == {"metadata": {"resourceVersion": "9"}, "items": [kept] * size}
    (request,) = api.requests
    assert request.path == PATH and dict(request.query) == {"limit": "500", "labelSelector": "a/b=c,d"}
    assert request.headers["Authorization"] == "Bearer one"
    assert request.headers["User-Agent"].startswith("pulsar-operator/")


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>sign in</html>",
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"kind": "Status", "metadata": {}}',
        b'{"metadata": {"resourceVersion": ""}, "items": []}',
        b'{"metadata": {"resourceVersion": "1"}, "items": {"a": 1}}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [1]}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {}}]}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [',
        b'{"metadata": {"resourceVersion": "1"}}',
        b"\xff\xfe",
    ],
)
async def test_what_is_no_list_is_garbage(raw: bytes) -> None:
    error = await fails_to_list(Api(raw))
    assert (error.reason, error.version_good) == ("garbage", False)


@pytest.mark.parametrize(
    ("code", "reason", "refused"),
    [
        (401, "http_401", False),
        (403, "http_403", True),
        (404, "http_404", True),
        (410, "expired", False),
        (429, "http_429", False),
        (500, "http_500", False),
        (503, "http_503", False),
        (302, "http_302", False),
    ],
)
async def test_a_status_is_reported_with_its_retry_after(code: int, reason: str, refused: bool) -> None:
    error = await fails_to_list(Api(status(code), status=code, **{"Retry-After": "4"}))
    assert (error.reason, error.status, error.refused) == (reason, code, refused)
    assert error.retry_after == (4.0 if code in (429, 500, 503) else error.retry_after)
    assert "scripted" in str(error)


async def test_a_list_that_hangs_or_breaks_is_an_error_in_time() -> None:
    assert (await fails_to_list(Api(b'{"metadata"', stays=True), list_seconds=0.2)).reason == "timeout"
    assert (await fails_to_list(Api(b'{"metadata"', cut=True))).reason == "connection"


async def test_a_server_that_is_not_there_leaves_the_version_good() -> None:
    requests = WatchClient(Configuration(host="http://127.0.0.1:1"))
    try:
        with pytest.raises(WatchError) as listed:
            await requests.page(PATH, {})
        with pytest.raises(WatchError) as watched:
            async with requests.watch(PATH, {}, SILENCE):
                raise AssertionError("unreachable")
    finally:
        await requests.close()
    assert listed.value.reason == watched.value.reason == "connection" and watched.value.version_good


# ------------------------------------------------------------------------------------------ streams


async def test_events_arrive_however_they_are_cut_into_pieces() -> None:
    whole = line("ADDED", "a", managedFields=[1]) + b"\n" + line("MODIFIED", "b" * 200_000) + line("DELETED", "c")
    whole += b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}\r\n'
    expected = [("ADDED", "a"), ("MODIFIED", "b" * 200_000), ("DELETED", "c"), ("BOOKMARK", None)]
    for pieces in ([whole], [whole[:5], whole[5:40], whole[40:-3], whole[-3:]]):
        found, error = await events(Api(*pieces))
        assert [(type_, obj["metadata"].get("name")) for type_, obj in found] == expected
        assert error is None and "managedFields" not in found[0][1]["metadata"]


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>\n",
        b"[]\n",
        b"1\n",
        b"{}\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": []}\n',
        b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n',
        b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "1"}}}\n',
        b'{"type": "ADDED", "object": {"metadata": {"name": 1, "resourceVersion": "1"}}}\n',
        b'{"type": "BOOKMARK", "object": {"metadata": {}}}\n',
        b'{"type": ["ADDED"], "object": {"metadata": {"name": "a", "resourceVersion": "1"}}}\n',
        b'{"type": "SYNC", "object": {"metadata": {"name": "a", "resourceVersion": "1"}}}\n',
        b"\xff\xfe\n",
    ],
)
async def test_a_line_that_is_no_event_ends_the_stream(raw: bytes) -> None:
    found, error = await events(Api(line("ADDED"), raw, line("ADDED", "later")))
    assert [obj["metadata"]["name"] for _, obj in found] == ["p"]
    assert error is not None and (error.reason, error.version_good) == ("garbage", False)


@pytest.mark.parametrize("code", [400, 403, 404, 410, 429, 500, 504, None, "many"])
async def test_an_error_event_ends_the_stream_whatever_its_code(code: Any) -> None:
    obj = {"kind": "Status", "code": code, "message": "scripted", "details": {"retryAfterSeconds": 9}}
    _, error = await events(Api(json.dumps({"type": "ERROR", "object": obj}).encode() + b"\n"))
    assert error is not None and not error.version_good and not error.refused and "scripted" in str(error)
    known = code if isinstance(code, int) else 500
    assert error.reason == ("expired" if code == 410 else f"error_{known}")
    assert error.retry_after == (9.0 if known in (429, 500, 504) else None)


@pytest.mark.parametrize("obj", [None, [], "x", {"details": "x", "code": 404}])
async def test_an_error_event_of_nothing_ends_it_too(obj: Any) -> None:
    _, error = await events(Api(json.dumps({"type": "ERROR", "object": obj}).encode() + b"\n"))
    assert error is not None and not error.version_good


@pytest.mark.parametrize("cut", [False, True])
async def test_half_a_line_at_the_end_is_no_event(cut: bool) -> None:
    found, error = await events(Api(line("ADDED"), line("ADDED")[:-9], cut=cut))
    assert len(found) == 1 and error is not None and (error.reason, error.version_good) == ("truncated", False)


async def test_a_connection_that_breaks_between_events_misses_nothing() -> None:
    found, error = await events(Api(line("ADDED"), cut=True))
    assert len(found) == 1 and error is not None and (error.reason, error.version_good) == ("connection", True)


@pytest.mark.parametrize("chunks", [(), (line("ADDED"),), (b'{"type": "AD',)])
async def test_silence_ends_a_stream_however_it_began(chunks: tuple[bytes, ...]) -> None:
    found, error = await events(Api(*chunks, stays=True), silence=0.3)
    assert error is not None and (error.reason, error.version_good) == ("silent", True)
    assert len(found) == (chunks == (line("ADDED"),))


@pytest.mark.parametrize(
    ("code", "reason", "good"),
    [
        (403, "http_403", False),
        (404, "http_404", False),
        (410, "expired", False),
        (429, "http_429", True),
        (500, "http_500", False),
        (503, "http_503", True),
        (504, "http_504", False),
    ],
)
async def test_a_watch_that_is_not_accepted(code: int, reason: str, good: bool) -> None:
    _, error = await events(Api(status(code), status=code, **{"Retry-After": "4"}))
    assert error is not None and (error.reason, error.version_good) == (reason, good)


async def test_an_endless_line_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    _, error = await events(Api(*[b"x" * 400] * 5, stays=True))
    assert error is not None and error.reason == "garbage"
