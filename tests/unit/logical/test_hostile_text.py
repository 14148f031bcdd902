"""Hostile text through the controllers: what the API server admits reaches the in-memory Pulsar exactly, or is refused
with a message at the object, and nothing else of Pulsar changes. And the addresses that are made of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.admin_urls import build_url, display_path
from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.domain.policies import Scope
from pulsar_operator.domain.policies.entry_rows import NAMESPACE_ENTRIES, TOPIC_ENTRIES, EntryRow
from pulsar_operator.ports import AdminEndpoint, RefusedError
from tests.fakes.admin import FakeAdmin
from tests.fakes.pulsar import FakePulsar
from tests.support.contracts.entries import declared
from tests.support.contracts.policies import OTHER
from tests.support.core.recorder import CountingMetrics
from tests.support.hostile.bench import HostileBench
from tests.support.hostile.places import (
    BROKER,
    CHECKED_ELSEWHERE,
    CONTROL,
    LONE_SURROGATE,
    PLACES,
    VALUES,
    Place,
    references,
    text_places,
)
from tests.support.logical.world import LogicalWorld
from tests.support.mutations.chains import KINDS
from tests.support.mutations.changes import filled
from tests.support.policies.examples import PLACEHOLDERS
from tests.support.policies.values import entries_of
from tests.support.sampling import first

NAMES = [label for label in VALUES if VALUES[label] not in ("", ".", "..")]


def texts(value: Any) -> set[str]:
    """All text in a nested value, keys too."""
    if isinstance(value, dict):
        return {found for item in value.items() for each in item for found in texts(each)}
    if isinstance(value, list):
        return {found for each in value for found in texts(each)}
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_is_listed(kind: Kind) -> None:
    listed = {place.path for place in PLACES if place.kind is kind}
    places = set(text_places(kind))
    assert places - listed == set(), "add to PLACES of tests/support/hostile/places.py, with the form of its text"
    assert listed - places == set(), "no such field any more"
    assert CHECKED_ELSEWHERE


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.id)
def test_the_model_reads_what_is_admitted(place: Place) -> None:
    """An object in etcd that the operator cannot read would never be reconciled. Rules in CEL are the server's own."""
    taken = [text for label, text in VALUES.items() if place.form.takes(label)]
    for text in taken:
        spec = references(place.kind) | filled(place.spec(text), PLACEHOLDERS)
        read = MODELS[place.kind].spec.model_validate(spec)
        # A prefix is needed in some places.
        assert any(each.endswith(text) for each in texts(read.model_dump(mode="json", by_alias=True))), text
    assert taken or place.form == BROKER, "nothing was read"


TO_PULSAR = [place for place in PLACES if place.goes_to_pulsar]


def sample(place: Place) -> list[str]:
    """Texts of which each run of the tests takes one place to Pulsar: where each needs an object of its own (a name, or
    what is uploaded with a schema) every fourth, else every second; of the next place the next ones."""
    every = 4 if place.names_it or "schema." in place.path else 2
    found = [label for label in VALUES if place.form.takes(label)]
    return found[(TO_PULSAR.index(place) + first(every)) % every :: every] or found


@pytest.mark.parametrize("whole", [pytest.param(True, marks=pytest.mark.slow, id="each"), pytest.param(False, id="")])
@pytest.mark.parametrize("place", TO_PULSAR, ids=lambda p: p.id)
async def test_carried_exactly_or_refused_with_a_message(place: Place, whole: bool) -> None:
    bench = HostileBench(FakeAdmin(FakePulsar(clusters=["a", OTHER])), "a", "http://a:8080", pause=0, quiet=1)
    labels = [label for label in VALUES if place.form.takes(label)] if whole else sample(place)
    assert await bench.carry(place, labels) == []


def test_each_text_is_in_the_sample_of_many_places() -> None:
    taken = Counter(label for place in TO_PULSAR for label in sample(place))
    possible = Counter(label for place in TO_PULSAR for label in VALUES if place.form.takes(label))
    assert [label for label in possible if taken[label] < possible[label] // 4] == []


@pytest.mark.parametrize("label", NAMES)
def test_a_name_is_one_segment(label: str) -> None:
    """Nothing of it is syntax: what a server decodes is the name, and no other segment differs."""
    text = VALUES[label]
    raw = build_url("http://h:8080", ("persistent", "t", text, "x"), {"key": text}).raw_path_qs
    path, _, query = raw.partition("?")
    assert [unquote(each) for each in path.split("/")[3:]] == ["persistent", "t", text, "x"]
    assert parse_qsl(query, keep_blank_values=True) == [("key", text)]
    assert raw.isascii() and raw.isprintable() and " " not in raw


@pytest.mark.parametrize("segment", ["", ".", "..", LONE_SURROGATE])
@pytest.mark.parametrize("place", range(3))
def test_path_syntax_and_what_utf8_cannot_have_is_refused_unsent(segment: str, place: int) -> None:
    path = ["namespaces", "t", "n"]
    path[place] = segment
    with pytest.raises(RefusedError) as refused:
        build_url("http://h:8080", path)
    assert str(refused.value).isascii()


IN_THE_PATH = {
    (Scope.NAMESPACE, "permissions"): {"POST", "DELETE"},
    (Scope.NAMESPACE, "subscriptionPermissions"): {"POST", "DELETE"},
    (Scope.NAMESPACE, "properties"): {"DELETE"},
    (Scope.TOPIC, "permissions"): {"POST", "DELETE"},
    (Scope.TOPIC, "properties"): set[str](),
}
"""Calls of each list of entries that have the key as a segment; the others have it in the body or in the query."""


@pytest.mark.parametrize("key", ["", ".", ".."])
@pytest.mark.parametrize("row", [*NAMESPACE_ENTRIES, *TOPIC_ENTRIES], ids=lambda row: f"{row.scope}-{row.field}")
def test_an_entry_whose_key_is_path_syntax_is_refused_unsent(row: EntryRow, key: str) -> None:
    """The models refuse them as well; see the admission rules."""
    base = ("namespaces", "t", "n") if row.scope is Scope.NAMESPACE else ("persistent", "t", "n", "x")
    value = next(iter(declared(row, entries_of(row)).values()))
    calls = [call for _, call in row.set_calls(base, {key: value})] + list(row.remove_calls(base, key, value))
    refused: set[str] = set()
    for call in calls:
        try:
            build_url("http://h:8080", call.path, call.query)
        except RefusedError:
            refused.add(call.method)
    assert refused == IN_THE_PATH[row.scope, row.field]
    assert refused == {call.method for call in calls if key in call.path[len(base) :]}


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_call_with_path_syntax_sends_nothing(name: str) -> None:
    """Proxies would rewrite it, encoded or not. The adapter counts whatever it sends, and the fake what it gets."""
    metrics, fake = CountingMetrics(), FakeAdmin()
    for port in (AiohttpAdmin(metrics), fake):
        with pytest.raises(RefusedError):
            await port.call(AdminEndpoint("a", "http://127.0.0.1:1"), "DELETE", ("namespaces", "t", name))
    assert (metrics.calls, fake.calls) == ([], [])


def test_half_a_surrogate_pair_is_refused_in_a_query() -> None:
    with pytest.raises(RefusedError):
        build_url("http://h:8080", ("tenants",), {"key": LONE_SURROGATE})


@pytest.mark.parametrize("label", [*CONTROL, "up", "right-to-left", "line-separator"])
def test_a_path_in_a_message_is_one_line(label: str) -> None:
    shown = display_path(("tenants", VALUES[label], LONE_SURROGATE))
    assert shown.isascii() and shown.isprintable()


@pytest.mark.parametrize("list_", ["properties", "permissions"])
async def test_an_entry_of_others_that_no_address_can_have_is_reported(list_: str) -> None:
    """An exact list takes back what others set; here Pulsar has what cannot be written in an address."""
    world = LogicalWorld()
    world.tenant()
    world.namespace(prune={list_: True})
    await world.run()
    policies: Any = world.pulsar.namespaces["t/n"]
    held = policies["properties"] if list_ == "properties" else policies["auth_policies"]["namespace_auth"]
    held[LONE_SURROGATE] = "x" if list_ == "properties" else ["produce"]
    await world.run()
    said = json.dumps(world.status(Kind.NAMESPACE, "n"))
    assert "\\ud800" in said and "cannot be" in said
