"""The table of what is done to a bookie that leaves: a row for each member of Act that changes something."""

from __future__ import annotations

from pulsar_operator.controllers.dataplane.decommission.decommission_actions import ACTIONS
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act


def test_each_act_that_changes_something_has_an_action() -> None:
    assert set(ACTIONS) == set(Act) - {Act.NOTHING, Act.ASK, Act.SCAN}


def test_what_nobody_can_take_back_is_looked_at_once_more() -> None:
    assert {act for act, action in ACTIONS.items() if action.final_check} == {Act.LOWER, Act.DISCARD, Act.REPLACE}
    assert {act for act, action in ACTIONS.items() if action.ends_pod} == {Act.DISCARD, Act.REPLACE}
