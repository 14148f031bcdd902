"""Other clusters of an instance that get other URLs: brokers that know them are replaced, and no others."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import ANNOTATION_REMOTE_CLUSTERS, ANNOTATION_REMOTE_URLS, Kind
from pulsar_operator.api.v1alpha1.base import Condition, ConditionStatus
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus, RemoteClusterStatus
from pulsar_operator.domain.dataplane.observed.remote_clusters import (
    RemoteUrls,
    known_urls,
    observed_clusters,
    remote_changes,
    remote_rows,
    remote_urls,
    with_known_urls,
    with_remote_clusters,
)
from pulsar_operator.domain.dataplane.registration.registration import cluster_path
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS, Json, ZooKeeperSession
from tests.support.cluster.copies import made_once
from tests.support.cluster.rolls import one_of_each, two
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
THEN = "2026-11-25T12:00:00Z"
WEST = RemoteUrls("http://west:8080", "", "pulsar://west:6650", "")
MOVED = RemoteUrls("http://west:8080", "", "pulsar://west.other:6650", "")


def status(*rows: RemoteClusterStatus) -> PulsarClusterStatus:
    return PulsarClusterStatus(remote_clusters=list(rows))


def seen(before: PulsarClusterStatus | None, **found: RemoteUrls | None) -> dict[str, str | None]:
    return {row.name: row.changed for row in remote_rows(before or status(), found, NOW)}


KNOWN = status(*remote_rows(status(), {"west": WEST}, NOW))
READY = Condition(type="Ready", status=ConditionStatus.TRUE, reason="Ready", message="", last_transition_time=THEN)


@pytest.mark.parametrize(
    ("before", "found", "rows"),
    [
        pytest.param(None, {"west": WEST}, {"west": None}, id="it joins"),
        pytest.param(KNOWN, {"west": WEST}, {"west": None}, id="it is as it was"),
        pytest.param(KNOWN, {"west": MOVED}, {"west": THEN}, id="it moved"),
        pytest.param(KNOWN, {}, {}, id="it left"),
        pytest.param(KNOWN, {"west": None}, {"west": None}, id="it cannot be read"),
        pytest.param(None, {"west": None}, {}, id="it cannot be read and never was"),
        pytest.param(KNOWN, {"west": WEST, "north": WEST}, {"west": None, "north": None}, id="another joins"),
        pytest.param(
            status(RemoteClusterStatus(name="west")), {"west": WEST}, {"west": None}, id="no client could be made of it"
        ),
    ],
)
def test_what_changed(before: Json | None, found: dict[str, RemoteUrls | None], rows: dict[str, str | None]) -> None:
    assert seen(before, **found) == rows


def test_a_change_is_later_than_the_last_one_whatever_the_clock_says() -> None:
    """Of two operators, or after the clock was set back."""
    ahead = remote_rows(KNOWN, {"west": MOVED}, NOW + timedelta(minutes=5))
    (row,) = remote_rows(status(*ahead), {"west": WEST}, NOW)
    assert (ahead[0].changed, row.changed) == ("2026-11-25T12:05:00Z", "2026-11-25T12:05:01Z")


def test_so_it_is_where_the_status_does_not_know_the_last_one_any_more() -> None:
    """The cluster left and came back, or the status was lost; the pod template says when it was."""
    (row,) = remote_rows(KNOWN, {"west": MOVED}, NOW, {"west": "2026-11-25T12:05:00Z"})
    assert row.changed == "2026-11-25T12:05:01Z"


def test_a_template_that_somebody_wrote_into_hides_no_change() -> None:
    template = {
        "metadata": {"annotations": {ANNOTATION_REMOTE_CLUSTERS: '{"west":"z","north":7,"south":"' + THEN + '"}'}}
    }
    assert remote_changes(template) == {"south": THEN}


def test_a_store_that_does_not_answer_changes_nothing() -> None:
    assert status(*remote_rows(KNOWN, None, NOW)) == KNOWN


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", RemoteUrls()),
        (
            b'{"brokerServiceUrl":"pulsar://a:1","serviceUrl":null,"peerClusterNames":["x"]}',
            RemoteUrls("", "", "pulsar://a:1"),
        ),
        (
            b'{"serviceUrl":"http://admin:hunter2@a:8080","brokerServiceUrl":"pulsar://u:p@a:1,b:1"}',
            RemoteUrls("http://...@a:8080", "", "pulsar://...@a:1,b:1"),
        ),
        (b"{", None),
        (b"[]", None),
        (b'{"serviceUrl":1}', None),
        (json.dumps({"serviceUrl": "h" * 2049}).encode(), None),
    ],
)
def test_nodes(data: bytes, found: RemoteUrls | None) -> None:
    assert remote_urls(data) == found


def test_which_are_looked_at() -> None:
    assert observed_clusters(["west", "global", "east", "n" * 254], "east") == ["west"]
    assert len(observed_clusters([f"c{number}" for number in range(100)], "east")) == 64


def manifest(annotations: Json | None = None) -> Json:
    return {"spec": {"template": {"metadata": {"annotations": annotations or {}}}}}


def applied(told: Json | None) -> Json | None:
    return None if told is None else {"metadata": {"annotations": {ANNOTATION_REMOTE_CLUSTERS: json.dumps(told)}}}


LATER = "2026-11-25T13:00:00Z"


@pytest.mark.parametrize(
    ("rows", "told", "wanted"),
    [
        pytest.param([], None, {}, id="nothing"),
        pytest.param([("west", None)], {}, {}, id="no change"),
        pytest.param([("west", THEN)], {}, {"west": THEN}, id="a change"),
        pytest.param([("west", THEN)], None, {"west": THEN}, id="a change before the workload"),
        pytest.param([("west", LATER)], {"west": THEN}, {"west": LATER}, id="another change"),
        pytest.param([("west", None)], {"west": THEN}, {"west": THEN}, id="the status was lost"),
        pytest.param([("west", THEN)], {"west": LATER}, {"west": LATER}, id="the status is an old one"),
        pytest.param([], {"west": THEN}, {"west": THEN}, id="it left"),
        pytest.param([("north", LATER)], {"west": THEN}, {"west": THEN, "north": LATER}, id="two"),
    ],
)
def test_templates(rows: list[tuple[str, str | None]], told: Json | None, wanted: dict[str, str]) -> None:
    stored = status(*(RemoteClusterStatus(name=name, changed=changed) for name, changed in rows))
    found = with_remote_clusters(manifest({"other": "stays"}), stored, applied(told))
    assert remote_changes(found["spec"]["template"]) == wanted
    assert found["spec"]["template"]["metadata"]["annotations"]["other"] == "stays"
    assert (found == manifest({"other": "stays"})) is (wanted == {})


@given(st.lists(st.sampled_from([None, WEST, MOVED, RemoteUrls(), "absent"]), min_size=1, max_size=8))
def test_brokers_are_told_of_every_change_and_of_nothing_else(course: list[Any]) -> None:
    """However it goes on: the template changes exactly when URLs that a client could have been made from are others."""
    stored, template, known = status(), None, None
    for hour, urls in enumerate(course):
        found = {} if urls == "absent" else {"west": urls}
        rows = remote_rows(stored, found, NOW.replace(hour=hour))
        stored = status(*rows)
        after = with_remote_clusters(manifest(), stored, template)["spec"]["template"]
        moved = isinstance(urls, RemoteUrls) and known is not None and known.reachable and known != urls
        assert (remote_changes(after) != remote_changes(template)) is moved
        template = after
        if urls == "absent":
            known = None
        elif urls is not None:
            known = urls


class Course:
    """A cluster's passes over another one of its instance, on a status and a StatefulSet that last."""

    def __init__(self) -> None:
        self.status = PulsarClusterStatus()
        self.workload: Json | None = None
        self.now = NOW

    def a_pass(self, urls: RemoteUrls | None, *, held: bool = False) -> None:
        """What is applied and stored; ``held`` = the template's turn has not come."""
        self.now += timedelta(minutes=1)
        there = self.workload
        template = there["spec"]["template"] if there is not None else None
        given = {"metadata": {"annotations": {"other": "stays"}}, **manifest()}
        made = with_remote_clusters(with_known_urls(given, self.status, there), self.status, template)
        if held and template is not None:
            made["spec"] = {"template": template}
        self.workload = made
        found = {} if urls is None else {"west": urls}
        told, kept = remote_changes(made["spec"]["template"]), known_urls(made)
        rows = remote_rows(self.status, found, self.now, told, kept)
        self.status = PulsarClusterStatus(remote_clusters=rows, conditions=[READY])

    def told(self) -> dict[str, str]:
        assert self.workload is not None
        return remote_changes(self.workload["spec"]["template"])


@given(st.lists(st.tuples(st.sampled_from([WEST, MOVED]), st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_a_status_that_is_lost_or_restored_hides_no_change_and_makes_none(steps: list[tuple[Any, bool, bool]]) -> None:
    """Whether it was lost in the moment of the change, and whether the template has to wait for its turn."""
    course, known = Course(), WEST
    for _ in range(4):
        course.a_pass(WEST)
    backup = course.status
    for number, (urls, lost, held) in enumerate(steps):
        before = course.told()
        if lost:
            course.status = backup if number % 2 else PulsarClusterStatus()
        for _ in range(2):
            course.a_pass(urls, held=held)
        for _ in range(4):
            course.a_pass(urls)
        assert (course.told() != before) is (urls != known), (number, urls)
        known = urls


def test_what_was_noted_for_another_template_or_by_another_hand_says_nothing() -> None:
    course = Course()
    for _ in range(3):
        course.a_pass(WEST)
    assert course.workload is not None and list(known_urls(course.workload)) == ["west"]
    assert course.workload["metadata"]["annotations"]["other"] == "stays"
    for text in ("", "{", "[]", '{"west": "x"}', '{"west": ["", 1]}', f'{{"west": ["{THEN}", "x"]}}'):
        course.workload["metadata"]["annotations"][ANNOTATION_REMOTE_URLS] = text
        assert known_urls(course.workload) == {}
    assert known_urls(None) == {}


def test_one_that_left_and_came_back_replaces_nothing() -> None:
    course = Course()
    for urls in (WEST, WEST, WEST, None, None, MOVED, MOVED, MOVED):
        course.a_pass(urls)
    assert course.told() == {}


@made_once
async def pair() -> ClusterWorld:
    """East and west, each with two brokers, Ready, as often looked at as it takes to know each other."""
    world = await two(2, one_of_each)
    await looked_again(world)
    return world


async def looked_again(world: ClusterWorld) -> None:
    world.clock.forward(3600)
    await world.run()


async def store_of(world: ClusterWorld) -> ZooKeeperSession:
    status = await world.status(Kind.INSTANCE, "demo")
    return await world.deps.zookeeper.session(
        status["configurationStoreServers"], status.get("configurationStoreChroot")
    )


async def moves(world: ClusterWorld, name: str, url: str) -> None:
    """Somebody, such as the operator of that cluster, registers another URL."""
    session = await store_of(world)
    node = await session.get(cluster_path(name))
    assert node is not None
    data = {**json.loads(node.data), "brokerServiceUrl": url}
    await session.set(cluster_path(name), json.dumps(data).encode(), version=node.version)


async def test_the_others_brokers_are_replaced_one_after_another() -> None:
    world = await pair()
    assert [row["name"] for row in (await world.status(Kind.CLUSTER, "east"))["remoteClusters"]] == ["west"]
    before = len(world.journal.pods_gone())
    await world.pause(Kind.CLUSTER, "west")  # west's own operator would put it right
    await moves(world, "west", "pulsar://west.example:6650")
    await looked_again(world)
    gone = world.journal.pods_gone()[before:]
    assert sorted(gone) == ["east-broker-0", "east-broker-1"]
    assert any("the URLs of cluster west changed" in event.message for event in world.journal.events)
    rows = (await world.status(Kind.CLUSTER, "east"))["remoteClusters"]
    assert rows[0]["brokerServiceUrl"] == "pulsar://west.example:6650" and rows[0]["changed"]
    await looked_again(world)
    assert world.journal.pods_gone()[before:] == gone


@pytest.mark.parametrize("restored", [False, True])
async def test_so_they_are_where_the_status_was_lost_in_that_moment(restored: bool) -> None:
    world = await pair()
    old = await world.status(Kind.CLUSTER, "east")
    await world.pause(Kind.CLUSTER, "west")
    before = len(world.journal.pods_gone())
    if restored:  # it has what the store has by then, and brokers have not
        await moves(world, "west", "pulsar://west.example:6650")
        await looked_again(world)
        await moves(world, "west", old["remoteClusters"][0]["brokerServiceUrl"])
    else:
        await moves(world, "west", "pulsar://west.example:6650")
    went = len(world.journal.pods_gone()) - before
    await world.backstage.edit(
        CUSTOM[Kind.CLUSTER], world.namespace, "east", lambda obj: obj.update(status=old if restored else {})
    )
    await looked_again(world)
    assert sorted(world.journal.pods_gone()[before + went :]) == ["east-broker-0", "east-broker-1"]
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], world.namespace, "east", lambda obj: obj.update(status={}))
    await looked_again(world)
    assert len(world.journal.pods_gone()) == before + went + 2, "lost alone it replaces nobody"


async def test_a_clock_that_was_ahead_hides_no_change_of_one_that_left_and_came_back() -> None:
    world = await pair()
    session = await store_of(world)
    await session.create(cluster_path("north"), b'{"brokerServiceUrl":"pulsar://north:6650"}')
    await looked_again(world)
    world.clock.forward(7200)
    await moves(world, "north", "pulsar://north.example:6650")
    await looked_again(world)
    world.clock.forward(-7000)
    node = await session.get(cluster_path("north"))
    assert node is not None
    await session.delete(cluster_path("north"), version=node.version)
    await world.run()
    await session.create(cluster_path("north"), b'{"brokerServiceUrl":"pulsar://north:6650"}')
    await world.run()
    before = len(world.journal.pods_gone())
    await moves(world, "north", "pulsar://north.example:6650")
    await world.run()
    assert sorted(world.journal.pods_gone()[before:]) == [f"{c}-broker-{n}" for c in ("east", "west") for n in (0, 1)]


async def test_one_that_joins_or_leaves_replaces_nothing() -> None:
    world = await pair()
    before, session = world.journal.pods_gone(), await store_of(world)
    await session.create(cluster_path("north"), b'{"brokerServiceUrl":"pulsar://north:6650"}')
    await looked_again(world)
    rows = (await world.status(Kind.CLUSTER, "east"))["remoteClusters"]
    assert [row["name"] for row in rows] == ["north", "west"]
    await session.delete(cluster_path("north"), version=0)
    await looked_again(world)
    assert world.journal.pods_gone() == before
    template = (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"]
    assert remote_changes(template) == {}


async def test_a_roll_that_stopped_is_not_tried_again_for_it() -> None:
    """Until somebody corrects what was asked for: then brokers learn of the URLs too."""
    world = await pair()
    world.workloads.troubles.append(Trouble(image="*:broken", waiting="ErrImagePull"))
    broken = {"broker": "registry.example/pulsar-broker:broken"}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(image=dict(broken)))

    async def stopped() -> bool:
        world.clock.forward(120)
        return any(event.reason == "RolloutFailed" for event in world.journal.events)

    await world.until(stopped)
    await world.run()
    before = len(world.journal.pods_gone())
    await world.pause(Kind.CLUSTER, "west")
    await moves(world, "west", "pulsar://west.example:6650")
    for _ in range(20):
        world.clock.forward(120)
        await world.round()
    assert world.journal.pods_gone()[before:] == []
    assert (await world.condition(Kind.CLUSTER, "east", "Progressing"))[1] == "RolloutFailed"
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.pop("image"))
    await looked_again(world)
    assert sorted(world.journal.pods_gone()[before:]) == ["east-broker-0", "east-broker-1"]
    assert remote_changes((await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"])
