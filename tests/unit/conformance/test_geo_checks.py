"""The checks of geo against clusters in memory, two of one instance and one of another.

They pass, say what is missing, and see what is broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pulsar
import pytest

from pulsar_conformance import context
from pulsar_conformance.admin import Admin
from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.checks import foreign, geo
from pulsar_conformance.context import Context, Instance, Remote
from pulsar_conformance.kit import counted
from pulsar_conformance.kit import geo as kit
from pulsar_conformance.model import Check, Outcome, Status, is_slot
from pulsar_conformance.runner import run_one
from pulsar_conformance.tamper import Mutation
from pulsar_conformance.waiting import eventually
from tests.fakes import replicating_clusters as fake

CHECKS = [check for check in all_checks() if check.theme == "geo" and not is_slot(check)]
MUTATIONS = [mutation for mutation in all_mutations() if mutation.check.startswith("geo.")]
SETTINGS = {
    "clusterName": "east",
    "metadataStoreUrl": "zk:a:2181,b:2181/east",
    "configurationMetadataStoreUrl": "zk:shared:2181",
    "metadataStoreSessionTimeoutMillis": "200",
}
FAULTS = ("remote_down", "configstore_outage")


class Patience:
    """How long is waited at most: long where all comes right, so that a slow machine is no failure."""

    seconds = 30.0


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Patience:
    """Waits of checks, cut short."""
    found, receive, drain = Patience(), Context.receive, Context.drain

    def hasty(probe: Callable[[], Any], what: str, *, within: float = 20, every: float = 0.2) -> Any:
        return eventually(probe, what, within=min(within, found.seconds), every=0.01)

    def eager(self: Context, consumer: Any, count: int, *, within: float = 20, ack: bool = True) -> list[Any]:
        return receive(self, consumer, count, within=min(within, found.seconds), ack=ack)

    def impatient(self: Context, consumer: Any, *, within: float = 30, **options: Any) -> list[Any]:
        return drain(self, consumer, within=min(within, found.seconds), **options)

    monkeypatch.setattr(context, "eventually", hasty)
    monkeypatch.setattr(Context, "receive", eager)
    monkeypatch.setattr(Context, "drain", impatient)
    return found


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, patience: Patience) -> fake.Instance:
    """Two clusters of one instance, and one of another, in memory behind admin REST and the client library."""
    found = fake.Instance()
    of = {fake.HERE: found, fake.THERE: found, fake.FOREIGN: fake.Instance(fake.FOREIGN)}
    monkeypatch.setattr(
        Admin, "_call", lambda self, *args, **query: of[fake.ADMIN[self.url]].call(self.url, *args, **query)
    )
    monkeypatch.setattr(pulsar, "Client", lambda url, **_options: fake.Client(of[fake.SERVICE[url]], url))
    monkeypatch.setattr(counted, "RATE", 500)
    monkeypatch.setattr(geo, "RATE", 20)
    monkeypatch.setattr(geo, "QUIET", 0.01)
    monkeypatch.setattr(foreign, "QUIET", 0.01)
    monkeypatch.setattr(geo, "LONGER", 0.2)
    return found


@pytest.fixture
def there(found: Instance, clusters: fake.Instance) -> Instance:
    """The instance with another cluster, one of another instance, and leave to stop processes."""
    here, other = fake.HERE, fake.THERE
    remote, abroad = (
        Remote(f"pulsar://{name}:6650", f"http://{name}:8080", {**SETTINGS, "clusterName": name})
        for name in (other, fake.FOREIGN)
    )
    urls = {"service_url": f"pulsar://{here}:6650", "admin_url": f"http://{here}:8080"}
    known = {"clusters": (here, other), "settings": SETTINGS, "remote": remote, "foreign": abroad}
    return replace(found, **urls, **known, fault=clusters.fault)


def the(name: str) -> Check:
    """A check of this theme."""
    (found,) = [check for check in CHECKS if check.id == f"geo.{name}"]
    return found


def ran(there: Instance, name: str, mutation: Mutation | None = None) -> tuple[Outcome, list[str]]:
    """The outcome of a check, broken or not."""
    return run_one(there, the(name), mutation.rules if mutation else ())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("replication", ("20 messages of east and 20 of west received in both",)),
        ("selective", ("of 5 messages west received the 3 for it, east all", "refused there (Namespace missing")),
        ("replicated_subscription", ("of 9 messages acknowledged 2 come again in west, then all 20",)),
        ("foreign_cluster", ("east and north list only their own", "10 messages each, received where")),
        ("shared_policies", ("a tenant, a TTL and 2 partitions of east seen in west",)),
        ("remote_down", ("west without brokers for", "messages waited here", "received and stored once")),
        ("configstore_outage", ("(a separate store) for", "attempt(s) to make a topic failed", "could be made")),
    ],
)
def test_clusters_that_stand_it_pass(there: Instance, name: str, said: tuple[str, ...]) -> None:
    outcome, _used = ran(there, name)
    assert outcome.status is Status.PASSED, outcome.text
    assert [part for part in said if part not in outcome.text] == [], outcome.text


def test_a_cluster_of_its_own_instance_is_not_foreign(there: Instance) -> None:
    outcome, _used = ran(replace(there, foreign=there.remote), "foreign_cluster")
    assert outcome.status is Status.FAILED
    assert outcome.text == "the instance of east lists ['east', 'west']"


def test_who_is_stopped_goes_on_in_the_end(there: Instance, clusters: fake.Instance) -> None:
    for name, target in zip(FAULTS, (kit.REMOTE_BROKERS, kit.STORE), strict=True):
        clusters.done.clear()
        ran(there, name)
        assert {line.partition(" ")[2] for line in clusters.done} == {target}
        assert clusters.done[-1] == f"resume {target}"
    assert not clusters.gone


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_what_is_broken_is_seen(
    there: Instance, patience: Patience, monkeypatch: pytest.MonkeyPatch, mutation: Mutation
) -> None:
    patience.seconds = 1.0
    monkeypatch.setattr(counted, "DRAIN", 1.0)
    monkeypatch.setattr(kit, "CONNECTS", 1.0)
    outcome, used = ran(there, mutation.check.removeprefix("geo."), mutation)
    assert used
    assert outcome.status is Status.FAILED, outcome.text


def _set(name: str, value: object) -> Callable[[fake.Instance], None]:
    return lambda clusters: setattr(clusters, name, value)


@pytest.mark.parametrize(
    ("name", "broken", "said"),
    [
        ("replication", _set("stores_twice", {b"m7"}), "of 20 messages of east west received"),
        ("remote_down", _set("forgets", True), "confirmed messages were not received"),
        ("configstore_outage", _set("needs_store", True), "messages received in the other cluster in"),
    ],
)
def test_clusters_that_do_not_stand_it_fail(
    there: Instance,
    clusters: fake.Instance,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    broken: Callable[[fake.Instance], None],
    said: str,
) -> None:
    monkeypatch.setattr(counted, "DRAIN", 1.0)
    monkeypatch.setattr(geo, "RATE", 500)  # what was on its way a moment ago is less than that
    broken(clusters)
    outcome, _used = ran(there, name)
    assert outcome.status is Status.FAILED, outcome.text
    assert said in outcome.text


@pytest.mark.parametrize("name", [check.id.removeprefix("geo.") for check in CHECKS])
def test_a_single_cluster_skips(there: Instance, clusters: fake.Instance, name: str) -> None:
    outcome, _used = ran(replace(there, remote=None, foreign=None), name)
    assert outcome.status is Status.SKIPPED
    foreign = name == "foreign_cluster"
    needs = ("a cluster of another instance", "foreign") if foreign else ("another cluster of its instance", "remote")
    assert outcome.text.startswith(f"needs {needs[0]}: --{needs[1]}-service-url")
    assert clusters.policies == {}


@pytest.mark.parametrize("name", FAULTS)
def test_without_leave_nothing_is_touched(there: Instance, clusters: fake.Instance, name: str) -> None:
    outcome, _used = ran(replace(there, fault=None), name)
    assert outcome.status is Status.SKIPPED
    assert outcome.text == "requires permission to stop processes: --fault-command says how"
    assert clusters.policies == {}


@pytest.mark.parametrize("store", ["zk:a:2181,b:2181/shared", "zk:a:2181,b:2181"])
def test_a_store_that_is_a_cluster_s_own_is_away_for_less_than_a_session(
    there: Instance, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """However long a busy machine takes to let it go on: how long it is to be away is what the check asks for."""
    asked: list[float] = []
    none_made = geo.none_made

    def timed(ctx: Context, path: str, end: float, body: Any = None) -> int:
        asked.append(end - time.monotonic())
        return none_made(ctx, path, end, body)

    monkeypatch.setattr(geo, "none_made", timed)
    outcome, _used = ran(
        replace(there, settings=SETTINGS | {"configurationMetadataStoreUrl": store}), "configstore_outage"
    )
    assert outcome.status is Status.PASSED, outcome.text
    assert "(a cluster's metadata store) for " in outcome.text
    half = int(SETTINGS["metadataStoreSessionTimeoutMillis"]) / 2000
    assert [seconds for seconds in asked if seconds > half] == [] and len(asked) == 1


def test_topics_that_both_have_are_left_to_the_removal_of_their_namespace(
    there: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied: list[str] = []
    monkeypatch.setattr(context, "remove_topics", lambda _admin, namespaces: emptied.extend(namespaces) or [])
    ran(there, "selective")
    assert [name.rpartition("-")[2] for name in emptied] == ["1"], "the namespace of one cluster"
    assert [name.rpartition("-")[2] for name in there.left] == ["0", "1"]
