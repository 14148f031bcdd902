"""Which topics a set has, and which have left it."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.api.v1alpha1.topic_set import OwnedTopics, PulsarTopicSetSpec, TopicTemplate
from pulsar_operator.domain.logical.topic_set import (
    Duplicate,
    Selection,
    contested,
    declared_fields,
    digests_of,
    owned_now,
    owned_with,
    rivals_of,
    some,
    taken_by,
    template_hash,
    topic_spec,
    who_left,
)


def spec(**fields: Any) -> PulsarTopicSetSpec:
    return PulsarTopicSetSpec.model_validate({"namespaceRef": {"name": "n"}, "template": {}, **fields})


def counted(number: int, *, first: int = 0, prefix: str = "x-", policy: str = "Delete") -> Selection:
    return Selection(
        spec(count={"prefix": prefix, "first": first, "number": number}, deletionPolicy=policy),
    )


LEFT_OUT = {
    "namespaceRef": "a field of the set itself",
    "name": "said by the selection",
    "deletionPolicy": "a field of the set itself",
    "driftPolicy": "a field of the set itself",
    "replicationClusters": "not for many at once: a cluster that is left out may lose its data",
    "persistent": "a set has persistent topics: others are gone when nobody uses them",
    "permissions": "Pulsar keeps them in one entry of the namespace, which has room for some thousands",
    "subscriptions": "one more question for each topic; clients make them",
    "compaction": "each topic would need a status of its own; policies.compactionThreshold needs none",
    "prune": "it is about permissions and about properties others add",
}
"""Fields of a PulsarTopic that a template does not have, and why."""


def named(*names: str, policy: str = "Delete") -> Selection:
    return Selection(spec(names=list(names), deletionPolicy=policy))


def test_every_field_of_a_topic_is_in_the_template_or_left_out_with_a_reason() -> None:
    """A field that PulsarTopic gets fails here by name, until somebody decides."""
    of_topic = {info.alias or name for name, info in PulsarTopicSpec.model_fields.items()}
    of_template = {info.alias or name for name, info in TopicTemplate.model_fields.items()}
    assert of_topic == of_template | set(LEFT_OUT)
    assert not of_template & set(LEFT_OUT)


def test_the_whole_template_reaches_the_topic() -> None:
    template = {
        "partitions": 3,
        "policies": {"messageTTLSeconds": 5},
        "policyScope": "Global",
        "properties": {"k": "v"},
        "schema": {"type": "String"},
    }
    assert set(template) == {info.alias or name for name, info in TopicTemplate.model_fields.items()}
    made = topic_spec(spec(names=["a"], template=template, driftPolicy="Report"))
    dumped = made.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert {name: dumped[name] for name in template} == template
    assert dumped["driftPolicy"] == "Report"
    assert dumped["deletionPolicy"] == "Retain", "a topic of a set is never deleted by its own rules"


@pytest.mark.parametrize(("found", "partitions"), [(None, None), (0, None), (4, 4)])
def test_a_topic_that_was_found_keeps_its_partitions(found: int | None, partitions: int | None) -> None:
    assert topic_spec(spec(patterns=["*"]), found).partitions == partitions


def test_fields_that_are_managed_are_known_before_the_first_topic() -> None:
    template = {"partitions": 2, "policies": {"messageTTLSeconds": 5}, "properties": {"k": "v"}}
    made = declared_fields(spec(names=["a"], template=template), "4.0.8")
    assert made == {"partitions", "policies.messageTTLSeconds", "properties[k]"}


def test_a_template_has_a_hash_of_its_own() -> None:
    one, other = (spec(names=["a"], template={"policies": {"maxProducers": n}}) for n in (1, 2))
    again = spec(names=["a", "b"], driftPolicy="Report", template={"policies": {"maxProducers": 1}})
    assert template_hash(one) == template_hash(again) != template_hash(other)


@given(first=st.integers(0, 1200), number=st.integers(0, 150), at=st.integers(0, 1500))
def test_numbers(first: int, number: int, at: int) -> None:
    chosen = counted(number, first=first)
    assert (f"x-{at}" in chosen) == (f"x-{at}" in set(chosen.names)) == (first <= at < first + number)


@pytest.mark.parametrize("name", ["x-", "x-01", "x--1", "x-1 ", "x-٣", "y-1", "X-1", "x-1-p", f"x-{10**12}"])
def test_what_is_no_number_is_no_topic_of_the_set(name: str) -> None:
    assert name not in counted(1000)


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        (["a*"], "abc", True),
        (["a*"], "ba", False),
        (["a?"], "ab", True),
        (["a?"], "abc", False),
        (["a", "b*"], "b", True),
        (["[ab]1"], "b1", True),
        (["a.c"], "abc", False),
        (["*"], "with\nline", True),
        (["(a+)+"], "aaa", False),
    ],
)
def test_patterns(patterns: list[str], name: str, matches: bool) -> None:
    assert (name in Selection(spec(patterns=patterns))) is matches


def test_no_pattern_takes_without_end() -> None:
    hostile = Selection(spec(patterns=["a*" * 100 + "b"]))
    begin = time.process_time()
    assert "a" * 250 not in hostile
    assert time.process_time() - begin < 5, "a search that explodes would not end at all"


# --------------------------------------------------------------------------------------------------------- who left


def test_a_smaller_number_leaves() -> None:
    left = who_left(counted(3), OwnedTopics(number=8))
    assert (left.number, left.of) == (5, 8)
    assert [n for n in range(12) if left.has(f"x-{n}")] == [3, 4, 5, 6, 7]
    assert not left.has("y-4")


def test_a_name_leaves() -> None:
    owned = owned_with(named("a", "b", "c"), None)
    left = who_left(named("b", "d"), owned)
    assert (left.number, left.of) == (2, 3)
    assert [name for name in ("a", "b", "c", "d", "e") if left.has(name)] == ["a", "c"]


@pytest.mark.parametrize("selection", [counted(0), named()])
@pytest.mark.parametrize("owned", [None, OwnedTopics()])
def test_without_a_record_nothing_leaves(selection: Selection, owned: OwnedTopics | None) -> None:
    left = who_left(selection, owned, all_of_them=True)
    assert left.number == 0
    assert not left.has("x-0")


def test_a_record_that_cannot_be_read_is_nobodys() -> None:
    assert digests_of(OwnedTopics(digests="not base64!")) == frozenset()


@pytest.mark.parametrize(("before", "now", "many"), [(10, 0, False), (11, 0, True), (99, 88, True), (999, 900, False)])
def test_many_at_once(before: int, now: int, many: bool) -> None:
    assert who_left(counted(now), OwnedTopics(number=before)).many is many


def test_the_record_only_grows_until_everything_that_left_is_gone() -> None:
    assert owned_with(counted(3), OwnedTopics(number=8)) == OwnedTopics(number=8)
    assert owned_with(counted(9), OwnedTopics(number=8)) == OwnedTopics(number=9)
    assert owned_now(counted(3), OwnedTopics(number=9)) == OwnedTopics(number=3)
    assert owned_now(counted(3), OwnedTopics(number=9), ["x-5"]) == OwnedTopics(number=6)
    assert owned_now(counted(3), OwnedTopics(number=2)) == OwnedTopics(number=2), "it never grows here"
    both = owned_with(named("b"), owned_with(named("a"), None))
    assert both == owned_with(named("a", "b"), None)
    both = owned_with(named("a", "b"), None)
    assert both is not None and owned_now(named("b", "c"), both) == owned_with(named("b"), None)
    assert owned_now(named("b"), both, ["a"]) == both


def test_with_retain_nothing_is_recorded() -> None:
    assert owned_with(counted(3, policy="Retain"), OwnedTopics(number=8)) is None
    assert owned_with(named("a", policy="Retain"), None) is None


def test_the_record_of_the_most_names_fits() -> None:
    owned = owned_with(named(*(f"{'n' * 200}{n}" for n in range(5000))), None)
    assert owned is not None and owned.digests is not None
    assert len(base64.b64decode(owned.digests)) == 40_000
    assert OwnedTopics.model_validate(owned.model_dump()) == owned


def test_all_of_a_set_that_is_deleted() -> None:
    left = who_left(counted(3), OwnedTopics(number=5), all_of_them=True)
    assert left.number == 5
    assert left.has("x-0") and left.has("x-4") and not left.has("x-5")
    left = who_left(named("a"), owned_with(named("a", "b"), None), all_of_them=True)
    assert left.has("a") and left.has("b") and not left.has("c")


OLD, YOUNG = Duplicate("2025", "1", "apps/old"), Duplicate("2027", "3", "apps/young")
MINE = Duplicate("2026", "2", "apps/s")
BY_RECORD = "PulsarTopicSet apps/young, which the record in Pulsar names,"
BY_AGE = "PulsarTopicSet apps/old, which is older,"


def patterned(*patterns: str) -> Selection:
    return Selection(spec(patterns=list(patterns)))


@pytest.mark.parametrize(
    ("mine", "others", "recorded", "taken"),
    [
        # The topic does not exist.
        (named("a"), {OLD: named("a")}, {}, BY_AGE),
        (named("a"), {YOUNG: named("a")}, {}, None),
        (named("a"), {OLD: patterned("*")}, {}, None),
        # It exists.
        (named("a"), {OLD: named("a")}, {"a": ""}, BY_AGE),
        (named("a"), {YOUNG: named("a")}, {"a": ""}, None),
        (named("a"), {OLD: patterned("*")}, {"a": ""}, BY_AGE),
        (named("a"), {OLD: named("a"), YOUNG: named("a")}, {"a": "apps/young"}, BY_RECORD),
        (named("a"), {YOUNG: patterned("*")}, {"a": "apps/young"}, BY_RECORD),
        (named("a"), {OLD: named("a")}, {"a": "apps/s"}, None),
        (named("a"), {OLD: patterned("*")}, {"a": "apps/s"}, None),
        (patterned("*"), {OLD: named("a")}, {"a": "apps/s"}, None),
        (named("a"), {OLD: named("a")}, {"a": "apps/gone"}, BY_AGE),
        (named("a"), {YOUNG: named("a")}, {"a": "apps/gone"}, None),
        (named("a"), {YOUNG: named("b")}, {"a": "apps/young"}, None),
        (named("a"), {YOUNG: named("a")}, {"a": None}, "It is not known whether this set or PulsarTopicSet apps/young"),
    ],
)
def test_who_has_a_topic(
    mine: Selection, others: dict[Duplicate, Selection], recorded: dict[str, str | None], taken: str | None
) -> None:
    rivals = rivals_of(MINE, others.items())
    found = dict(taken_by(["a", "c"], {"c": "apps/own"}, rivals, own=MINE.text, recorded=recorded))
    assert found == {"c": "PulsarTopic apps/own"} | ({"a": taken} if taken else {})
    assert contested(["a", "c"], {"c"}, rivals) == ["a" for selection in others.values() if "a" in selection][:1]
    assert "a" in mine
    assert Duplicate("2025", "9", "z") < Duplicate("2026", "1", "a") < Duplicate("2026", "2", "a")


def test_a_few_names() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some([str(n) for n in range(100)]) == "0, 1, 2 and 97 more"


@pytest.mark.parametrize("text", ["AAAAAAAA!AAA=", "no base64", "AAAAAAAAAAA"])
def test_a_record_that_cannot_be_read_names_nobody(text: str) -> None:
    """Whoever is named there is deleted when it left: what was damaged on the way must not name others."""
    assert digests_of(OwnedTopics(digests=text)) == frozenset()
    assert digests_of(OwnedTopics(digests="AAAAAAAAAAA=")) == {bytes(8)}
