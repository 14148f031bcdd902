"""The benchmark of one change in several clusters: brokers that share a store, and what is counted and timed."""

from __future__ import annotations

import asyncio
import csv
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.config_store.broker import Broker, cluster_node, nodes_of
from benchmarks.config_store.changes import Change, by_run, write
from benchmarks.config_store.measure import chosen, group_of
from benchmarks.config_store.operations import by_owner, calls_about, owners, requests, watched
from benchmarks.config_store.statuses import done_at
from benchmarks.objects.figures import Row, Table, percentile
from pulsar_operator.ports import ConflictError, ZooKeeperSession
from tests.fakes.zookeeper import Call, FakeZooKeeper

CLUSTERS = ("east", "west")
NODE = "/admin/policies/team/orders"
ORDERS = ["namespaces", "team", "orders"]


@pytest.fixture
def zookeeper() -> FakeZooKeeper:
    return FakeZooKeeper()


@pytest.fixture
async def brokers(zookeeper: FakeZooKeeper) -> dict[str, Broker]:
    """One broker in each of two clusters, and a namespace of both that the first one made."""

    async def session() -> ZooKeeperSession:
        return await zookeeper.session("zk:2181")

    found = {cluster: Broker(cluster, CLUSTERS, session) for cluster in CLUSTERS}
    tenant = {"adminRoles": [], "allowedClusters": list(CLUSTERS)}
    assert await found["east"].handle("PUT", ["tenants", "team"], {}, tenant) == (204, None)
    made = await found["east"].handle("PUT", ORDERS, {}, {"replication_clusters": list(CLUSTERS)})
    assert made == (204, None)
    return found


async def ttl(broker: Broker) -> object:
    """The policy, as a broker shows it once a watch has told what it has to."""
    await asyncio.sleep(0)
    status, body = await broker.handle("GET", ORDERS, {}, None)
    assert status == 200
    return body.get("message_ttl_in_seconds")


async def change(broker: Broker, value: int) -> int:
    """Change the policy; the status."""
    return (await broker.handle("POST", [*ORDERS, "messageTTL"], {}, value))[0]


async def test_brokers_share_what_is_in_the_store(zookeeper: FakeZooKeeper, brokers: dict[str, Broker]) -> None:
    assert await ttl(brokers["west"]) is None
    assert await change(brokers["east"], 60) == 204
    assert [await ttl(each) for each in brokers.values()] == [60, 60]
    zookeeper.writes.clear()
    assert await change(brokers["west"], 70) == 204
    assert [await ttl(each) for each in brokers.values()] == [70, 70]
    assert zookeeper.writes == [("set", NODE)]
    assert (await brokers["west"].handle("POST", ["namespaces", "team", "none", "messageTTL"], {}, 1))[0] == 404


async def test_what_was_read_is_kept_until_it_changes(zookeeper: FakeZooKeeper, brokers: dict[str, Broker]) -> None:
    await ttl(brokers["west"])
    before = len(zookeeper.calls)
    await ttl(brokers["west"])
    assert len(zookeeper.calls) == before
    await change(brokers["east"], 60)
    before = len(zookeeper.calls)
    assert await ttl(brokers["west"]) == 60
    assert [(each.op, each.path) for each in zookeeper.calls[before:]] == [("watch", NODE), ("get", NODE)]


async def test_a_broker_that_was_slower_reads_again(zookeeper: FakeZooKeeper, brokers: dict[str, Broker]) -> None:
    """Both change another policy, from the same state: neither is lost."""
    others = []

    async def slower(call: Call) -> None:
        if call.op == "set" and not others:
            others.append(call)
            assert (await brokers["west"].handle("POST", [*ORDERS, "maxTopicsPerNamespace"], {}, 7))[0] == 204

    zookeeper.before.append(slower)
    assert await change(brokers["east"], 60) == 204
    body = (await brokers["west"].handle("GET", ORDERS, {}, None))[1]
    assert (body["message_ttl_in_seconds"], body["max_topics_per_namespace"]) == (60, 7)


async def test_a_broker_gives_up_a_change_that_others_undo(
    zookeeper: FakeZooKeeper, brokers: dict[str, Broker]
) -> None:
    def conflict(call: Call) -> None:
        if call.op == "set":
            raise ConflictError("changed")

    zookeeper.before.append(conflict)
    assert await change(brokers["east"], 60) == 409


async def test_a_deleted_namespace_is_gone_everywhere(zookeeper: FakeZooKeeper, brokers: dict[str, Broker]) -> None:
    assert (await brokers["east"].handle("POST", [*ORDERS, "replication"], {}, ["east"]))[0] == 200
    assert (await brokers["west"].handle("DELETE", ORDERS, {}, None))[0] == 204
    assert (await brokers["east"].handle("GET", ORDERS, {}, None))[0] == 404
    assert NODE not in zookeeper.ensemble("zk:2181").nodes


async def test_a_store_that_is_away_is_an_error_of_the_server(
    zookeeper: FakeZooKeeper, brokers: dict[str, Broker]
) -> None:
    zookeeper.ensemble("zk:2181").reachable = False
    assert (await brokers["west"].handle("GET", ORDERS, {}, None))[0] == 500


async def test_a_broker_watches_its_cluster_in_every_session(
    zookeeper: FakeZooKeeper, brokers: dict[str, Broker]
) -> None:
    watching, node = asyncio.Event(), cluster_node("west")
    task = asyncio.create_task(brokers["west"].watch_cluster(watching))
    await watching.wait()
    assert len(zookeeper.ensemble("zk:2181").watches[node]) == 1
    zookeeper.ensemble("zk:2181").end_sessions()
    assert node not in zookeeper.ensemble("zk:2181").watches
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(zookeeper.ensemble("zk:2181").watches[node]) == 1
    task.cancel()


@pytest.mark.parametrize(
    ("path", "nodes"),
    [
        (["clusters"], []),
        (["namespaces", "team"], []),
        (["tenants", "team"], ["/admin/policies/team"]),
        ([*ORDERS, "messageTTL"], ["/admin/policies/team", NODE]),
    ],
)
def test_nodes_of_a_call(path: list[str], nodes: list[str]) -> None:
    assert nodes_of(path) == nodes


LOG = f"""\
2026-01-01 00:00:00,000 DEBUG FinalRequestProcessor Processing request:: sessionid:0x1 type:exists cxid:0x1 \
zxid:0xfffffffffffffffe txntype:unknown reqpath:{cluster_node("east")}
2026-01-01 00:00:00,000 DEBUG FinalRequestProcessor Processing request:: sessionid:0x1 type:setData cxid:0x2 \
zxid:0x7 txntype:5 reqpath:{NODE}
2026-01-01 00:00:00,000 WARN  NIOServerCnxn Unexpected exception
2026-01-01 00:00:00,000 DEBUG FinalRequestProcessor Processing request:: sessionid:0x2 type:exists cxid:0x1 \
zxid:0xfffffffffffffffe txntype:unknown reqpath:{NODE}
2026-01-01 00:00:00,000 DEBUG FinalRequestProcessor Processing request:: sessionid:0x3 type:getData cxid:0x1 \
zxid:0xfffffffffffffffe txntype:unknown reqpath:{NODE}
2026-01-01 00:00:00,000 DEBUG FinalRequestProcessor Processing request:: sessionid:0x2 type:ping cxid:0x1 \
zxid:0xfffffffffffffffe txntype:unknown reqpath:n/a
"""


def test_requests_are_whose_session_they_came_in() -> None:
    found = requests(LOG.splitlines())
    known = owners(found, CLUSTERS)
    assert known == {"0x1": "east"}
    assert by_owner(found, {NODE}, known, without={"0x3"}) == {("east", "setData"): 1, ("operator", "exists"): 1}
    assert watched(found, known) == {NODE}


def test_calls_are_counted_for_what_they_are_about() -> None:
    calls = {
        "GET clusters": 9,
        "GET namespaces/team/orders": 2,
        "GET namespaces/team/bills": 3,
        "POST namespaces/team/orders/messageTTL": 1,
        "GET namespaces/other/orders": 5,
    }
    assert calls_about(calls, {"team/orders", "team/bills"}) == Counter(
        {"GET namespaces/~/~": 5, "POST namespaces/~/~/messageTTL": 1}
    )


def change_of(run: int, *, who: str = "operator", group: str = "all", ready: float | None = 0.4) -> Change:
    return Change(50, run, "well", who, group, "t00/n0001", 0.1, {"east": 0.2, "west": 0.3}, ready)


def test_a_change_is_done_when_the_last_one_says_so(tmp_path: Path) -> None:
    declared, by_hand = change_of(0), change_of(1, who="by hand", ready=None)
    assert (declared.consistent, declared.done, by_hand.done) == (0.3, 0.4, 0.3)
    write(tmp_path / "out" / "raw.csv", [declared, by_hand], CLUSTERS)
    with (tmp_path / "out" / "raw.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["who"], row["west"], row["ready"]) for row in rows] == [
        ("operator", "0.3000", "0.4000"),
        ("by hand", "0.3000", ""),
    ]


def test_runs_are_told_apart() -> None:
    found = [change_of(1), change_of(0), change_of(1, group="others"), change_of(0, who="by hand")]
    assert [len(run) for run in by_run(found, "well", "operator")] == [1, 2]
    assert [len(run) for run in by_run(found, "well", "operator", "all")] == [1, 1]
    assert by_run(found, "hanging", "operator") == []


def test_runs_change_other_namespaces_of_both_sorts() -> None:
    runs = [chosen(500, run, 30) for run in range(5)]
    every = [number for run in runs for number in run]
    assert len(set(every)) == len(every) and max(every) < 500
    assert all(Counter(map(group_of, run)) == {"all": 20, "others": 10} for run in runs)


def test_an_object_is_done_at_its_own_generation() -> None:
    ready = [{"type": "Ready", "status": "True"}]
    assert done_at({"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "conditions": ready}}) == 2
    assert done_at({"metadata": {"generation": 3}, "status": {"observedGeneration": 2, "conditions": ready}}) is None
    assert done_at({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}) is None
    assert done_at({"metadata": {"generation": 1}}) is None


def test_figures_of_several_runs_have_their_spread(tmp_path: Path) -> None:
    table = Table(sized="namespaces")
    table.say("operator", 50, "p99", [30.0, 10.0, 20.0], "ms", most=15)
    table.say("operator", 50, "calls", 13.0, "calls")
    first, second = table.rows
    assert (first.text, first.verdict, second.text, second.verdict) == ("20 (10-30)", "missed", "13", "")
    table.write(tmp_path / "figures.csv")
    assert (tmp_path / "figures.csv").read_text().splitlines() == [
        "who,namespaces,figure,value,least,most,unit,bar,verdict",
        "operator,50,p99,20.0000,10.0000,30.0000,ms,<= 15 ms,missed",
        "operator,50,calls,13.0000,,,calls,,",
    ]


def test_slopes_are_in_proportion_to_the_size() -> None:
    table = Table()
    for size, seconds in ((100, 1.0), (1000, 12.0)):
        table.say("operator", size, "start", seconds, "s")
    table.slopes("operator", [1000, 100], "start")
    assert table.rows[-1] == Row("operator", 1000, "slope of 'start' since 100", pytest.approx(1.2), "x linear", 1.2)


@pytest.mark.parametrize(("share", "value"), [(0.5, 51), (0.99, 100), (0.0, 1), (1.0, 100)])
def test_percentile(share: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value
