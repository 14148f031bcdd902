"""Names of exported objects: fit for Kubernetes, the same every time, one for each name in Pulsar."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.export import is_system_namespace, is_system_tenant, object_name
from pulsar_operator.domain.logical.pulsar_names import is_partition_of, is_system_topic, split_partition

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""As Kubernetes checks names of custom resources (validation.IsDNS1123Subdomain)."""

PARTS = st.one_of(
    st.sampled_from(["a", "a-b", "A", "a_b", "a.b", "süß", "a%2Fb", "", "-", "x" * 65536, "a b", "\ud800", "\n", "0"]),
    st.text(max_size=20),
    st.from_regex(r"[a-z0-9.-]{1,8}", fullmatch=True),
)
NAMES = st.tuples(st.lists(PARTS, min_size=1, max_size=3), st.booleans()).map(
    lambda found: (tuple(found[0]), found[1] if len(found[0]) == 3 else True)
)


@given(NAMES, NAMES)
def test_two_names_never_meet_within_a_kind(
    one: tuple[tuple[str, ...], bool], two: tuple[tuple[str, ...], bool]
) -> None:
    first, second = (object_name(*parts, persistent=persistent) for parts, persistent in (one, two))
    assert SUBDOMAIN.fullmatch(first) and len(first) <= 240
    if len(one[0]) == len(two[0]):
        assert (first == second) == (one == two)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("shop",), "shop"),
        (("shop", "orders"), "shop.orders"),
        (("shop", "orders", "clicks"), "shop.orders.clicks"),
        (("Shop",), "shop.3a9d4b1d2f5e"),
        (("a.b", "c"), "a-b.c."),
        (("a", "b.c"), "a.b-c."),
        (("t", "n", "é"), "t.n.x."),
    ],
)
def test_names_stay_as_they_are(parts: tuple[str, ...], name: str) -> None:
    found = object_name(*parts)
    if name.count(".") + 1 == len(parts):
        assert found == name
    else:
        assert re.fullmatch(re.escape(name.rpartition(".")[0]) + r"\.[0-9a-f]{12}", found)
    assert object_name(*parts) == found


def test_partitions_are_recognised_as_pulsar_does() -> None:
    assert split_partition("a-partition-0") == ("a", 0)
    assert split_partition("a-partition-12") == ("a", 12)
    assert split_partition("a-partition-1-partition-2") == ("a-partition-1", 2)
    for name in ("a", "-partition-0", "a-partition-", "a-partition-01", "a-partition-x", "a-partition-" + "9" * 30):
        assert split_partition(name) is None
        assert not is_partition_of(f"persistent://t/n/{name}", "persistent://t/n/a")
    assert is_partition_of("persistent://t/n/a-partition-12", "persistent://t/n/a")
    assert not is_partition_of("persistent://t/n/a-partition-1-partition-2", "persistent://t/n/a")


def test_what_brokers_made() -> None:
    assert is_system_tenant("pulsar") and not is_system_tenant("public")
    assert is_system_namespace("pulsar/10.0.0.1:8080") and is_system_namespace("public/functions")
    assert not is_system_namespace("public/default")
    for topic in (
        "__change_events",
        "__change_events-partition-0",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_segments-partition-3",
        "orders-sub__transaction_pending_ack",
    ):
        assert is_system_topic(topic)
    for topic in ("orders", "orders-billing-RETRY", "orders-billing-DLQ", "healthcheck", "my__change_events"):
        assert not is_system_topic(topic)
