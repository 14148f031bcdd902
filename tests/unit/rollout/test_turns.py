"""Whose turn it is to get the newest pod template: tables, and what must hold of any of them."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_TEMPLATE, Component, Reason
from pulsar_operator.domain.apply import manifest_hash
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.objects.absent_pods import Absence
from pulsar_operator.domain.dataplane.objects.template_record import Kept, Stop, TemplateRecord
from pulsar_operator.domain.dataplane.rollout.facts import RollOrder, component_state
from pulsar_operator.domain.dataplane.rollout.progress import down
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder, Tier, template_order
from tests.support.cluster.stateful_sets import pod, stateful_set, template

Json = dict[str, Any]
OLD, NEW = template("pulsar:1"), template("pulsar:2")
OLD_HASH, NEW_HASH = manifest_hash(OLD), manifest_hash(NEW)
ZK, BOOKIE, BROKER, PROXY = Component.ZOOKEEPER, Component.BOOKIE, Component.BROKER, Component.PROXY
WINDOW = Blocker(Reason.MAINTENANCE_WINDOW, "The window is closed")
SOMEBODY = Blocker(Reason.PENDING, "Somebody is awaited")


def tier(
    component: Component,
    *,
    changed: bool = True,
    pods: list[Json] | None = None,
    record: TemplateRecord | None = None,
    annotated: bool = True,
    exists: bool = True,
) -> Tier:
    """A component whose workload has the old template, or, not ``changed``, the newest; ``pods`` are three ready ones
    unless told: keyword arguments of ``pod``."""
    name = f"my-{component.value}"
    rendered = {"metadata": {"name": name}, "spec": {"template": copy.deepcopy(NEW)}}
    if not exists:
        return Tier(component, rendered, TemplateRecord())
    applied = OLD if changed else NEW
    live = stateful_set(name, pod_template=copy.deepcopy(applied))
    if annotated:
        live["metadata"]["annotations"] = {ANNOTATION_TEMPLATE: manifest_hash(applied)}
    found = [pod(f"{name}-{i}", **each) for i, each in enumerate([{}, {}, {}] if pods is None else pods)]
    kept = record if record is not None else TemplateRecord({OLD_HASH: Kept(OLD, "1")}, OLD_HASH)
    return Tier(component, rendered, kept, live, component_state(component, live, found))


def given(found: TemplateOrder) -> dict[Component, str | None]:
    names = {OLD_HASH: "old", NEW_HASH: "new", None: None}
    return {component: names[turn.template] for component, turn in found.of.items()}


BROKEN, AWAY = {"ready": False, "was_ready": False}, {"ready": False}
OOM = {"ready": False, "was_ready": False, "once_ready": True, "restarts": 1}
"""Ran out of memory, and is not ready again yet."""
BEFORE = {"revision": "r0"}
"""Of the revision before."""
OLDER = template("pulsar:0")
NEVER = TemplateRecord()
PROVEN = TemplateRecord({OLD_HASH: Kept(OLD, "1")}, OLD_HASH)
UNPROVEN = TemplateRecord({OLD_HASH: Kept(OLD, "1")})
MIDWAY = TemplateRecord({OLD_HASH: Kept(OLD, "1"), manifest_hash(OLDER): Kept(OLDER, "0")}, manifest_hash(OLDER))
"""The template that the workload has is on its way, and never ran in all pods."""
SEEN = replace(MIDWAY, ready=OLD_HASH)
"""A pod was ready with it."""
ROWS: list[tuple[str, list[Json], TemplateRecord, str | None]] = [
    ("all ran out of memory", [OOM, OOM, OOM], UNPROVEN, "old"),
    ("all ran out of memory, and it is proven", [OOM, OOM, OOM], PROVEN, "old"),
    ("all were evicted at once, and it is proven", [BROKEN, BROKEN, BROKEN], PROVEN, "old"),
    ("the only pod was evicted, and it is proven", [BROKEN], PROVEN, "old"),
    ("all lost their nodes, and it is proven", [AWAY, AWAY, AWAY], PROVEN, "old"),
    ("on its way, all ran out of memory", [OOM, OOM, OOM], MIDWAY, "old"),
    ("on its way, those before ran out of memory", [OOM | BEFORE, OOM | BEFORE, BEFORE], MIDWAY, "old"),
    ("just applied, and those before are new in their containers", [BROKEN | BEFORE] * 3, MIDWAY, "old"),
    ("on its way, one was evicted and others run it", [BROKEN, {}, {}], MIDWAY, "old"),
    ("on its way, one was evicted and one ran it before", [BROKEN, OOM, BEFORE], MIDWAY, "old"),
    ("on its way, all were evicted after one had run it", [BROKEN, BROKEN, BROKEN], SEEN, "old"),
    ("on its way, and its first pod never was ready", [BROKEN, BEFORE, BEFORE], MIDWAY, "new"),
    ("on its way, none of three ever was ready", [BROKEN, BROKEN, BROKEN], MIDWAY, "new"),
    ("a first start where nothing runs", [BROKEN, BROKEN, BROKEN], UNPROVEN, "new"),
    ("a first start where one never was ready", [BROKEN, {}, {}], UNPROVEN, "new"),
    ("no pod is there, on a first start", [], UNPROVEN, "new"),
    ("no pod is there, and it is proven", [], PROVEN, "old"),
    ("the record is lost", [BROKEN, BROKEN, BROKEN], NEVER, None),
]


@pytest.mark.parametrize(("pods", "record", "wanted"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
@pytest.mark.parametrize("held", ["window", "order"])
def test_only_a_broken_template_is_corrected_out_of_turn(
    pods: list[Json], record: TemplateRecord, wanted: str | None, held: str
) -> None:
    """In a closed window, and while ZooKeeper before it has its turn still to come."""
    mine = tier(BROKER, pods=pods, record=record)
    if held == "window":
        assert given(template_order([mine], blocker=WINDOW))[BROKER] == wanted
        return
    serves = any(each.get("ready", True) for each in pods)
    assert given(template_order([tier(ZK), mine]))[BROKER] == ("old" if serves and wanted == "new" else wanted)


CASES: list[tuple[str, list[Tier], Blocker | None, dict[Component, str | None]]] = [
    (
        "the first in the order",
        [tier(ZK), tier(BOOKIE), tier(BROKER)],
        None,
        {ZK: "new", BOOKIE: "old", BROKER: "old"},
    ),
    (
        "the next once it is done",
        [tier(ZK, changed=False), tier(BOOKIE), tier(BROKER)],
        None,
        {ZK: "new", BOOKIE: "new", BROKER: "old"},
    ),
    (
        "not while the one before has outdated pods",
        [tier(ZK, changed=False, pods=[{"revision": "r0"}, {}, {}]), tier(BOOKIE)],
        None,
        {ZK: "new", BOOKIE: "old"},
    ),
    (
        "not while the one before is not ready",
        [tier(ZK, changed=False, pods=[AWAY, {}, {}]), tier(BOOKIE)],
        None,
        {ZK: "new", BOOKIE: "old"},
    ),
    (
        "a proxy that is not ready keeps no bookie waiting",
        [tier(BOOKIE), tier(PROXY, changed=False, pods=[AWAY, {}, {}])],
        None,
        {BOOKIE: "new", PROXY: "new"},
    ),
    (
        "what does not exist is created as rendered",
        [tier(ZK), tier(BROKER, exists=False)],
        None,
        {ZK: "new", BROKER: "new"},
    ),
    (
        "without a pod that serves at once",
        [tier(ZK), tier(BROKER, pods=[BROKEN, BROKEN, BROKEN], record=UNPROVEN)],
        WINDOW,
        {ZK: "old", BROKER: "new"},
    ),
    (
        "not where they served a moment ago, and may again",
        [tier(ZK), tier(BROKER, pods=[BROKEN, AWAY, BROKEN])],
        WINDOW,
        {ZK: "old", BROKER: "old"},
    ),
    (
        "a pod that was never ready is corrected in a closed window",
        [tier(ZK, changed=False), tier(BROKER, pods=[BROKEN, {}, {}], record=UNPROVEN)],
        WINDOW,
        {ZK: "new", BROKER: "new"},
    ),
    (
        "not one that was evicted: its template ran well",
        [tier(ZK, changed=False), tier(BROKER, pods=[BROKEN, {}, {}])],
        WINDOW,
        {ZK: "new", BROKER: "old"},
    ),
    (
        "and while the one before is not ready",
        [tier(ZK, changed=False, pods=[AWAY, {}, {}]), tier(BROKER, pods=[BROKEN, {}, {}], record=UNPROVEN)],
        None,
        {ZK: "new", BROKER: "new"},
    ),
    ("but does not jump the order", [tier(ZK), tier(BROKER, pods=[BROKEN, {}, {}])], None, {ZK: "new", BROKER: "old"}),
    ("nobody in a closed window", [tier(ZK), tier(BOOKIE)], WINDOW, {ZK: "old", BOOKIE: "old"}),
    ("what is not on record is left alone", [tier(ZK), tier(BOOKIE, record=NEVER)], None, {ZK: "new", BOOKIE: None}),
    ("what an earlier one applied too", [tier(ZK), tier(BOOKIE, annotated=False)], None, {ZK: "new", BOOKIE: None}),
]


@pytest.mark.parametrize(("tiers", "held", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_templates_given(tiers: list[Tier], held: Blocker | None, wanted: dict[Component, str | None]) -> None:
    assert given(template_order(tiers, blocker=held)) == wanted


def test_backwards_the_clients_come_first() -> None:
    tiers = [tier(ZK), tier(BOOKIE), tier(BROKER), tier(PROXY)]
    backwards = RollOrder(backwards=True)
    assert given(template_order(tiers, order=backwards)) == {ZK: "old", BOOKIE: "old", BROKER: "old", PROXY: "new"}
    tiers[3] = tier(PROXY, changed=False)
    assert given(template_order(tiers, order=backwards)) == {ZK: "old", BOOKIE: "old", BROKER: "new", PROXY: "new"}


def test_a_workload_of_an_earlier_operator_that_is_as_rendered_is_not_behind() -> None:
    found = template_order([tier(ZK, changed=False, annotated=False), tier(BOOKIE)])
    assert given(found) == {ZK: "new", BOOKIE: "new"}
    assert found.pending is None


def stopped(newest: str = NEW_HASH, good: str | None = OLD_HASH) -> TemplateRecord:
    return TemplateRecord({OLD_HASH: Kept(OLD, "1"), NEW_HASH: Kept(NEW, "2")}, good, Stop(newest, "it did not start"))


def test_a_stopped_roll_goes_back_and_holds_those_behind_it() -> None:
    """What it depends on may hold the cure, and goes on as windows allow."""
    tiers = [tier(ZK), tier(BOOKIE, changed=False, record=stopped()), tier(BROKER)]
    assert given(template_order(tiers, blocker=WINDOW)) == {ZK: "old", BOOKIE: "old", BROKER: "old"}
    found = template_order(tiers)
    assert given(found) == {ZK: "new", BOOKIE: "old", BROKER: "old"}
    assert found.stopped is BOOKIE
    assert (found.blocker_of(ZK), found.blocker_of(BOOKIE)) == (None, None) and found.blocker_of(
        BROKER
    ) is found.blocker
    assert found.blocker is not None and found.blocker.reason is Reason.ROLLOUT_FAILED
    assert "it did not start" in found.blocker.message


def test_a_stopped_roll_stays_stopped_once_it_has_gone_back() -> None:
    found = template_order([tier(BOOKIE, record=stopped()), tier(BROKER)])
    assert given(found) == {BOOKIE: "old", BROKER: "old"}
    assert found.pending is BOOKIE


def test_a_stop_without_a_template_to_go_back_to_leaves_everything_as_it_is() -> None:
    found = template_order([tier(BOOKIE, changed=False, record=stopped(good=None)), tier(BROKER)])
    assert given(found) == {BOOKIE: "new", BROKER: "old"}
    assert found.stopped is BOOKIE


def test_a_stop_stays_where_it_is_when_the_way_back_is_a_jump_that_nobody_tested() -> None:
    kept = replace(tier(BOOKIE, changed=False, record=stopped()), may_go_back=False)
    found = template_order([kept, tier(BROKER)])
    assert given(found) == {BOOKIE: "new", BROKER: "old"}
    assert found.back is None and found.blocker_of(BOOKIE) is found.blocker


def test_another_rendering_resumes() -> None:
    found = template_order([tier(BOOKIE, record=stopped(newest="another")), tier(BROKER)])
    assert given(found) == {BOOKIE: "new", BROKER: "old"}
    assert found.stopped is None and found.blocker is None


def test_without_a_ready_pod_a_stopped_roll_goes_back_all_the_same() -> None:
    found = template_order([tier(BROKER, changed=False, pods=[BROKEN], record=stopped())])
    assert given(found) == {BROKER: "old"}


def test_what_is_waited_for_and_why_is_said() -> None:
    found = template_order([tier(ZK, changed=False, pods=[{"revision": "r0"}, {}, {}]), tier(BROKER)])
    turn = found.of[BROKER]
    assert turn.blocker == Blocker(Reason.NOT_READY, "The zookeeper pods are not all up to date and ready")
    assert turn.reason == "the image changed from pulsar:1 to pulsar:2"
    assert found.pending is BROKER


@pytest.mark.parametrize(
    ("fixed", "wanted"),
    [
        (tier(BROKER, pods=[BROKEN, BROKEN, BROKEN]), "old"),
        (tier(BROKER, record=stopped()), "old"),
        (tier(BROKER, record=NEVER), None),
        (tier(BROKER, exists=False), "new"),
        (tier(BROKER, changed=False), "new"),
    ],
)
def test_what_gets_no_other_template(fixed: Tier, wanted: str | None) -> None:
    found = template_order([tier(BOOKIE), fixed, tier(PROXY, changed=False)], fixed={BROKER: SOMEBODY})
    assert given(found) == {BOOKIE: "new", BROKER: wanted, PROXY: "new"}
    assert found.of[BROKER].blocker is (None if wanted == "new" else SOMEBODY)


def test_a_tier_that_is_down_for_long_waits_for_no_pod_of_others_and_for_all_else() -> None:
    """A bookie without its volume waits for auto-recovery, whose cure must not wait for the bookie."""
    unready = tier(BOOKIE, changed=False, pods=[AWAY, {}, {}])
    mine = tier(BROKER, pods=[OOM, OOM, OOM], record=PROVEN)
    long = replace(mine, down=True)
    assert given(template_order([unready, mine]))[BROKER] == "old"
    assert given(template_order([unready, long]))[BROKER] == "new"
    assert given(template_order([unready, long], blocker=WINDOW))[BROKER] == "old"
    leaving = Blocker(Reason.DECOMMISSIONING_BOOKIE, "bookie 2 to have left")
    assert given(template_order([unready, long], blocker=leaving))[BROKER] == "new"
    assert given(template_order([unready, mine], blocker=leaving))[BROKER] == "old"
    assert given(template_order([unready, long], watched={BOOKIE: SOMEBODY}))[BROKER] == "old"
    assert given(template_order([tier(BOOKIE), long]))[BROKER] == "old"
    outdated = tier(BOOKIE, changed=False, pods=[{"revision": "r0"}, {}, {}])
    assert given(template_order([outdated, long]))[BROKER] == "old"


NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
MISSING = {f"my-broker-{n}": Absence(NOW - timedelta(minutes=9)) for n in range(3)}


@pytest.mark.parametrize(
    ("pods", "deadline", "absent", "is_down"),
    [
        ([OOM, OOM, OOM], 300, {}, True),  # since 00:05
        ([OOM, OOM, OOM], 301, {}, False),
        ([BROKEN, OOM, OOM], 300, {}, True),
        ([OOM, OOM, {}], 0, {}, False),
        ([OOM, OOM, AWAY], 0, {}, False),
        ([OOM, OOM], 300, MISSING, True),
        ([OOM, OOM], 300, {}, False),
        ([], 540, MISSING, True),
        ([], 541, MISSING, False),
        ([], 1, {}, False),
    ],
)
def test_how_long_a_tier_is_down(pods: list[Json], deadline: float, absent: Any, is_down: bool) -> None:
    mine = tier(BROKER, pods=pods)
    assert down(mine, NOW, deadline, absent) is is_down
    assert not down(replace(mine, answers_since=NOW), NOW, max(deadline, 1), absent)
    assert not down(tier(BROKER, exists=False), NOW, 0, {})
