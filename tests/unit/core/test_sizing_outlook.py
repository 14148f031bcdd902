"""The few numbers of a sizing result that brokers are decided by, over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pulsar_operator.adapters.sizing import HttpSizing
from pulsar_operator.ports import RefusedError, UnavailableError

OLD: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "balance/data/result_without_profile.json").read_text(encoding="utf-8")
)
PROFILE = {"period": "Day", "hours": [1.0] * 24, "recorded": 48, "filled": 1}
HOTTEST = {"topic": "persistent://t/n/hot", "weight": 2.0, "carries": 1.0, "target": 0.7}
Served = tuple[str, dict[str, Any]]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Where a service answers, and what it answers."""
    answers: dict[str, Any] = {}

    async def answer(request: web.BaseRequest) -> web.Response:
        found = answers.get(request.path)
        if found is None or isinstance(found, int):
            return web.Response(status=found or 404)
        return web.Response(body=found if isinstance(found, bytes) else json.dumps(found).encode())

    runner = web.ServerRunner(web.Server(answer), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}", answers
    await runner.cleanup()


async def test_what_is_about_bundles_is_not_looked_at(served: Served) -> None:
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
        (b"[", RefusedError, "cannot be read"),
        (503, UnavailableError, "answered 503"),
    ],
)
async def test_what_cannot_be_is_refused(served: Served, answer: Any, error: type[Exception], words: str) -> None:
    url, answers = served
    answers["/v1/sizing/east"] = answer
    with pytest.raises(error, match=words):
        await HttpSizing().outlook(url, "east")
