"""A webhook that denies pods chooses its own code: no pod is evicted whose successor it denies. In memory."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.adapters.kube_http import error_of
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, STATEFUL_SETS, Json, PortError
from tests.fakes.kube_calls import Call
from tests.support.cluster.rolls import NEW, OLD, reason, three
from tests.support.cluster.world import ClusterWorld
from tests.unit.cluster.test_pods_refused import kube

WORDS = 'admission webhook "images.example.com" denied the request: image is not signed'


def denial(code: int) -> PortError:
    """The answer of the API server, as the adapter reads it."""
    status = {"kind": "Status", "code": code, "message": WORDS, "details": {"name": "x"}}
    return error_of(code, {}, json.dumps(status).encode(), "POST pods")


@pytest.mark.parametrize("code", [401, 404, 409, 429, 503])
async def test_no_pod_is_evicted_whose_successor_is_denied(code: int) -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    before = {name: pod["metadata"]["uid"] for name, pod in (await pods(world)).items()}

    def hook(call: Call) -> None:
        if call.verb == "dry_run_create":
            raise denial(code)

    kube(world).before.append(hook)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(version=NEW, proxy={"replicas": 4}))
    for _ in range(6):
        await world.round()
    now = await pods(world)
    assert {name: now[name]["metadata"]["uid"] for name in before} == before, "evicted, and it does not come back"
    assert await reason(world) == "PodRefused"
    assert WORDS in (await world.condition(Kind.CLUSTER, "east", "Progressing"))[2]
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True", "the API server is not away"
    assert (await world.get(STATEFUL_SETS, "east-proxy"))["spec"]["replicas"] == 4, "the pass goes on"


async def pods(world: ClusterWorld) -> dict[str, Json]:
    return {pod["metadata"]["name"]: pod for pod in await world.backstage.all(PODS)}
