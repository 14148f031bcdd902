"""The few numbers of a sizing result that brokers are decided by, over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pulsar_operator.adapters.sizing import HEAD_BYTES, HttpSizing
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_operator.ports import RefusedError, UnavailableError

OLD: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "balance/data/result_without_profile.json").read_text(encoding="utf-8")
)
PROFILE = {"period": "Day", "hours": [1.0] * 24, "recorded": 48, "filled": 1}
HOTTEST = {"topic": "persistent://t/n/hot", "weight": 2.0, "carries": 1.0, "target": 0.7}
TINY, VAST = {"carries": 1e-200, "target": 1e-200}, {"carries": 1e200, "target": 1e200}
Served = tuple[str, dict[str, Any]]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Where a service answers, and what it answers."""
    answers: dict[str, Any] = {}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        found = answers.get(request.path)
        if callable(found):
            response: web.StreamResponse = await found(request)
            return response
        if found is None or isinstance(found, int):
            return web.Response(status=found or 404)
        return web.Response(body=found if isinstance(found, bytes) else json.dumps(found).encode())

    runner = web.ServerRunner(web.Server(answer), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}", answers
    await runner.cleanup()


async def test_what_is_about_bundles_is_not_checked(served: Served) -> None:
    url, answers = served
    told = OLD | {"profile": PROFILE, "verdict": OLD["verdict"] | {"hottest": HOTTEST}, "namespaces": [{"odd": 1}]}
    answers["/v1/sizing/east"] = told
    found = await HttpSizing().outlook(url, "east")
    assert found is not None and found.profile is not None and found.verdict.hottest is not None
    assert (found.profile.hours, found.verdict.hottest.topic) == ((1.0,) * 24, "persistent://t/n/hot")
    with pytest.raises(RefusedError, match="namespaces"):
        await HttpSizing().latest(url, "east")


async def test_a_result_of_an_older_job_has_no_profile(served: Served) -> None:
    url, answers = served
    answers["/v1/sizing/east"] = OLD
    found, whole = await HttpSizing().outlook(url, "east"), await HttpSizing().latest(url, "east")
    assert found is not None and whole is not None and (found.profile, found.verdict.hottest) == (None, None)
    assert (found.to_time, found.verdict, whole.profile) == (whole.to_time, whole.verdict, None)
    assert await HttpSizing().outlook(url, "west") is None


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (OLD | {"version": 2}, RefusedError, "version"),
        (OLD | {"profile": PROFILE | {"hours": [1.0] * 23}}, RefusedError, "a Day has 24 hours, not 23"),
        (OLD | {"profile": PROFILE | {"hours": [-1.0] * 24}}, RefusedError, "greater than or equal to 0"),
        (OLD | {"toTime": "2026-03-02T10:00:00"}, RefusedError, "toTime"),
        (OLD | {"toTime": "0001-01-01T00:00:00+14:00"}, RefusedError, "toTime"),
        (
            OLD | {"verdict": OLD["verdict"] | {"hottest": HOTTEST | TINY}},
            RefusedError,
            "verdict.hottest: .* not a valid target load",
        ),
        (
            OLD | {"verdict": OLD["verdict"] | {"hottest": HOTTEST | VAST}},
            RefusedError,
            "verdict.hottest: .* not a valid target load",
        ),
        (b"[", RefusedError, "cannot be read"),
        (503, UnavailableError, "returned HTTP 503"),
    ],
)
async def test_what_cannot_be_is_refused(served: Served, answer: Any, error: type[Exception], words: str) -> None:
    url, answers = served
    answers["/v1/sizing/east"] = answer
    with pytest.raises(error, match=words):
        await HttpSizing().outlook(url, "east")


async def test_of_a_large_result_the_begin_is_enough(served: Served) -> None:
    """As the job writes it; what follows is not read, and there may be an end of it or none."""
    url, answers = served
    whole = SizingResult.model_validate(OLD | {"profile": PROFILE, "verdict": OLD["verdict"] | {"hottest": HOTTEST}})
    text = whole.model_dump_json(by_alias=True).encode()
    answers["/v1/sizing/east"] = text[:-1] + b',"more":[' + b"0," * HEAD_BYTES
    found = await HttpSizing().outlook(url, "east")
    assert found is not None and found.profile == whole.profile and found.verdict == whole.verdict
    assert (found.to_time, found.cluster) == (whole.to_time, "east")
    with pytest.raises(RefusedError, match="EOF while parsing"):
        await HttpSizing().latest(url, "east")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"namespaces":[' + b"0," * HEAD_BYTES, "does not begin with the outlook fields"),
        (json.dumps(OLD)[:-1].encode() + b',"profile":' + b" " * HEAD_BYTES + b"null}", "does not begin with"),
        (b"[" * 2 * HEAD_BYTES, "recursion limit"),
        (b"0," * HEAD_BYTES, "does not begin with"),
        (b"\x00" * 2 * HEAD_BYTES, "cannot be read"),
    ],
    ids=["another-order", "cut-in-the-middle", "deep", "number", "zeros"],
)
async def test_a_large_answer_that_is_none(served: Served, body: bytes, words: str) -> None:
    url, answers = served
    answers["/v1/sizing/east"] = body
    with pytest.raises(RefusedError, match=words):
        await HttpSizing().outlook(url, "east")


async def test_an_answer_without_end_is_read_for_its_begin_alone(served: Served) -> None:
    """Packed it is a few kilobytes, and 20 times its unpacked size in memory: more than the operator has."""
    url, answers = served
    pieces = 0

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal pieces
        assert request.headers["Accept-Encoding"] == "identity"
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(b" " * HEAD_BYTES)
                pieces += 1
        return response

    answers["/v1/sizing/east"] = endless
    async with asyncio.timeout(20):
        with pytest.raises(RefusedError, match="cannot be read"):
            await HttpSizing().outlook(url, "east")
    assert pieces < 64


async def test_a_result_of_another_cluster_is_none(served: Served) -> None:
    url, answers = served
    answers["/v1/sizing/west"] = OLD
    for read in (HttpSizing().outlook, HttpSizing().latest):
        with pytest.raises(RefusedError, match="belongs to cluster east, not to west"):
            await read(url, "west")


async def test_a_service_that_sends_elsewhere_is_not_followed(served: Served) -> None:
    url, answers = served
    answers["/v1/sizing/west"] = OLD | {"cluster": "west"}

    async def elsewhere(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"{url}/v1/sizing/west"})

    answers["/v1/sizing/east"] = elsewhere
    with pytest.raises(UnavailableError, match="returned HTTP 302"):
        await HttpSizing().outlook(url, "east")


@pytest.mark.parametrize("read", ["outlook", "latest"])
@pytest.mark.parametrize(
    "url",
    [
        "http://sizing..pulsar:8080",
        f"http://{'s' * 64}.pulsar:8080",
        "http://user:sec/ret@there:80",
        "http://user:sec@re/t@there:80",
        'http://user:sec"ret@127.0.0.1:1',
        "http://user:secret@127.0.0.1:99999",
        "http://user:secret@[::1",
        "http://user:secret@there..:1",
    ],
)
async def test_no_address_breaks_a_pass_or_shows_its_password(url: str, read: str) -> None:
    """Admission lets each of them in."""
    assert re.fullmatch(r"https?://[^\s?#]+", url)
    with pytest.raises(UnavailableError) as caught:
        await getattr(HttpSizing(), read)(url, "east")
    text = str(caught.value)
    assert "user" not in text and "sec" not in text and "ret@" not in text and len(text) < 400, text
