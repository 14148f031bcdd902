"""Topics that are alike come out as one set, and applied it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic_set import MAX_NAMES
from pulsar_operator.domain.export import Entry, Note, Settings, with_sets
from pulsar_operator.domain.export.sets import MAX_NAMES_BYTES, _portions
from pulsar_operator.ports import Json
from tests.fakes.admin import FakeAdmin
from tests.support.export.memory import ExportPulsar, dry_run, exported, manifests, notes, plain, rebuilt, text_of

REFERENCE = ("namespaceRef", "name")
SETTINGS = Settings("prod", "a", "apps")
NAMES = ("x-1", "x-2", "Big Topic", "a%2Fb", "s\u00fc\u00df", "1e3")


@pytest.fixture
async def admin() -> FakeAdmin:
    """Six topics that are alike, three with partitions that are, and some of their own."""
    found = FakeAdmin(ExportPulsar(clusters=["a"]))
    await plain(found, "PUT", "tenants", "t", body={"adminRoles": [], "allowedClusters": ["a"]})
    await plain(found, "PUT", "namespaces", "t", "n")
    for name in (*NAMES, "granted", "used", "other"):
        await plain(found, "PUT", "persistent", "t", "n", name)
        await plain(found, "POST", "persistent", "t", "n", name, "maxProducers", body=4 if name == "other" else 3)
        await plain(found, "PUT", "persistent", "t", "n", name, "properties", body={"a/b": "c"})
    for name in ("p-1", "p-2", "p-3"):
        await plain(found, "PUT", "persistent", "t", "n", name, "partitions", body=2)
        await plain(found, "POST", "persistent", "t", "n", name, "maxConsumers", body=5, isGlobal="true")
    await plain(found, "PUT", "persistent", "t", "n", "p-4", "partitions", body=3)
    await plain(found, "PUT", "non-persistent", "t", "n", "v", "partitions", body=2)
    await plain(found, "POST", "persistent", "t", "n", "granted", "permissions", "app", body=["produce"])
    await plain(found, "PUT", "persistent", "t", "n", "used", "subscription", "s", body={"ledgerId": -1})
    return found


def by_kind(found: Any, kind: Kind) -> list[Json]:
    """Specifications in the text."""
    return [m["spec"] for m in manifests(found) if m["kind"] == kind.value]


async def test_what_is_alike_is_one_set_and_nothing_would_be_done(admin: FakeAdmin) -> None:
    found = await exported(admin, topic_sets=3)
    assert notes(found) == []
    sets = {tuple(spec["names"]): spec["template"] for spec in by_kind(found, Kind.TOPIC_SET)}
    assert sets == {
        tuple(sorted(NAMES)): {"policies": {"maxProducers": 3}, "properties": {"a/b": "c"}},
        ("p-1", "p-2", "p-3"): {"partitions": 2, "policyScope": "Global", "policies": {"maxConsumers": 5}},
    }
    assert all(spec["namespaceRef"] == {"name": "t.n"} for spec in by_kind(found, Kind.TOPIC_SET))
    assert {spec["name"] for spec in by_kind(found, Kind.TOPIC)} == {"granted", "used", "other", "p-4", "v"}
    writes = list(admin.writes)
    assert await dry_run(admin, found) == []
    assert admin.writes == writes, "a dry run writes nothing"
    assert (await rebuilt(found, "a")).state() == admin.pulsar.state()
    assert text_of(await exported(admin, topic_sets=3)) == text_of(found), "two exports of the same Pulsar differ"


async def test_a_difference_is_reported_by_the_dry_run(admin: FakeAdmin) -> None:
    """That nothing is pending says something: one topic that changed is named."""
    found = await exported(admin, topic_sets=3)
    await plain(admin, "POST", "persistent", "t", "n", "x-2", "maxProducers", body=7)
    said = await dry_run(admin, found)
    assert any("x-2" in each and "maxProducers" in each for each in said), said


async def test_fewer_stay_single_and_without_the_option_all_do(admin: FakeAdmin) -> None:
    assert [spec["names"][0] for spec in by_kind(await exported(admin, topic_sets=4), Kind.TOPIC_SET)] == ["1e3"]
    assert by_kind(await exported(admin), Kind.TOPIC_SET) == []
    without = await exported(admin, topic_sets=3, subscriptions=False)
    assert any("used" in spec["names"] for spec in by_kind(without, Kind.TOPIC_SET)), "its subscription was not read"


async def test_a_set_is_called_the_same_when_topics_come(admin: FakeAdmin) -> None:
    def called(found: Any) -> set[str]:
        return {m["metadata"]["name"] for m in manifests(found) if m["kind"] == Kind.TOPIC_SET.value}

    before = called(await exported(admin, topic_sets=3))
    await plain(admin, "PUT", "persistent", "t", "n", "p-0", "partitions", body=2)
    await plain(admin, "POST", "persistent", "t", "n", "p-0", "maxConsumers", body=5, isGlobal="true")
    assert called(await exported(admin, topic_sets=3)) == before
    assert len(before) == 2 and all(name.startswith("t.n.set-") for name in before)


def topic(name: str, noted: bool = False, **spec: Any) -> Entry:
    """An exported topic."""
    manifest = {"metadata": {"name": f"t.n.{name}"}, "spec": {"namespaceRef": {"name": "t.n"}, "name": name, **spec}}
    return Entry(Kind.TOPIC, name, manifest, (Note(name, "something", False),) if noted else ())


@pytest.mark.parametrize(
    "apart",
    [
        topic("b", noted=True),
        topic("b", subscriptions=[{"name": "s"}]),
        topic("b", permissions=[{"role": "r", "actions": ["Produce"]}]),
        topic("b", persistent=False, partitions=1),
        topic("b", replicationClusters=["a"]),
        topic("__change_events"),
        Entry(Kind.TOPIC, "b", None, (Note("b", "cannot be", False),)),
    ],
    ids=["noted", "subscriptions", "permissions", "non-persistent", "clusters", "system", "left-out"],
)
def test_what_a_set_cannot_say_stays_single(apart: Entry) -> None:
    alike = topic("a", **{k: v for k, v in (apart.manifest or {"spec": {}})["spec"].items() if k not in REFERENCE})
    assert with_sets(SETTINGS, "t", "n", [apart, alike], 2) == [apart, alike]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12000), st.integers(1, 240))
def test_sets_fit_into_an_object_and_lose_nobody(number: int, width: int) -> None:
    names = [f"{n:0{max(5, width)}}" for n in range(number)]
    found = with_sets(SETTINGS, "t", "n", [topic(name) for name in names], 1)
    specs = [entry.manifest["spec"] for entry in found if entry.manifest is not None]
    assert [name for spec in specs for name in spec["names"]] == names
    assert all(len(spec["names"]) <= MAX_NAMES for spec in specs)
    assert all(len(json.dumps(spec["names"])) <= MAX_NAMES_BYTES * 1.1 for spec in specs)
    assert len({entry.manifest["metadata"]["name"] for entry in found if entry.manifest is not None}) == len(specs)


def test_a_set_takes_as_many_names_as_fit() -> None:
    """To the byte: each name with its quotes and a comma."""
    name = "n" * 997
    full = [len(portion) for portion in _portions([name] * (MAX_NAMES_BYTES // 1000 + 1))]
    assert full == [MAX_NAMES_BYTES // 1000, 1]
    assert [len(portion) for portion in _portions(["n"] * (MAX_NAMES + 1))] == [MAX_NAMES, 1]
    assert list(_portions([])) == []
