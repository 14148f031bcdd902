"""balance/model/isolation.py: which brokers may serve which namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.balance.model.isolation import host_of, isolation_of, shared_brokers, unevaluated_in

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
    found = isolation_of(namespaces, BROKERS, policies)
    assert not found.undecided
    return {name: sorted(BROKERS.index(each) for each in brokers) for name, brokers in found.allowed.items()}


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


def test_the_host_is_without_the_port() -> None:
    assert host_of("b-0.h:8080") == "b-0.h" and host_of("b-0.h") == "b-0.h"


HANGS = "([a-z0-9.-]+)+!"
"""Python's own engine needs 2^n steps for a text of n characters."""
LOOKS_AHEAD = "(?!bank/).*"


def undecided(policies: dict[str, Any], *namespaces: str) -> set[str]:
    """Namespaces of which nothing is known; none of them is said to be bound to brokers."""
    found = isolation_of(namespaces, BROKERS, policies)
    assert not found.undecided & set(found.allowed)
    return set(found.undecided)


def test_an_expression_that_backtracks_is_evaluated() -> None:
    policies = {"p": policy([HANGS], [HANGS]), "q": policy(["shop/.*"], ["b-0.*"])}
    assert served(policies, "shop/" + "a" * 200, "a" * 200 + "!") == {
        "shop/" + "a" * 200: [0],
        "a" * 200 + "!": [],
    }


def test_what_a_policy_may_cover_is_undecided() -> None:
    odd = policy([LOOKS_AHEAD], ["b-1.*"])
    assert undecided({"p": odd}, "shop/a", "bank/a") == {"shop/a", "bank/a"}
    assert undecided({"a": policy(["shop/.*"], ["b-0.*"]), "p": odd}, "shop/a", "bank/a") == {"bank/a"}
    assert undecided({"p": policy(["shop/.*", LOOKS_AHEAD], ["b-1.*"])}, "shop/a", "bank/a") == {"bank/a"}


def test_brokers_that_are_not_known_leave_the_namespaces_of_the_policy_and_those_outside_undecided() -> None:
    odd = policy(["shop/.*"], ["(?=b-0).*"])
    assert undecided({"p": odd, "q": policy(["bank/.*"], ["b-1.*"])}, "shop/a", "bank/a", "x/y") == {"shop/a", "x/y"}
    assert shared_brokers(BROKERS, {"p": odd}) is None
    everything = policy(["bank/.*"], [".*"])
    assert undecided({"p": odd, "q": everything}, "shop/a", "bank/a", "x/y") == {"shop/a"}, "none is shared anyhow"
    assert shared_brokers(BROKERS, {"p": odd, "q": everything}) == frozenset()
    second = policy(["shop/.*"], ["b-0.*"], ["(?=b-3).*"], 2)
    assert undecided({"p": second}, "shop/a", "x/y") == {"shop/a"}, "secondary brokers serve nobody else"
    assert undecided({"p": policy(["shop/.*"], ["b-0.*"], ["(?=b-3).*"], 1)}, "shop/a") == set(), "they are not needed"


@pytest.mark.parametrize("least", ["x", "-1", "9" * 5000, [], "1.5", "\u0661"])
def test_a_limit_that_is_no_number_leaves_the_policy_undecided(least: Any) -> None:
    found = undecided({"p": policy(["shop/.*"], ["b-0.*"], ["b-3.*"], least)}, "shop/a", "x/y")
    assert found == ({"shop/a"} if least != [] else set())


@pytest.mark.parametrize("broken", [None, "x", [], {"namespaces": "shop/.*"}, {"namespaces": [1], "primary": ["a"]}])
def test_a_policy_that_cannot_be_read_leaves_all_that_it_may_cover_undecided(broken: Any) -> None:
    assert undecided({"a": policy(["shop/.*"], [".*"]), "p": broken}, "shop/a", "x/y") == {"x/y"}
    assert unevaluated_in({"p": broken})["p"]


def test_expressions_that_cannot_be_evaluated_are_named_by_policy() -> None:
    policies = {"p": policy(["a/.*", LOOKS_AHEAD], ["(a)\\1"], [LOOKS_AHEAD]), "q": policy([HANGS], ["b-.*"])}
    assert unevaluated_in(policies) == {"p": [LOOKS_AHEAD, "(a)\\1"]}
