"""One apply of everything, in any order, ends Ready without another nudge: no resync helps in these tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.status import is_true
from pulsar_operator.ports import CUSTOM, Json
from tests.fakes.admin import AdminCall
from tests.support.logical.one_apply import SERVERS, Applied, OneApply, play
from tests.support.logical.world import NS
from tests.support.sampling import WHOLE, spread

INSTANCE = {"name": "prod"}
EVERYTHING: tuple[Applied, ...] = (
    (Kind.INSTANCE, "prod", {"version": "4.0.8", "configurationStore": {"external": {"servers": SERVERS}}}),
    (Kind.CLUSTER, "a", {"instanceRef": INSTANCE}),
    (Kind.CLUSTER, "b", {"instanceRef": INSTANCE}),
    (Kind.TENANT, "t", {"instanceRef": INSTANCE, "deletionPolicy": "Delete"}),
    (
        Kind.NAMESPACE,
        "n",
        {"tenantRef": {"name": "t"}, "replicationClusters": ["a", "b"], "policies": {"resourceGroup": "g"}},
    ),
    (Kind.TOPIC, "x", {"namespaceRef": {"name": "n"}, "policies": {"shadowTopics": ["persistent://t/n/y"]}}),
    (Kind.TOPIC, "y", {"namespaceRef": {"name": "n"}, "partitions": 2}),
    (Kind.TOPIC_SET, "s", {"namespaceRef": {"name": "n"}, "count": {"prefix": "s-", "number": 3}, "template": {}}),
    (Kind.RESOURCE_GROUP, "g", {"instanceRef": INSTANCE, "limits": {"publishRate": {"messagesPerSecond": 10}}}),
    (
        Kind.ISOLATION_POLICY,
        "i",
        {"instanceRef": INSTANCE, "clusters": ["a", "b"], "namespaces": ["t/n"], "primary": [".*"]},
    ),
)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("seed", spread(range(30), 3, ids=str, marks=WHOLE))
def test_everything_ends_ready_in_any_order(seed: int, explicit: bool) -> None:
    rng = random.Random(seed)
    w = OneApply(takes={name: rng.choice([0.0, 3.0, 40.0, 200.0]) for name in ("a", "b")})
    objects = list(EVERYTHING)
    if explicit:
        objects[3] = (Kind.TENANT, "t", {**objects[3][2], "allowedClusters": ["a", "b"]})
    rng.shuffle(objects)
    # As one apply does it, within a second, or with pauses as by hand.
    slow = rng.choice([0.0, 0.2, 20.0])
    steps = [(rng.random() * slow, partial(w.put, each)) for each in objects]
    play(w, steps, seconds=360)
    assert w.unready() == {}
    assert w.pulsar.namespaces["t/n"]["replication_clusters"] == ["a", "b"]


def at(w: OneApply, times: dict[str, float], name: str, done: Callable[[], bool]) -> Callable[[str, Json], None]:
    """Notes when something first holds."""

    def look(change: str, obj: Json) -> None:
        if name not in times and done():
            times[name] = asyncio.get_running_loop().time()

    return look


def test_what_was_refused_for_a_cluster_is_tried_when_the_tenant_has_it() -> None:
    """Not only when its own time comes: by then it would have waited for minutes more."""
    w = OneApply(takes={"b": 200.0})
    times: dict[str, float] = {}
    tenant = partial(w.kube.live, CUSTOM[Kind.TENANT], NS, "t")
    namespace = partial(w.kube.live, CUSTOM[Kind.NAMESPACE], NS, "n")
    w.kube.subscribe(
        at(w, times, "tenant", lambda: ((tenant() or {}).get("status") or {}).get("clusters") == ["a", "b"])
    )
    w.kube.subscribe(at(w, times, "namespace", lambda: is_true(namespace() or {}, "Ready")))
    play(w, [(0.0, partial(w.put, each)) for each in EVERYTHING], seconds=400)
    assert w.unready() == {}
    assert times["tenant"] < 202
    assert times["namespace"] < times["tenant"] + 2


def test_a_cluster_that_never_serves_keeps_no_other_waiting_that_does_not_name_it() -> None:
    w = OneApply(takes={"b": 50.0, "c": 10.0**6})
    extra: Applied = (Kind.CLUSTER, "c", {"instanceRef": INSTANCE})
    play(w, [(0.0, partial(w.put, each)) for each in (extra, *EVERYTHING)], seconds=100)
    assert set(w.unready()) == {"PulsarInstance prod", "PulsarCluster c"}


def test_a_cluster_that_comes_last_is_named_before() -> None:
    """Until then it is no cluster of the instance, which is nothing Pulsar was asked."""
    w = OneApply()
    early = [each for each in EVERYTHING if each[1] != "b"]
    late = [each for each in EVERYTHING if each[1] == "b"]
    steps = [*((0.0, partial(w.put, each)) for each in early), (250.0, partial(w.put, late[0]))]
    play(w, steps, seconds=10)
    assert w.unready() == {}


def test_a_refusal_that_only_pulsar_can_take_back_is_tried_ever_more_rarely() -> None:
    w = OneApply()
    objects = [each for each in EVERYTHING if each[0] is not Kind.RESOURCE_GROUP]
    tries: list[float] = []

    def note(call: AdminCall) -> None:
        if call.is_write and "resourcegroup" in call.path:
            tries.append(asyncio.get_running_loop().time())

    w.admin.before.append(note)
    steps: list[tuple[float, Callable[[], None]]] = [(0.0, partial(w.put, each)) for each in objects]
    steps.append((3600.0, lambda: w.pulsar.resource_groups.add("g")))
    play(w, steps, seconds=320)
    assert w.unready() == {}
    assert 15 <= len(tries) <= 30, tries
    assert max(after - before for before, after in pairwise(tries)) < 310
