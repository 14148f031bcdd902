"""What the checks of load over several brokers work out themselves, and when they are skipped; no Pulsar."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import pytest

from pulsar_conformance.admin import Admin, AdminError
from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.commands import scale_command
from pulsar_conformance.context import Context, Instance
from pulsar_conformance.kit.brokers import names_in
from pulsar_conformance.model import Check, CheckSkipped, Status
from pulsar_conformance.runner import run_one
from pulsar_conformance.tamper import Tamper, drop

BROKERS = ("a.b:8080", "c.d:8080", "e.f:8080")
SHEDDING = {
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder",
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerBundleUnloadMinThroughputThreshold": "0.0",
    "loadBalancerHistoryResourcePercentage": "0.0",
    "loadBalancerBandwidthInResourceWeight": "500.0",
    "loadBalancerBrokerThresholdShedderPercentage": "10",
    "loadBalancerSheddingIntervalMinutes": "1",
}

OVERLOADED = SHEDDING | {
    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder",
    "loadBalancerBrokerOverloadedThresholdPercentage": "85",
}
EXTENSIBLE = SHEDDING | {
    "loadManagerClassName": "x.ExtensibleLoadManagerImpl",
    "loadBalancerLoadSheddingStrategy": "x.TransferShedder",
    "loadBalancerSheddingConditionHitCountThreshold": "0",
}


def the(name: str) -> Check:
    """A check of this theme."""
    (found,) = [check for check in all_checks() if check.id == f"rebalancing.{name}"]
    return found


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Admin REST that knows a load report and refuses the rest; what was asked for."""
    asked: list[str] = []

    def call(_self: Admin, method: str, path: str, _body: Any = None, **_query: Any) -> Any:
        asked.append(f"{method} {path}")
        if path == "broker-stats/load-report":
            return {"bandwidthIn": {"usage": 5.0, "limit": 10_000_000.0}}
        raise AdminError(404, f"{method} {path}", "past what it needs")

    monkeypatch.setattr(Admin, "_call", call)
    return asked


@pytest.mark.parametrize(
    ("name", "brokers", "settings", "said"),
    [
        ("even_bundles", 1, {}, "needs 2 brokers, this cluster has 1"),
        ("even_bundles", 2, {"loadBalancerDistributeBundlesEvenlyEnabled": "false"}, "set it to true in broker.conf"),
        ("worked_example", 2, {}, "needs 3 brokers, this cluster has 2"),
        ("split_by_threshold", 1, {}, "needs 2 brokers"),
        ("split_by_threshold", 2, {"loadBalancerEnabled": "false"}, "brokers have loadBalancerEnabled=false"),
        (
            "split_by_threshold",
            2,
            {
                "loadBalancerEnabled": "true",
                "loadBalancerAutoBundleSplitEnabled": "true",
                "loadBalancerNamespaceBundleMaxSessions": "1201",
            },
            "MaxSessions=1201: this check opens at most 1200",
        ),
        ("scale_out", 1, {}, "requires permission to change the number of brokers: --scale-command says how"),
        ("shedding", 1, SHEDDING, "needs 2 brokers"),
        ("shedding", 2, SHEDDING | {"loadBalancerSheddingEnabled": "false"}, "this needs true"),
        ("shedding", 2, SHEDDING | {"loadManagerClassName": "x.ExtensibleLoadManagerImpl"}, "ModularLoadManagerImpl"),
        (
            "shedding",
            2,
            SHEDDING | {"loadBalancerBundleUnloadMinThroughputThreshold": "10.0"},
            "MinThroughputThreshold=10.0 MB/s, more than is to be shed",
        ),
        ("shedding", 2, SHEDDING | {"loadBalancerHistoryResourcePercentage": "0.9"}, "HistoryResourcePercentage=0.9"),
        (
            "shedding",
            2,
            SHEDDING | {"loadBalancerBandwidthInResourceWeight": "1.0"},
            "1 MB/s are 0.08 % of a broker's network card",
        ),
        ("shedding", 3, SHEDDING | {"loadBalancerBandwidthInResourceWeight": "281"}, "raise the weight dynamically"),
        ("shedding_overloaded", 2, SHEDDING, "this needs OverloadShedder"),
        ("shedding_overloaded", 2, OVERLOADED, "1 MB/s are 0.08 % of a broker's network card, the threshold is 85 %"),
        ("shedding_extensible", 2, SHEDDING, "this needs ExtensibleLoadManagerImpl"),
        ("shedding_extensible", 2, EXTENSIBLE | {"loadBalancerHistoryResourcePercentage": "0.9"}, "Percentage=0.9"),
    ],
)
def test_what_is_missing_is_said(
    found: Instance, no_namespaces: list[str], name: str, brokers: int, settings: dict[str, str], said: str
) -> None:
    there = replace(found, brokers=BROKERS[:brokers], settings=settings)
    outcome, _used = run_one(there, the(name))
    assert outcome.status is Status.SKIPPED, outcome.text
    assert said in outcome.text


@pytest.mark.parametrize(
    ("name", "settings"), [("shedding", SHEDDING), ("shedding_extensible", EXTENSIBLE), ("worked_example", {})]
)
def test_with_what_is_needed_it_begins(
    found: Instance, no_namespaces: list[str], name: str, settings: dict[str, str]
) -> None:
    there = replace(found, brokers=BROKERS, settings=settings)
    outcome, _used = run_one(there, the(name))
    assert outcome.status is Status.ERROR
    assert "past what it needs" in outcome.text
    assert any(asked.startswith("PUT namespaces/tenant/abc123-rebalancing-") for asked in no_namespaces)


def test_names_fall_into_their_ranges() -> None:
    ranges = [(0, 1 << 28), (1 << 31, 1 << 32), (1 << 28, 1 << 29)]
    names = names_in("t/n", ranges)
    assert [lower <= zlib.crc32(n.encode()) < upper for n, (lower, upper) in zip(names, ranges, strict=True)] == [
        True,
        True,
        True,
    ]


def test_a_mutation_keeps_a_bundle_at_its_first_destination() -> None:
    (kept,) = [one for one in all_mutations() if one.id == "rebalancing.worked_example/kept"]
    tamper = Tamper(kept.rules)
    made: list[tuple[str, str]] = []

    def call(_method: str, path: str, **query: str) -> None:
        made.append((path, query.get("destinationBroker", "")))

    for path, destination in (("n/1/unload", "a"), ("n/1/unload", "a"), ("n/1/unload", "b"), ("n/2/unload", "b")):
        tamper.call(kept.rules, call, "PUT", path, destinationBroker=destination)
    tamper.call(kept.rules, call, "PUT", "n/1/split")
    assert made == [("n/1/unload", "a"), ("n/1/unload", "a"), ("n/2/unload", "b"), ("n/1/split", "")]
    assert tamper.used == ["admin.call"]


def test_brokers_are_asked_for_where_there_is_leave(found: Instance) -> None:
    asked: list[int] = []
    with pytest.raises(CheckSkipped, match="--scale-command"):
        Context(found, "t.scale").scale(2)
    there = replace(found, scale=asked.append)
    Context(there, "t.scale").scale(2)
    Context(there, "t.scale", Tamper((drop("brokers", "scale"),))).scale(3)
    assert asked == [2]


def test_the_scale_command_gets_the_number(tmp_path: Any) -> None:
    assert scale_command(None) is None
    scale = scale_command(f"touch '{tmp_path}/brokers {{}}' --")
    assert scale is not None
    scale(4)
    assert [file.name for file in tmp_path.iterdir()] == ["brokers 4"]
