"""balance/planner/bundle_placement.py: when a move would put namespaces of an anti-affinity group closer together."""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.balance.model.cluster import Bundle, BundleId, ClusterModel
from pulsar_operator.balance.planner.bundle_placement import Placement
from tests.support.balancing.planning import cluster

A, B, C = "a:8080", "b:8080", "c:8080"


def conflicts(owners: list[tuple[str, str | None]], destination: str, **more: object) -> bool:
    """Of the first bundle; each is of a namespace and at a broker."""
    model: ClusterModel = replace(cluster({A: [], B: [], C: []}), anti_affinity=dict.fromkeys(["t/x", "t/y"], "g"))
    bundles = tuple(Bundle(BundleId(ns, n << 20, (n + 1) << 20), 1.0, owner) for n, (ns, owner) in enumerate(owners))
    placement = Placement(replace(model, bundles=bundles, **more))  # type: ignore[arg-type]
    first = next(n for n, each in enumerate(placement.bundles) if each.id == bundles[0].id)
    return placement.conflicts(first, placement.number[destination])


def test_a_broker_without_any_of_the_group_is_always_free() -> None:
    """Also for one of several bundles, and for one that nobody serves."""
    assert not conflicts([("t/x", A), ("t/x", A), ("t/y", C)], B)
    assert not conflicts([("t/x", None), ("t/y", C)], B)


def test_a_broker_that_has_the_namespace_already_is_free() -> None:
    assert not conflicts([("t/x", A), ("t/x", B), ("t/y", B)], B)


def test_another_namespace_of_the_group_is_met_only_where_it_was_met_before() -> None:
    assert conflicts([("t/x", A), ("t/y", B)], B)
    assert not conflicts([("t/x", A), ("t/y", A), ("t/y", B)], B), "as close as they were"
    assert conflicts([("t/x", A), ("t/x", A), ("t/y", A), ("t/y", B)], B), "the other bundle stays with it"
    assert conflicts([("t/x", None), ("t/y", B)], B)


def test_namespaces_outside_of_groups_may_go_anywhere() -> None:
    assert not conflicts([("t/x", A), ("t/y", B)], B, anti_affinity={"t/x": "g", "t/y": "other"})
    assert not conflicts([("t/x", A), ("t/y", B)], B, anti_affinity={})
