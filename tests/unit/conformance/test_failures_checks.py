"""The checks of failures against a cluster in memory: they pass, say what is missing, and see what is broken."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pulsar
import pytest

from pulsar_conformance.admin import Admin
from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.checks import failures
from pulsar_conformance.commands import fault_command
from pulsar_conformance.context import Context, Instance
from pulsar_conformance.kit import counted
from pulsar_conformance.model import Check, Outcome, Status
from pulsar_conformance.runner import run_checks, run_one
from pulsar_conformance.tamper import Mutation
from pulsar_conformance.waiting import eventually
from tests.fakes.failing_cluster import BOOKIES, BROKERS, PROXIES, Client, Cluster
from tests.support.checks import make

CHECKS = [check for check in all_checks() if check.theme == "failures"]
MUTATIONS = [mutation for mutation in all_mutations() if mutation.check.startswith("failures.")]
SETTINGS = {
    "clusterName": "east",
    "metadataStoreSessionTimeoutMillis": "400",
    "metadataStoreUrl": "zk:a:2181,b:2181,c:2181/chroot",
    "bookkeeperClientTimeoutInSeconds": "30",
}
SHORT = 1.0
"""Seconds in which what is broken does not come right either."""


class Patience:
    """How long is waited at most: long where all comes right, so that a slow machine is no failure."""

    seconds = 30.0


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Patience:
    """Waits of checks, cut short."""
    found, receive = Patience(), Context.receive

    def hasty(_self: Context, probe: Callable[[], Any], what: str, *, within: float = 20, every: float = 0.2) -> Any:
        return eventually(probe, what, within=min(within, found.seconds), every=0.01)

    def eager(self: Context, consumer: Any, count: int, *, within: float = 20, ack: bool = True) -> list[Any]:
        return receive(self, consumer, count, within=min(within, found.seconds), ack=ack)

    monkeypatch.setattr(Context, "eventually", hasty)
    monkeypatch.setattr(Context, "receive", eager)
    return found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, patience: Patience) -> Cluster:
    """A cluster in memory behind admin REST and the client library."""
    found = Cluster()
    monkeypatch.setattr(Admin, "_call", lambda _self, *args, **query: found.call(*args, **query))
    monkeypatch.setattr(pulsar, "Client", lambda _url, **_options: Client(found))
    monkeypatch.setattr(counted, "RATE", 500)
    monkeypatch.setattr(failures, "RATE", 50)  # in a fifth of a second a busy machine sends less than it should
    return found


@pytest.fixture
def there(found: Instance, cluster: Cluster) -> Instance:
    """The instance with leave to stop its processes."""
    return replace(found, brokers=tuple(f"{b}:8080" for b in BROKERS), settings=SETTINGS, fault=cluster.fault)


def the(name: str) -> Check:
    """A check of this theme."""
    (found,) = [check for check in CHECKS if check.id == f"failures.{name}"]
    return found


def ran(there: Instance, name: str, mutation: Mutation | None = None) -> tuple[Outcome, list[str]]:
    """The outcome of a check, broken or not."""
    return run_one(there, the(name), mutation.rules if mutation else ())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bookie_killed", ("bookie-0.x:3181 of 3 bookies killed", "1 closed ones", "20 published before read without")),
        ("bookie_fenced", ("broker-0.x stood still past its session", "broker-1.x recovered ledger 7", "so it stayed")),
        ("broker_killed", ("broker-0.x killed, broker-1.x serves its bundle", "20 published before read without it")),
        ("zookeeper_leader_killed", ("pod of zookeeper-leader of 3 servers killed: 20 topics", "2 calls refused")),
        ("zookeeper_lost", ("no ZooKeeper for ", "attempt(s) to make a topic failed", "then a topic could be made")),
        ("proxy_killed", ("of 2 killed", "all 17 publish", "32 published before read after")),
    ],
)
def test_a_cluster_that_stands_it_passes(there: Instance, cluster: Cluster, name: str, said: tuple[str, ...]) -> None:
    outcome, _used = ran(there, name)
    assert outcome.status is Status.PASSED, outcome.text
    assert [part for part in said if part not in outcome.text] == [], outcome.text
    assert "all confirmed, received and stored once, 0 delivered again; longest publish pause" in outcome.text
    paused = {line.removeprefix("pause ") for line in cluster.done if line.startswith("pause ")}
    assert {line.removeprefix("resume ") for line in cluster.done if line.startswith("resume ")} == paused
    assert cluster.gone <= {"zookeeper-leader"}


def test_who_is_killed_is_who_does_the_work(there: Instance, cluster: Cluster) -> None:
    for name in ("bookie_killed", "broker_killed", "zookeeper_leader_killed"):
        ran(there, name)
    cluster.proxies = PROXIES[::-1]
    ran(there, "proxy_killed")
    killed = [line for line in cluster.done if line.startswith("kill ")]
    assert killed[:3] == [f"kill bookie {BOOKIES[0]}", f"kill broker {BROKERS[0]}", "kill zookeeper-leader"]
    assert killed[3] in {f"kill proxy {proxy}" for proxy in PROXIES}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_what_is_broken_is_seen(
    there: Instance,
    cluster: Cluster,
    patience: Patience,
    monkeypatch: pytest.MonkeyPatch,
    mutation: Mutation,
) -> None:
    patience.seconds = SHORT
    monkeypatch.setattr(counted, "DRAIN", SHORT)
    outcome, used = ran(there, mutation.check.removeprefix("failures."), mutation)
    assert used
    assert outcome.status is Status.FAILED, outcome.text


def _set(name: str, value: object) -> Callable[[Cluster], None]:
    return lambda cluster: setattr(cluster, name, value)


@pytest.mark.parametrize(
    ("name", "broken", "said"),
    [
        ("broker_killed", _set("phantom", 1), "entries are stored, and"),
        ("bookie_fenced", _set("takes_back", True), "broker-0.x serves the topic again"),
        ("zookeeper_lost", _set("stalls", {"zookeeper"}), "messages confirmed and"),
        ("zookeeper_leader_killed", _set("forgets_topics", True), "made and not there"),
    ],
)
def test_a_cluster_that_does_not_stand_it_fails(
    there: Instance, cluster: Cluster, name: str, broken: Callable[[Cluster], None], said: str
) -> None:
    broken(cluster)
    outcome, _used = ran(there, name)
    assert outcome.status is Status.FAILED, outcome.text
    assert said in outcome.text


def test_a_producer_that_never_goes_on_fails(there: Instance, cluster: Cluster, patience: Patience) -> None:
    patience.seconds, cluster.stalls = SHORT, {BOOKIES[0]}
    outcome, _used = ran(there, "bookie_killed")
    assert outcome.status is Status.FAILED
    assert "the producer is answered and the consumer receives again" in outcome.text
    assert cluster.done[-1] == f"resume bookie {BOOKIES[0]}", "nothing is left standing still"


@pytest.mark.parametrize("name", [check.id.removeprefix("failures.") for check in CHECKS])
def test_without_leave_nothing_is_touched(there: Instance, cluster: Cluster, name: str) -> None:
    outcome, _used = ran(replace(there, fault=None), name)
    assert outcome.status is Status.SKIPPED
    assert outcome.text == "requires permission to stop processes: --fault-command says how"
    assert cluster.topics == {}


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (
            "zookeeper_lost",
            {"metadataStoreUrl": "rocksdb:/data"},
            "needs ZooKeeper, brokers have metadataStoreUrl=rock",
        ),
        ("broker_killed", {"metadataStoreSessionTimeoutMillis": "500000"}, "up to 500 s, this run waits at most 400 s"),
        ("bookie_fenced", {"metadataStoreSessionTimeoutMillis": ""}, "do not say their metadataStoreSessionTimeoutMi"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    there: Instance, cluster: Cluster, name: str, settings: dict[str, str], said: str
) -> None:
    outcome, _used = ran(replace(there, settings=SETTINGS | settings), name)
    assert outcome.status is Status.SKIPPED, outcome.text
    assert said in outcome.text
    assert cluster.done == []


@pytest.mark.parametrize(("pods", "status"), [("a, b, c", Status.PASSED), ("a, b", Status.SKIPPED)])
def test_one_address_may_stand_for_all_servers_of_zookeeper(
    there: Instance, cluster: Cluster, pods: str, status: Status
) -> None:
    """The fault command says how many there are, by an action that changes nothing where nothing stands still."""
    command = there.fault
    assert command is not None

    def fault(action: str, target: str) -> str:
        told = command(action, target)
        return pods if (action, target) == ("resume", "zookeeper") else told

    one = replace(there, settings=SETTINGS | {"metadataStoreUrl": "zk:a:2181"}, fault=fault)
    outcome, _used = ran(one, "zookeeper_leader_killed")
    assert outcome.status is status, outcome.text
    assert cluster.done[0] == "resume zookeeper"
    if status is Status.SKIPPED:
        assert outcome.text == "needs 3 ZooKeeper servers, there are 2" and len(cluster.done) == 1


def test_too_few_of_each_are_named(there: Instance, cluster: Cluster) -> None:
    cluster.bookies, cluster.proxies = BOOKIES[:2], PROXIES[:1]
    one = replace(there, brokers=there.brokers[:1])
    said = [ran(one, name)[0].text for name in ("bookie_killed", "bookie_fenced", "broker_killed", "proxy_killed")]
    assert said == [
        "needs 3 bookies, this cluster has 2",
        "needs 2 brokers, this cluster has 1",
        "needs 2 brokers, this cluster has 1",
        "needs 2 proxies, the connections of 17 clients come from 10.0.0.7",
    ]
    assert cluster.done == []


def test_such_checks_run_alone_and_last(found: Instance) -> None:
    running: list[str] = []
    seen: list[tuple[str, ...]] = []

    def run(ctx: Context) -> str:
        running.append(ctx.name)
        if ctx.name.startswith("alone"):
            seen.append(tuple(running))
        running.remove(ctx.name)
        return ""

    checks = [replace(make(f"alone.{n}", run, seconds=100), alone=True) for n in range(3)]
    ended: list[str] = []
    run_checks(
        found, [*checks, make("t.one", run), make("t.two", run)], on_outcome=lambda one: ended.append(one.check.id)
    )
    assert sorted(seen) == [(f"alone.{n}",) for n in range(3)]
    assert sorted(ended[:2]) == ["t.one", "t.two"]
    assert all(check.alone for check in CHECKS)


def test_the_fault_command_gets_action_and_target(there: Instance) -> None:
    assert fault_command(None) is None
    script = "import sys; print('pod', *sys.argv[1:], sep='|')"
    run = fault_command(f"{sys.executable} -c {shlex.quote(script)} --as={{action}} {{target}}")
    assert run is not None
    assert run("kill", "broker b.x") == "pod|--as=kill|broker b.x"
    assert Context(replace(there, fault=run), "t").fault("pause", "zookeeper") == "pod|--as=pause|zookeeper"


def test_a_fault_command_that_fails_is_an_error_with_its_words(there: Instance) -> None:
    script = "import sys; print('Traceback', 'no pod of that name', sep='\\n', file=sys.stderr); sys.exit(3)"
    outcome, _used = ran(
        replace(there, fault=fault_command(f"{sys.executable} -c {shlex.quote(script)}")), "zookeeper_lost"
    )
    assert outcome.status is Status.ERROR
    assert outcome.text.endswith("ended with 3 for resume zookeeper: no pod of that name")
