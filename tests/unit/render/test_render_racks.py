"""Racks of bookies in what is rendered: only what is other than the stock, and only for those it concerns."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.render import render_cluster, spec_problems
from tests.support.cluster.rendering import distributed, inputs

ZONE = "topology.kubernetes.io/zone"
COMPONENTS = (Component.ZOOKEEPER, Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER)


def rendered(racks: Any = None, **keeper: Any) -> dict[Component, list[dict[str, Any]]]:
    spec = distributed(bookkeeper={**keeper, **({"racks": racks} if racks else {})})
    return {component: render_cluster(inputs(spec)).of(component) for component in COMPONENTS}


def settings_of(manifests: list[dict[str, Any]]) -> dict[str, str]:
    text = next(m for m in manifests if m["kind"] == "ConfigMap")["data"]["overrides.conf"]
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def pod_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = next(m for m in manifests if m["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    return found


def test_by_ordinal_nothing_of_any_pod_changes() -> None:
    assert rendered({"byOrdinal": ["a", "b"]}) == rendered()


def test_by_label_bookies_alone_change_and_wait() -> None:
    before, after = rendered(), rendered({"topologyKey": ZONE})
    assert [c for c in COMPONENTS if before[c] != after[c]] == [Component.BOOKIE]
    pod = pod_of(after[Component.BOOKIE])
    items = [{"path": "rack", "fieldRef": {"fieldPath": "metadata.annotations['pulsaroperator.io/rack']"}}]
    assert {"name": "pod", "downwardAPI": {"items": items}} in pod["volumes"]
    container = pod["containers"][0]
    assert {"name": "pod", "mountPath": "/etc/pulsar-operator/pod", "readOnly": True} in container["volumeMounts"]
    assert {"name": "PULSAR_OPERATOR_RACK", "value": "/etc/pulsar-operator/pod/rack"} in container["env"]


@pytest.mark.parametrize(
    ("key", "pod", "wanted"),
    [
        (ZONE, {}, [ZONE]),
        ("example.com/row", {}, ["example.com/row"]),
        ("example.com/row", {"topologySpreadConstraints": []}, []),
        ("example.com/row", {"zoneSpread": "Required"}, [ZONE]),
        ("example.com/row", {"topologySpreadConstraints": [{"topologyKey": "k", "maxSkew": 2}]}, ["k"]),
    ],
)
def test_bookies_are_spread_over_the_label(key: str, pod: dict[str, Any], wanted: list[str]) -> None:
    found = pod_of(rendered({"topologyKey": key}, pod=pod)[Component.BOOKIE])["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in found] == wanted


def test_settings_are_written_where_they_are_not_the_stock_ones() -> None:
    stock = rendered({"byOrdinal": ["a", "b"], "minimum": 2})
    three = rendered({"byOrdinal": ["a", "b", "c"], "minimum": 3, "enforceMinimum": True}, replicas=3)
    names = ("bookkeeperClientMinNumRacksPerWriteQuorum", "bookkeeperClientEnforceMinNumRacksPerWriteQuorum")
    brokers = settings_of(three[Component.BROKER])
    assert [brokers[name] for name in names] == ["3", "true"]
    assert not set(names) & settings_of(stock[Component.BROKER]).keys()
    copying = settings_of(three[Component.AUTORECOVERY])
    assert copying["minNumRacksPerWriteQuorum"] == "3" and "enforceMinNumRacksPerWriteQuorum" not in copying
    assert pod_of(three[Component.BOOKIE]) == pod_of(rendered(replicas=3)[Component.BOOKIE])


RACKS = {"byOrdinal": ["a", "b"]}
PROBLEMS = [
    ({"bookkeeperClientMinNumRacksPerWriteQuorum": "2"}, {}, "is set by spec.bookkeeper.racks.minimum"),
    ({"bookkeeperClientEnforceMinNumRacksPerWriteQuorum": "true"}, {}, "racks.enforceMinimum. Remove the key"),
    (
        {"bookkeeperClientRackawarePolicyEnabled": "false"},
        {},
        "switches off the rack awareness that spec.bookkeeper.racks",
    ),
    ({"bookkeeperClientRegionawarePolicyEnabled": "true"}, {}, "requires regions before the racks"),
    ({}, {"config": {"minNumRacksPerWriteQuorum": "3"}}, "is set by racks.minimum"),
    (
        {},
        {"racks": {"topologyKey": ZONE}, "pod": {"volumes": [{"name": "pod", "emptyDir": {}}]}},
        "used by a volume of the operator if racks.topologyKey is set",
    ),
]


@pytest.mark.parametrize(("broker", "keeper", "words"), PROBLEMS)
def test_settings_that_say_something_else_are_refused(
    broker: dict[str, str], keeper: dict[str, Any], words: str
) -> None:
    spec = distributed(bookkeeper={"racks": RACKS, **keeper}, broker={"config": broker})
    (problem,) = spec_problems(spec)
    assert words in problem
    without = {name: value for name, value in keeper.items() if name != "racks"}
    assert spec_problems(distributed(bookkeeper=without, broker={"config": broker})) == [], "as before, without racks"
