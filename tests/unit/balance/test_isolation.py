"""balance/model/isolation.py: which brokers may serve which namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.balance.model.isolation import allowed_brokers, host_of, matches, shared_brokers

BROKERS = [f"b-{number}.h:8080" for number in range(5)]


def policy(namespaces: list[str], primary: list[str], secondary: list[str] | None = None, least: Any = 1) -> Any:
    failover = {"policy_type": "min_available", "parameters": {"min_limit": least, "usage_threshold": "80"}}
    return {
        "namespaces": namespaces,
        "primary": primary,
        "secondary": secondary or [],
        "auto_failover_policy": failover,
    }


def served(policies: dict[str, Any], *namespaces: str) -> dict[str, list[int]]:
    """Numbers of the brokers by namespace."""
    found = allowed_brokers(namespaces, BROKERS, policies)
    return {name: sorted(BROKERS.index(each) for each in brokers) for name, brokers in found.items()}


def test_a_namespace_is_held_by_the_policy_that_names_it() -> None:
    policies = {"one": policy(["shop/.*"], ["b-0.*"]), "two": policy(["bank/x", "bank/y"], ["b-1.*", "b-2.*"])}
    assert served(policies, "shop/a", "bank/y", "bank/z") == {"shop/a": [0], "bank/y": [1, 2], "bank/z": [3, 4]}


def test_the_first_of_two_policies_counts() -> None:
    policies = {"one": policy(["shop/.*"], ["b-0.*"]), "two": policy(["shop/a"], ["b-1.*"])}
    assert served(policies, "shop/a") == {"shop/a": [0]}


@pytest.mark.parametrize(("least", "brokers"), [("1", [0]), (2, [0, 3]), (None, [0])])
def test_secondary_brokers_help_while_there_are_too_few_primary_ones(least: Any, brokers: list[int]) -> None:
    """Two that may be served by one each are one too few for ``min_limit`` 2; broker 9 is not there."""
    assert served({"p": policy(["shop/.*"], ["b-0.*", "b-9.*"], ["b-3.*"], least)}, "shop/a") == {"shop/a": brokers}


def test_without_a_failover_policy_the_primary_brokers_are_alone() -> None:
    bare = {"namespaces": ["shop/.*"], "primary": ["b-0.*"], "secondary": ["b-3.*"]}
    assert served({"p": bare}, "shop/a") == {"shop/a": [0]}
    assert served({"p": {"namespaces": ["shop/.*"]}}, "shop/a", "bank/a") == {"shop/a": []}


def test_a_namespace_that_any_broker_may_serve_is_absent() -> None:
    assert served({}, "shop/a") == {}
    assert served({"p": policy(["shop/.*"], [".*"])}, "shop/a", "bank/a") == {"bank/a": []}


def test_brokers_are_shared_that_no_policy_has_for_primary() -> None:
    policies = {"one": policy(["shop/.*"], ["b-0.*"], ["b-3.*"]), "two": policy(["bank/.*"], ["b-1.*"])}
    assert shared_brokers(BROKERS, policies) == {BROKERS[2], BROKERS[3], BROKERS[4]}
    assert shared_brokers(BROKERS, {}) == set(BROKERS)


def test_an_expression_covers_the_whole_host_without_its_port() -> None:
    assert host_of("b-0.h:8080") == "b-0.h" and host_of("b-0.h") == "b-0.h"
    assert matches(["b-0"], "b-0") and not matches(["b-0"], "b-0.h") and not matches(["0.h"], "b-0.h")
    assert matches(["x", "b-.*"], "b-0.h") and not matches([], "b-0.h")
    assert matches(["(", "b-.*"], "b-0.h") and not matches(["("], "(")
