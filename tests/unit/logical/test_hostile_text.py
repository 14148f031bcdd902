"""Hostile text through the controllers: what the API server admits reaches the in-memory Pulsar exactly, or is refused
with a message at the object, and nothing else of Pulsar changes. And the addresses that are made of it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from pulsar_operator.adapters.admin import build_url, display_path
from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.ports import RefusedError
from tests.fakes.admin import FakeAdmin
from tests.fakes.pulsar import FakePulsar
from tests.support.hostile import (
    CHECKED_ELSEWHERE,
    CONTROL,
    LONE_SURROGATE,
    PLACES,
    VALUES,
    Place,
    references,
    text_places,
)
from tests.support.hostile_bench import HostileBench
from tests.support.logical import World
from tests.support.mutation_chains import KINDS
from tests.support.mutations import filled
from tests.support.policy_contract import OTHER
from tests.support.policy_examples import PLACEHOLDERS

NAMES = [label for label in VALUES if VALUES[label] not in ("", ".", "..")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_is_listed(kind: Kind) -> None:
    listed = {place.path for place in PLACES if place.kind is kind}
    places = set(text_places(kind))
    assert places - listed == set(), "add a Place to PLACES of tests/support/hostile.py, with the form of its text"
    assert listed - places == set(), "no such field any more"
    assert CHECKED_ELSEWHERE


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.id)
def test_the_model_reads_what_is_admitted(place: Place) -> None:
    """An object in etcd that the operator cannot read would never be reconciled. Rules in CEL are the server's own."""
    for label, text in VALUES.items():
        if place.form.takes(label):
            spec = references(place.kind) | filled(place.spec(text), PLACEHOLDERS)
            MODELS[place.kind].spec.model_validate(spec)


@pytest.mark.parametrize("place", [place for place in PLACES if place.goes_to_pulsar], ids=lambda p: p.id)
async def test_carried_exactly_or_refused_with_a_message(place: Place) -> None:
    bench = HostileBench(FakeAdmin(FakePulsar(clusters=["a", OTHER])), "a", "http://a:8080", pause=0)
    assert await bench.carry(place, [label for label in VALUES if place.form.takes(label)]) == []


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


def test_half_a_surrogate_pair_is_refused_in_a_query() -> None:
    with pytest.raises(RefusedError):
        build_url("http://h:8080", ("tenants",), {"key": LONE_SURROGATE})


@pytest.mark.parametrize("label", [*CONTROL, "up", "right-to-left", "line-separator"])
def test_a_path_in_a_message_is_one_line(label: str) -> None:
    shown = display_path(("tenants", VALUES[label], LONE_SURROGATE))
    assert shown.isascii() and shown.isprintable()


@pytest.mark.parametrize("list_", ["properties", "permissions"])
async def test_an_entry_of_others_that_no_address_can_have_is_told(list_: str) -> None:
    """An exact list takes back what others set; here Pulsar has what cannot be written in an address."""
    world = World()
    world.tenant()
    world.namespace(exact={list_: True})
    await world.run()
    policies: Any = world.pulsar.namespaces["t/n"]
    held = policies["properties"] if list_ == "properties" else policies["auth_policies"]["namespace_auth"]
    held[LONE_SURROGATE] = "x" if list_ == "properties" else ["produce"]
    await world.run()
    said = json.dumps(world.status(Kind.NAMESPACE, "n"))
    assert "\\ud800" in said and "cannot be" in said
