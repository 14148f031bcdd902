"""What brokers can carry, from the CPU of their pods and from what is declared."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.balance.model.capacity import capacities_of, cpu_of

BROKERS = [f"east-broker-{n}.east-broker-headless.ns.svc.cluster.local:8080" for n in range(3)]


def pod(number: int, **resources: dict[str, str]) -> dict[str, Any]:
    containers = [
        {"name": "sidecar", "resources": {"limits": {"cpu": "9"}}},
        {"name": "broker", "resources": resources},
    ]
    return {"metadata": {"name": f"east-broker-{number}"}, "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("resources", "cpu"),
    [
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}}, 2.0),
        ({"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m"}}, 0.5),
        ({"requests": {"cpu": "1500m"}}, 1.5),
        ({"limits": {"cpu": "0"}, "requests": {"cpu": "1"}}, 1.0),
        ({"limits": {"cpu": "many"}}, None),
        ({}, None),
    ],
)
def test_the_limit_counts_else_the_request(resources: dict[str, dict[str, str]], cpu: float | None) -> None:
    assert cpu_of(pod(0, **resources)) == cpu


def test_capacities_are_one_on_average() -> None:
    pods = [pod(n, limits={"cpu": text}) for n, text in enumerate(("500m", "1", "1500m"))]
    assert capacities_of(BROKERS, pods) == pytest.approx(dict(zip(BROKERS, (0.5, 1.0, 1.5), strict=True)))


@pytest.mark.parametrize("cpus", [("1", "1", "1"), ("1", "2", None), (None, None, None)])
def test_equal_or_unknown_ones_are_told_apart_by_nothing(cpus: tuple[str | None, ...]) -> None:
    pods = [pod(n, limits={"cpu": text}) if text else pod(n) for n, text in enumerate(cpus)]
    assert capacities_of(BROKERS, pods) == {}


def test_a_broker_whose_pod_is_not_known_leaves_all_equal() -> None:
    assert capacities_of(BROKERS, [pod(0, limits={"cpu": "1"}), pod(1, limits={"cpu": "2"})]) == {}
    assert capacities_of([], []) == {}


def test_what_is_declared_wins() -> None:
    pods = [pod(n, limits={"cpu": "1"}) for n in range(3)]
    declared = {"east-broker-2": "4", "east-broker-1": "0", "east-broker-0": "x", "another": "7"}
    assert capacities_of(BROKERS, pods, declared) == pytest.approx(dict(zip(BROKERS, (0.5, 0.5, 2.0), strict=True)))
    assert capacities_of(BROKERS, [], {f"east-broker-{n}": str(n + 1) for n in range(3)}) != {}


@pytest.mark.parametrize(
    ("broker", "name"),
    [
        ("10.0.0.7:8080", "10.0.0.7"),
        ("10.0.0.7:8080", "10.0.0.7:8080"),
        ("broker:8080", "broker"),
        ("broker", "broker"),
        ("[fe80::1]:8080", "[fe80::1]"),
        (BROKERS[0], "east-broker-0"),
    ],
)
def test_a_broker_is_declared_by_its_pod_its_host_or_its_id(broker: str, name: str) -> None:
    assert capacities_of([broker, "other:8080"], [], {name: "3", "other": "1"}) == {broker: 1.5, "other:8080": 0.5}
