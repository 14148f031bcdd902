"""Answers to one request that were taken for something else: for a server that is away, an object that is gone, a
missing right, or an order to wait for years."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import count

import pytest

from pulsar_operator.adapters.kube_http import error_of
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, ForbiddenError, Json, PortError, RefusedError, UnavailableError
from tests.fakes.kube_calls import Call
from tests.support.core.objects import tenant
from tests.support.core.virtual_time import run_virtual
from tests.unit.core.test_kube_http import Bench, bench
from tests.unit.core.test_kube_http import page as config_maps
from tests.unit.core.test_reflector import Played, pod, run
from tests.unit.core.test_reflector import page as pods
from tests.unit.core.test_resync_places import Site

__all__ = ["bench"]

DENIED = (
    'admission webhook "images.example.com" denied the request: no such image',
    'admission webhook "images.example.com" denied the request without explanation',
    "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no",
    'admission webhook "w" denied the request: secrets is forbidden: User "system:serviceaccount:w:w" cannot get '
    'resource "secrets" in API group "" in the namespace "w"',
)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 410, 418, 422, 429, 500, 503, 504])
@pytest.mark.parametrize("words", DENIED)
def test_what_a_webhook_or_a_policy_denies_is_about_that_request_whatever_its_code(words: str, code: int) -> None:
    """The API server passes on the code that the webhook or the policy chose."""
    status = {"kind": "Status", "code": code, "message": words, "details": {"name": "a", "retryAfterSeconds": 9}}
    error = error_of(code, {}, json.dumps(status).encode(), "POST pods")
    assert type(error) is RefusedError and error.status == code and "denied" in str(error)


def test_a_proxy_that_repeats_such_words_is_not_the_api_server() -> None:
    assert isinstance(error_of(503, {}, DENIED[0].encode(), "POST pods"), UnavailableError)
    right = 'pods is forbidden: User "o" cannot create resource "pods" in API group "" in the namespace "n"'
    raw = json.dumps({"kind": "Status", "message": right}).encode()
    assert isinstance(error_of(403, {}, raw, "POST pods"), ForbiddenError)


@pytest.mark.parametrize("code", [404, 409, 410, 422, 429, 500, 503])
@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"kind": "Status", "details": {"causes": "x"}}',
        b'{"kind": "Status", "details": {"causes": ["x", 1, null]}}',
        b'{"kind": "Status", "details": ["x"], "message": ["y"]}',
        b'{"kind": "Status", "details": {"causes": [{"reason": "DisruptionBudget", "message": 5}]}}',
    ],
    ids=["nested", "causes", "cause", "details", "message"],
)
def test_an_odd_answer_is_an_error_of_the_port(code: int, raw: bytes) -> None:
    assert isinstance(error_of(code, {}, raw, "GET x"), PortError)


@pytest.mark.parametrize("asked", [float("inf"), 1e300, 86400.0 * 365])
def test_nobody_makes_the_operator_wait_for_years(asked: float) -> None:
    """Neither a list nor a pass is put off for as long as a proxy asks."""

    async def scenario() -> None:
        site = Site(namespaces=())
        site.kube.put(tenant("a"))
        lists: list[float] = []

        async def busy(call: Call) -> None:
            if call.verb == "list" and call.kind == Kind.TENANT:
                lists.append(asyncio.get_running_loop().time())
                raise UnavailableError("HTTP 503: maintenance", retry_after=asked, status=503)

        site.kube.before.append(busy)

        async def act() -> None:
            await asyncio.sleep(1800)
            assert len(lists) >= 1800 / 600, "the kind is listed again all the same"
            site.recorder.passes.clear()

        await site.run(act)

    run_virtual(scenario())


async def test_a_list_of_a_pass_that_goes_on_where_it_was_ends_with_an_error(bench: Bench) -> None:
    for _ in range(3):
        bench.script.add(200, config_maps("a", "again"))
    with pytest.raises(UnavailableError, match="the same continue token twice"):
        await bench.kube.list(CONFIG_MAPS, "ns")
    assert len(bench.script.asked) == 2


def test_a_list_whose_tokens_never_repeat_is_blind_in_time() -> None:
    """The time that pages take does not count against a stream, so that such a list would be alive for ever."""
    tokens = count()

    class Endless(Played):
        async def page(self, path: str, query: Mapping[str, str]) -> Json:
            await asyncio.sleep(1)
            return await super().page(path, query)

    outcome = run(Endless(listed=lambda number, query: pods(pod("a"), token=str(next(tokens)))), 900)
    assert outcome.played.count("watch") == 0 and outcome.blind and outcome.blind[0] < 300
