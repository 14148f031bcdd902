"""The whole process against an API server that is away at the wrong moment: it ends when asked, and tells no secret."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from e2e.support.eventually import eventually
from pulsar_operator.adapters.kube_http import resource_path
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.contract.test_watch_endings import _never, acted, body, put
from tests.support.processes.operator import OperatorProcess
from tests.support.processes.scripted_api import GET, LIST, WATCH, ScriptedApi, Stream, error_line

NS = "default"
TOPICS = resource_path(CUSTOM[Kind.TOPIC], NS)


@pytest.fixture(name="api")
def scripted_api() -> Iterator[ScriptedApi]:
    api = ScriptedApi()
    api.start()
    yield api
    api.stop()


@pytest.fixture(name="operator")
def process(api: ScriptedApi, tmp_path: Path) -> Iterator[OperatorProcess]:
    operator = OperatorProcess(
        tmp_path / "operator.log", api.kubeconfig(tmp_path), NS, watch_namespaces=NS, watch_silence_seconds=8.0
    )
    yield operator
    operator.kill()
    print(operator.tail())


def test_it_ends_on_a_signal_while_lists_hang(api: ScriptedApi, operator: OperatorProcess) -> None:
    for kind in Kind:
        api.scripts[resource_path(CUSTOM[kind], NS)].listed = _never
    eventually(lambda: api.requests(TOPICS, LIST), what="it lists")
    time.sleep(2)
    begun = time.monotonic()
    assert operator.stop() == 0
    assert time.monotonic() - begun < 25


def test_it_ends_on_a_signal_while_watches_are_not_accepted(api: ScriptedApi, operator: OperatorProcess) -> None:
    for kind in Kind:
        api.scripts[resource_path(CUSTOM[kind], NS)].watched = _never
    eventually(lambda: api.requests(TOPICS, WATCH), what="it watches")
    assert operator.http("/healthz")[0] == 200
    eventually(lambda: operator.http("/healthz")[0] == 503, what="/healthz fails", within=20)
    assert operator.stop() == 0


def test_words_of_a_proxy_are_in_no_log_as_they_are(api: ScriptedApi, operator: OperatorProcess) -> None:
    async def refused(request: web.BaseRequest, stream: Stream | None) -> web.StreamResponse:
        return web.Response(
            status=401, text="<html>Authorization: Bearer hunter2hunter2 \x1b[2J https://u:hunter2hunter2@h/</html>"
        )

    operator.ready()
    api.scripts[TOPICS].listed = api.scripts[TOPICS].watched = refused
    api.send(TOPICS, error_line(500, message="token=hunter2hunter2"))
    eventually(lambda: "HTTP 401" in operator.http("/readyz")[1], what="/readyz tells it")
    assert "hunter2" not in operator.http("/readyz")[1]
    assert "hunter2" not in operator.log.read_text(encoding="utf-8")


def test_what_went_in_a_gap_is_asked_for(api: ScriptedApi, operator: OperatorProcess) -> None:
    """A namespace that is deleted and made again between two streams: the deletions are seen by no stream."""
    acted(api, [put(api, kind, NS, "here") for kind in Kind], what="passes", within=30)
    operator.ready()
    begun = time.monotonic()
    for kind in Kind:
        path = resource_path(CUSTOM[kind], NS)
        api._loop.call_soon_threadsafe(api._objects[path].pop, "here")
        api.send(path, error_line(410))
    for kind in Kind:
        path = resource_path(CUSTOM[kind], NS)
        eventually(lambda path=path: api.requests(f"{path}/here", GET, since=begun), what=f"{kind} is asked for")
    acted(api, [put(api, kind, NS, "again") for kind in Kind], what="passes of new ones", within=15)
    eventually(lambda: operator.http("/readyz")[0] == 200, what="it is ready")
    assert operator.stop() == 0


def test_an_instant_flood_of_bookmarks_hides_nothing(api: ScriptedApi, operator: OperatorProcess) -> None:
    operator.ready()
    line = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "3"}}}\n'
    api.send(TOPICS, *[line * 2000] * 50)
    acted(api, [put(api, kind, NS, "behind") for kind in Kind], what="passes", within=15)
    assert operator.http("/healthz")[0] == 200
    assert operator.stop() == 0


def test_a_page_of_html_for_everything_ends_in_a_failed_probe(api: ScriptedApi, operator: OperatorProcess) -> None:
    operator.ready()
    for kind in Kind:
        script = api.scripts[resource_path(CUSTOM[kind], NS)]
        script.listed = script.watched = body(b"<html>sign in</html>")
        api.send(resource_path(CUSTOM[kind], NS), None)
    eventually(lambda: operator.http("/healthz")[0] == 503, what="/healthz fails", within=40)
    assert operator.stop() == 0
