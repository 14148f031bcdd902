"""The whole process against an API server that ends lists and watches in every way there is."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from e2e.support.eventually import eventually
from pulsar_operator.adapters.kube_http import resource_path
from pulsar_operator.adapters.reflector import FIRST_SECONDS, LIMIT_SECONDS
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.support.processes.operator import OperatorProcess
from tests.support.processes.scripted_api import (
    CONTINUE,
    LIST,
    WATCH,
    WRITE,
    Play,
    Script,
    ScriptedApi,
    Stream,
    cut,
    error_line,
    opened,
    status_of,
)

SILENCE = 8.0
"""watch_silence_seconds of the process; a silent stream is opened again after a third of it."""
RETRY_AFTER = 4
ACTED_SECONDS = 15.0
BROKEN = Kind.TOPIC
"""The kind that is broken, in a Kubernetes namespace for each ending."""


def answers(code: int, *, retry_after: int = 0) -> Play:
    async def play(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
        return status_of(code, request, retry_after=retry_after)

    return play


def body(raw: bytes) -> Play:
    async def play(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
        return web.Response(body=raw, content_type="application/json")

    return play


def streams(*lines: bytes, breaks: bool = False) -> Play:
    """A stream that is accepted, sends this, and is closed or broken."""

    async def play(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
        response = await opened(request)
        for line in lines:
            await response.write(line)
        if breaks:
            cut(request)
        return response

    return play


async def _breaks(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
    cut(request)
    return web.Response()


async def _breaks_in_the_body(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "9999"})
    await response.prepare(request)
    await response.write(b'{"items": [')
    cut(request)
    return response


async def _never(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def _silent(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
    response = await opened(request)
    await asyncio.Event().wait()
    return response


@dataclass(frozen=True)
class Ending:
    """A way in which lists or watches of a kind end, again and again until it is healed."""

    script: Script
    kick: bytes | None = field(default_factory=lambda: error_line(410))
    """What ends the stream that is open when it begins; None breaks its connection."""
    listed: bool = True
    """Whether the kind is listed again; otherwise it is watched again from where it was, and nothing is missed."""
    pause: float = 0.0
    """Seconds between the answer and the next attempt, at least."""
    sent: int = 1
    """Requests of an attempt: where a connection that was kept breaks, aiohttp sends a GET once more."""
    lasts: float = 0.0
    """Seconds a stream lasts where the next one is opened at once; 0 = the back-off decides."""
    refused: bool = False
    """Whether it is a refusal, of which no other process would hear anything else."""


ENDINGS: dict[str, Ending] = {
    **{
        f"list-{code}": Ending(Script(listed=answers(code)), refused=code in (403, 404))
        for code in (401, 403, 404, 410, 500, 503, 504)
    },
    "list-429": Ending(Script(listed=answers(429, retry_after=RETRY_AFTER)), pause=RETRY_AFTER),
    "list-page": Ending(Script(listed=body(b"<html>sign in</html>"))),
    "list-half": Ending(Script(listed=body(b'{"metadata": {"resourceVersion": "9"}, "items": ['))),
    "list-cut": Ending(Script(listed=_breaks_in_the_body)),
    "list-status": Ending(Script(listed=body(b'{"kind": "Status", "metadata": {}}'))),
    "list-reset": Ending(Script(listed=_breaks), sent=2),
    "continue-410": Ending(Script(continued=answers(410))),
    "continue-500": Ending(Script(continued=answers(500))),
    **{
        f"watch-{code}": Ending(Script(watched=answers(code)), kick=error_line(500), refused=code in (403, 404))
        for code in (401, 403, 404, 410, 500, 504)
    },
    "watch-429": Ending(
        Script(watched=answers(429, retry_after=RETRY_AFTER)), kick=error_line(500), listed=False, pause=RETRY_AFTER
    ),
    "watch-reset": Ending(Script(watched=_breaks), kick=None, listed=False, sent=2),
    "watch-never-accepted": Ending(Script(watched=_never), kick=None, listed=False),
    **{
        f"error-{code}": Ending(Script(watched=streams(error_line(code))), kick=error_line(code))
        for code in (400, 403, 410, 500, 504)
    },
    "error-429": Ending(
        Script(watched=streams(error_line(429, details={"retryAfterSeconds": RETRY_AFTER}))),
        kick=error_line(429, details={"retryAfterSeconds": RETRY_AFTER}),
        pause=RETRY_AFTER,
    ),
    "line-not-json": Ending(Script(watched=streams(b"<html>\n")), kick=b"<html>\n"),
    "line-no-event": Ending(Script(watched=streams(b'{"some": "thing"}\n')), kick=b'{"some": "thing"}\n'),
    "line-no-object": Ending(
        Script(watched=streams(b'{"type": "ADDED", "object": []}\n')), kick=b'{"type": "ADDED", "object": []}\n'
    ),
    "line-truncated": Ending(Script(watched=streams(b'{"type": "ADDED", "obj')), kick=b'{"type": "ADDED", "obj\n'),
    "line-cut": Ending(Script(watched=streams(b'{"type": "AD', breaks=True)), kick=error_line(500)),
    "closed-at-once": Ending(Script(watched=streams()), kick=None, listed=False),
    "broken-at-once": Ending(Script(watched=streams(breaks=True)), kick=None, listed=False),
    "silent": Ending(Script(watched=_silent), kick=None, listed=False, lasts=SILENCE / 3),
}
QUIET = "quiet"
"""A Kubernetes namespace in which nothing ever happens; its streams get no bookmark either."""


def path(ending: str, kind: Kind = BROKEN) -> str:
    return resource_path(CUSTOM[kind], ending)


def obj(kind: Kind, namespace: str, name: str) -> dict[str, object]:
    return {
        "apiVersion": CUSTOM[kind].api_version,
        "kind": kind.value,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {},
    }


@pytest.fixture(name="api")
def scripted_api() -> Iterator[ScriptedApi]:
    api = ScriptedApi()
    api.start()
    yield api
    api.stop()


def put(api: ScriptedApi, kind: Kind, namespace: str, name: str) -> str:
    """Create an object; what a pass of it writes."""
    api.put(path(namespace, kind), obj(kind, namespace, name))
    return f"{path(namespace, kind)}/{name}/status"


def acted(api: ScriptedApi, written: list[str], *, what: str, within: float) -> None:
    """Wait until a pass of each object wrote its status."""
    eventually(
        lambda: not (set(written) - {each.path for each in list(api.asked) if each.verb == WRITE}),
        what=what,
        within=within,
        every=0.1,
    )


def most(seconds: float) -> int:
    """So many attempts the back-off allows in a time."""
    attempts, delay = 1, FIRST_SECONDS
    while seconds > delay:
        seconds, attempts, delay = seconds - delay, attempts + 1, min(delay * 2, LIMIT_SECONDS)
    return attempts


def test_every_ending_is_survived_alone(api: ScriptedApi, tmp_path: Path) -> None:
    for kind in Kind:
        api.scripts[path(QUIET, kind)].quiet = True
    everywhere = [*ENDINGS, QUIET]
    operator = OperatorProcess(
        tmp_path / "operator.log",
        api.kubeconfig(tmp_path),
        "default",
        watch_namespaces=",".join(everywhere),
        watch_silence_seconds=SILENCE,
    )
    try:
        _survive(api, operator)
        assert operator.stop() == 0
    finally:
        operator.kill()
        print(operator.tail())


def _survive(api: ScriptedApi, operator: OperatorProcess) -> None:
    operator.ready()
    eventually(
        lambda: all(api.requests(path(each, kind), WATCH) for each in ENDINGS for kind in Kind),
        what="every stream is open",
    )
    begun = time.monotonic()
    for name, ending in ENDINGS.items():
        api.scripts[path(name)] = ending.script
        api.send(path(name), ending.kick)

    # It is tried again and again, ever more rarely.
    attempt = {name: (LIST,) if ending.listed else (WATCH,) for name, ending in ENDINGS.items()}
    for name, verbs in attempt.items():
        eventually(
            lambda name=name, verbs=verbs: len(api.requests(path(name), *verbs, since=begun)) > 1,
            what=f"{name}: {' or '.join(verbs)}, twice",
        )
    # One kind fails; what happens to any other is acted on.
    others = [kind for kind in Kind if kind is not BROKEN]
    written = [put(api, kind, name, "meanwhile") for name in ENDINGS for kind in others]
    acted(api, written, what="passes of all other kinds", within=ACTED_SECONDS)

    # What fails for long fails the liveness probe, and is named.
    eventually(lambda: operator.http("/healthz")[0] == 503, what="/healthz fails", within=60)
    assert "no event, no bookmark and no new stream" in operator.http("/healthz")[1]
    for name, ending in ENDINGS.items():
        elapsed = time.monotonic() - begun
        for verb in (LIST, CONTINUE, WATCH):
            times = [each.at for each in api.requests(path(name), verb, since=begun)]
            # And one more: the stream that was open may have begun its next attempt as it was broken.
            allowed = 1 + (elapsed / ending.lasts + 1 if ending.lasts else most(elapsed) * ending.sent + ending.sent)
            assert len(times) <= allowed, f"{name}: {len(times)} x {verb} in {elapsed:.0f} s"
            gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
            assert min(gaps, default=ending.pause) >= ending.pause, f"{name}: {verb} after {gaps} s"

    _, metrics = operator.http("/metrics", metrics=True)
    for reason in ("expired", "error_500", "error_429", "http_429", "http_403", "garbage", "truncated", "silent"):
        assert f'pulsar_operator_watch_restarts_total{{kind="PulsarTopic",reason="{reason}"}}' in metrics
    assert 'pulsar_operator_watch_streams{kind="PulsarTenant",state="watching"}' in metrics

    # A refusal is an answer: it is told by the readiness, and no reason to restart.
    for name, ending in ENDINGS.items():
        if not ending.refused:
            api.scripts[path(name)] = Script()
    eventually(lambda: operator.http("/healthz")[0] == 200, what="/healthz is well again", within=LIMIT_SECONDS + 15)
    refused = [name for name, ending in ENDINGS.items() if ending.refused]
    eventually(
        lambda: json.loads(operator.http("/readyz")[1])["problems"]["watch"].count("HTTP 40") == min(len(refused), 3),
        what="/readyz tells the refusals, and nothing else",
    )
    for name in refused:
        api.scripts[path(name)] = Script()

    # An API server that is not there at all.
    api.refuse()
    eventually(lambda: "cannot watch" in operator.http("/readyz")[1], what="/readyz tells that nothing is watched")
    api.listen_again()
    operator.ready()
    written = [put(api, kind, name, "afterwards") for name in (*ENDINGS, QUIET) for kind in (BROKEN, Kind.TENANT)]
    acted(api, written, what="passes of the kind that was broken, and of another", within=ACTED_SECONDS)
    # By now nothing has happened in the quiet namespace for several times the silence that is allowed.
    eventually(lambda: operator.http("/healthz")[0] == 200, what="/healthz is well with quiet streams")


def test_the_process_ends_when_kopf_does(api: ScriptedApi, tmp_path: Path) -> None:
    api.missing.add("/api")  # kopf asks once, at its start
    operator = OperatorProcess(tmp_path / "operator.log", api.kubeconfig(tmp_path), "default")
    try:
        assert operator.wait() == 1
        assert operator.logged("watch ended, so the operator stops"), operator.tail()
    finally:
        operator.kill()
