"""What others answer is quoted without secrets and control characters: in logs and in conditions."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.domain.texts import quoted
from pulsar_operator.logs import JsonFormatter, TextFormatter
from pulsar_operator.ports import Key, PortError, RefusedError, UnavailableError
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.core.objects import custom
from tests.support.core.virtual_time import run_virtual
from tests.unit.cluster.test_pods_refused import kube as kube_of
from tests.unit.core.test_engine_failures import run

LEAK = "https://u:hunter2@h/ token=hunter2 \x1b[2Jno\u202e"


def formatted(record: logging.LogRecord) -> list[str]:
    return [JsonFormatter().format(record), TextFormatter().format(record)]


def test_an_error_that_is_logged_is_quoted() -> None:
    try:
        raise KeyError(LEAK)
    except KeyError as error:
        info: Any = sys.exc_info()
        record = logging.LogRecord("x", logging.WARNING, "f", 1, "%s in %.1f s: %s", ("list", 2.0, error), info)
    for line in formatted(record):
        assert "hunter2" not in line and "\x1b" not in line
        assert "list in 2.0 s" in line and "KeyError" in line and "raise KeyError(LEAK)" in line


def test_a_message_without_arguments_is_as_it_was() -> None:
    record = logging.LogRecord("x", logging.WARNING, "f", 1, "100 % of key=value", (), None)
    assert json.loads(formatted(record)[0])["message"] == "100 % of key=value"
    record = logging.LogRecord("x", logging.WARNING, "f", 1, "%(a)s", ({"a": "b"},), None)
    assert json.loads(formatted(record)[0])["message"] == "b"


@pytest.mark.parametrize("problem", [UnavailableError(LEAK), RefusedError(LEAK, status=422), ValueError(LEAK)])
def test_a_pass_that_fails_is_logged_without_secrets(problem: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        kube = FakeKube()
        kube.put(custom(Kind.TOPIC, "ns", "x", {}))

        async def fails(key: Key) -> Outcome:
            raise problem

        await run(kube, fails, seconds=5)

    with caplog.at_level(logging.DEBUG):
        run_virtual(scenario())
    records = [each for each in caplog.records if "reconcile" in each.getMessage().lower()]
    assert records
    for line in (line for each in records for line in formatted(each)):
        assert "hunter2" not in line and "\x1b" not in line, line


@pytest.mark.parametrize("error", [RefusedError(LEAK, status=422), UnavailableError(LEAK)])
async def test_a_condition_of_an_instance_quotes_without_secrets(error: PortError) -> None:
    world = ClusterWorld.fakes()

    def hook(call: Call) -> None:
        if call.verb == "list" and call.kind == Kind.CLUSTER:
            raise error

    kube_of(world).before.append(hook)
    await world.apply(quickstart()[0])
    await world.reconcile((await world.keys())[0])
    status = str(await world.status(Kind.INSTANCE, "demo"))
    assert "hunter2" not in status and "no" in status and "\\x1b" not in status


async def test_what_admission_says_of_a_manifest_is_in_no_condition_with_its_secrets() -> None:
    world = ClusterWorld.fakes()

    def hook(call: Call) -> None:
        if call.verb == "apply" and call.kind == "ServiceAccount":
            raise RefusedError(LEAK, status=422)

    kube_of(world).before.append(hook)
    await world.apply(*quickstart()[:2])
    for _ in range(3):
        await world.round()
    text = (await world.condition(Kind.CLUSTER, "east", "Accepted"))[2]
    assert text.startswith("The API server refused ServiceAccount ") and text.isprintable(), text
    assert "hunter2" not in text


def test_quoting_keeps_the_words() -> None:
    assert quoted('admission webhook "x" denied\n the request') == 'admission webhook "x" denied the request'
