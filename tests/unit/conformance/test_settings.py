"""Which checks run with which broker settings: nothing is left out, and what is set is what is asked for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from e2e.support.threebrokers import YOUNG
from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.context import Context, Instance
from pulsar_conformance.model import Check, CheckSkipped, Status
from pulsar_conformance.runner import run_one
from pulsar_conformance.settings import (
    CONFIGURED,
    DEFAULTS_ONLY,
    IN_FORCE,
    INTERVALS,
    LONG,
    MAX_MESSAGE_SIZE,
    SETTINGS,
    at_defaults,
    configured,
    long_ones,
    merged,
    names,
    not_in_force,
)
from pulsar_conformance.waiting import MARGIN, Interval
from pulsar_operator.api.constants import Component
from pulsar_operator.domain.render.reserved import RESERVED
from tests.support.checks import make

CHECKS = all_checks()


def ids(checks: list[Check]) -> set[str]:
    """Their ids."""
    return {check.id for check in checks}


def test_every_check_is_in_one_of_the_two_runs() -> None:
    assert ids(at_defaults(CHECKS)) | ids(configured(CHECKS)) == ids(CHECKS)


def test_what_waits_for_intervals_runs_where_they_are_short_and_only_there() -> None:
    assert ids(CHECKS) - ids(at_defaults(CHECKS)) == set(INTERVALS)
    assert set(INTERVALS) <= ids(configured(CHECKS))


def test_what_the_settings_replace_runs_at_defaults_only() -> None:
    assert not set(DEFAULTS_ONLY) & ids(configured(CHECKS))
    assert set(DEFAULTS_ONLY) <= ids(at_defaults(CHECKS))
    assert set(DEFAULTS_ONLY.values()) <= set(SETTINGS)


@pytest.mark.parametrize("table", [INTERVALS, CONFIGURED, DEFAULTS_ONLY, LONG], ids=("waits", "needs", "only", "long"))
def test_tables_name_checks_that_exist(table: Mapping[str, object]) -> None:
    assert [name for name in table if not any(names([name], check) for check in CHECKS)] == []


def test_every_long_check_waits_for_an_interval_or_says_why_it_is_long() -> None:
    assert ids(long_ones(CHECKS)) == set(INTERVALS) | set(LONG)


def test_a_name_with_a_dot_at_its_end_names_a_theme() -> None:
    one, other = make("size.largest", lambda _ctx: ""), make("sizes.largest", lambda _ctx: "")
    assert names(["size."], one) and names(["size.largest"], one)
    assert not names(["size."], other) and not names(["size"], one) and not names(["size.l"], one)


def test_what_is_declared_is_no_key_of_the_operator_s() -> None:
    assert not set(SETTINGS) & set(RESERVED[Component.BROKER])
    assert {**SETTINGS, "maxMessageSize": str(MAX_MESSAGE_SIZE)} == IN_FORCE
    assert set(IN_FORCE) - set(SETTINGS) <= set(RESERVED[Component.BROKER])


def test_two_values_of_one_setting_are_refused() -> None:
    assert merged([{"a": "1"}, {"a": "1", "b": "2"}]) == {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match="a: 1 and 2 conflict"):
        merged([{"a": "1"}, {"a": "2"}])


def test_settings_that_are_not_in_force_are_named() -> None:
    assert not_in_force({**IN_FORCE, "another": "1"}) == []
    other = {**IN_FORCE, "backlogQuotaCheckIntervalInSeconds": "60"}
    del other["maxMessageSize"]
    assert not_in_force(other) == [
        "backlogQuotaCheckIntervalInSeconds is 60, not 2",
        f"maxMessageSize is not there, not {MAX_MESSAGE_SIZE}",
    ]


# --- waiting as long as the broker's setting says


def test_waits_follow_the_interval() -> None:
    assert [(found.within, found.every) for found in (Interval(2), Interval(10), Interval(60), Interval(300))] == [
        (2 + MARGIN, 0.2),
        (10 + MARGIN, 0.5),
        (60 + MARGIN, 1.0),
        (300 + MARGIN, 1.0),
    ]


def test_an_interval_is_the_broker_s_own(found: Instance) -> None:
    ctx = Context(found, "t.interval")
    assert ctx.interval("number") == Interval(12)
    assert ctx.interval("number", unit=10) == Interval(120)


def test_no_interval_or_a_long_one_is_a_skip(found: Instance) -> None:
    found.settings = {**found.settings, "never": "0"}
    ctx = Context(found, "t.interval")
    for name in ("never", "absent"):
        with pytest.raises(CheckSkipped, match=f"brokers have {name}=.*: they never do it automatically"):
            ctx.interval(name)
    with pytest.raises(CheckSkipped, match="number=12: up to 760 s, this run waits at most 400 s"):
        ctx.interval("number", unit=60)


@pytest.mark.parametrize("name", sorted(INTERVALS))
def test_checks_wait_for_the_setting_that_is_made_short(found: Instance, name: str) -> None:
    (setting,) = INTERVALS[name]
    found.settings = {setting: "100000", "backlogQuotaCheckEnabled": "true"}
    (check,) = [check for check in CHECKS if check.id == name]
    outcome, _used = run_one(found, check)
    seconds = 100_000 * (60 if setting.endswith("InMinutes") else 1) + MARGIN
    assert (outcome.status, outcome.text) == (
        Status.SKIPPED,
        f"{setting}=100000: up to {seconds:.0f} s, this run waits at most 400 s",
    )


def test_what_waits_for_intervals_can_fail_too() -> None:
    assert set(INTERVALS) <= {mutation.check for mutation in all_mutations()}


def test_the_brokers_of_the_end_to_end_tests_have_every_setting() -> None:
    """test_rolls declares both, and the last one would win."""
    assert {name: SETTINGS[name] for name in SETTINGS.keys() & YOUNG.keys()} == {
        name: YOUNG[name] for name in SETTINGS.keys() & YOUNG.keys()
    }
