"""Names for people: shorter, and never the same for two things."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.names import fitted, short_brokers, short_topics, shortened

TAIL = "east-broker-headless.pulsar.svc.cluster.local:8080"


@pytest.mark.parametrize(
    ("brokers", "short"),
    [
        ([f"east-broker-{n}.{TAIL}" for n in range(3)], ["east-broker-0", "east-broker-1", "east-broker-2"]),
        ([f"east-broker-0.{TAIL}"], ["east-broker-0"]),
        (["b-0.a.svc:8080", "b-0.z.svc:8080"], ["b-0.a", "b-0.z"]),
        (["10.0.0.7:8080", "10.1.0.7:8080"], ["10.0.0.7", "10.1.0.7"]),
        (["10.0.0.7:8080"], ["10.0.0.7"]),
        (["[fe80::1]:8080", "[fe80::2]:8080"], ["[fe80::1]", "[fe80::2]"]),
        (["localhost:8080", "localhost:8081"], ["localhost:8080", "localhost:8081"]),
        (["a:8080", "b:8080"], ["a", "b"]),
        (["a", "b"], ["a", "b"]),
        (["x.svc:8080", "a.x.svc:8080"], ["x", "a.x"]),
        ([], []),
    ],
)
def test_brokers(brokers: list[str], short: list[str]) -> None:
    assert [short_brokers(brokers)[each] for each in brokers] == short


@pytest.mark.parametrize(
    ("topics", "short"),
    [
        (["persistent://shop/orders/a-partition-1", "persistent://shop/orders/b"], ["a-partition-1", "b"]),
        (["persistent://shop/orders/a", "persistent://shop/carts/a"], ["orders/a", "carts/a"]),
        (["persistent://shop/orders/a", "non-persistent://shop/orders/a"], None),
        (["persistent://shop/orders/a"], ["a"]),
        ([], []),
    ],
)
def test_topics(topics: list[str], short: list[str] | None) -> None:
    assert [short_topics(topics)[each] for each in topics] == (topics if short is None else short)


@pytest.mark.parametrize(
    ("names", "most", "found"),
    [
        (["short"], 10, ["short"]),
        (["a-very-long-name-1", "a-very-long-name-2"], 10, ["a-v…name-1", "a-v…name-2"]),
        (["first-of-all-the-same", "other-of-all-the-same"], 10, ["fir…e-same", "oth…e-same"]),
        (["same-x-in-the-middle", "same-y-in-the-middle"], 10, ["same-x…the-middle", "same-y…the-middle"]),
    ],
)
def test_long_names_are_cut_in_the_middle(names: list[str], most: int, found: list[str]) -> None:
    assert fitted(names, most) == found


@pytest.mark.parametrize(
    ("text", "others", "found"),
    [
        (f"move a/b from b-0.{TAIL} to b-1.{TAIL}", [], "move a/b from b-0 to b-1"),
        (
            f"move a/b from no broker to b-1.{TAIL} (it was at b-2.{TAIL}).",
            [],
            "move a/b from no broker to b-1 (it was at b-2).",
        ),
        ("move a/b from no broker to b-1.x.svc:80", ["b-1.y.svc:80"], "move a/b from no broker to b-1.x"),
        (f"GET http://b-0.{TAIL}/admin said no", [], f"GET http://b-0.{TAIL}/admin said no"),
        ("move a/b from 10.0.0.7:8080 to 10.0.0.8:8080", [], "move a/b from 10.0.0.7 to 10.0.0.8"),
        ("split shop/orders/0x00000000_0x40000000 at 0x20000000", [], None),
        ("a load of 3.0:1 at 10:30", [], None),
    ],
)
def test_sentences_name_brokers_shortly(text: str, others: list[str], found: str | None) -> None:
    assert shortened(text, others) == (text if found is None else found)


LABEL = st.text("ab0-", min_size=1, max_size=4)
BROKER = st.builds("{}:{}".format, st.lists(LABEL, min_size=1, max_size=4).map(".".join), st.sampled_from((1, 2)))
TOPIC = st.lists(LABEL, min_size=1, max_size=4).map(lambda parts: "persistent://" + "/".join(parts))


@given(st.lists(BROKER, max_size=6))
def test_different_brokers_stay_different(brokers: list[str]) -> None:
    found = short_brokers(brokers)
    assert set(found) == set(brokers)
    assert len(set(found.values())) == len(found)
    assert all(each and long.startswith(each.partition(":")[0]) for long, each in found.items())
    assert found == short_brokers(reversed(brokers))


@given(st.lists(TOPIC, max_size=6), st.integers(4, 12))
def test_different_topics_stay_different(topics: list[str], most: int) -> None:
    short = short_topics(topics)
    assert len(set(short.values())) == len(short) == len(set(topics))
    assert all(long.endswith(each) for long, each in short.items())
    names = list(short.values())
    cut = fitted(names, most)
    assert len(set(cut)) == len(set(names))
    assert all(len(new) <= len(old) for new, old in zip(cut, names, strict=True))
