"""When the checks of splitting and of isolation are skipped, and what their mutations change; no Pulsar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.context import Instance
from pulsar_conformance.model import Status
from pulsar_conformance.runner import run_one
from pulsar_conformance.tamper import Tamper

BROKERS = ("a.b:8080", "c.d:8080")
SPLITS = {
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "loadBalancerEnabled": "true",
    "loadBalancerAutoBundleSplitEnabled": "true",
    "loadBalancerAutoUnloadSplitBundlesEnabled": "true",
    "loadBalancerDistributeBundlesEvenlyEnabled": "true",
    "loadBalancerNamespaceBundleMaxTopics": "1000",
    "loadBalancerNamespaceBundleMaxMsgRate": "30000",
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": "100",
}


@pytest.mark.parametrize(
    ("name", "brokers", "settings", "said"),
    [
        ("rebalancing.split_by_topics", 1, {}, "needs 2 brokers, this cluster has 1"),
        ("rebalancing.split_by_topics", 2, {}, "MaxTopics=1000: this check goes over 100 topics at most"),
        ("rebalancing.split_by_rate", 2, {}, "MaxMsgRate=30000: this check goes over 300 messages a second at most"),
        ("rebalancing.split_by_bandwidth", 2, {}, "MaxBandwidthMbytes=100: this check goes over 1 MB/s at most"),
        ("rebalancing.split_by_rate", 2, {"loadManagerClassName": "x.Other"}, "this needs ModularLoadManagerImpl"),
        (
            "rebalancing.split_by_rate",
            2,
            {"loadBalancerAutoUnloadSplitBundlesEnabled": "false"},
            "loadBalancerAutoUnloadSplitBundlesEnabled=false: set it to true in broker.conf",
        ),
        ("isolation.primary", 1, {}, "needs 2 brokers, this cluster has 1"),
    ],
)
def test_what_is_missing_is_said(found: Instance, name: str, brokers: int, settings: dict[str, str], said: str) -> None:
    (check,) = [check for check in all_checks() if check.id == name]
    there = replace(found, brokers=BROKERS[:brokers], settings=SPLITS | settings)
    outcome, _used = run_one(there, check)
    assert (outcome.status, said in outcome.text) == (Status.SKIPPED, True), outcome.text


def tampered(name: str) -> Tamper:
    """With the rules of a mutation."""
    (found,) = [one for one in all_mutations() if one.id == name]
    return Tamper(found.rules)


def test_a_mutation_gives_a_bundle_one_topic() -> None:
    tamper = tampered("rebalancing.split_by_topics/few")
    subscribes, makes = ([rule] for rule in tamper.rules)
    made: list[Any] = []
    tamper.call(subscribes, made.append, ["persistent://t/n-0/a", "persistent://t/n-0/b"])
    for topic in ("persistent://t/n-0/a", "persistent://t/n-0/b", "persistent://t/n-1/a", "persistent://t/n-1/b"):
        tamper.call(makes, made.append, topic)
    assert made == ["persistent://t/n-0/a", *["persistent://t/n-0/a"] * 2, *["persistent://t/n-1/a"] * 2]


def test_a_mutation_answers_look_ups_of_a_namespace_as_the_first() -> None:
    tamper = tampered("rebalancing.split_by_topics/stays")
    paths = ("lookup/v2/topic/persistent/t/n-0/a", "lookup/v2/topic/persistent/t/n-0/b", "namespaces/t/n-0/bundles")
    assert [tamper.call(tamper.rules, lambda _method, path: path, "GET", path) for path in paths] == [
        paths[0],
        paths[0],
        paths[2],
    ]
