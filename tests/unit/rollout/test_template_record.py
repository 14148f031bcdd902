"""The record of pod templates: kept as rendered, told apart by hash, and never believed where it is damaged."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.apply import manifest_hash
from pulsar_operator.domain.dataplane.objects.template_record import (
    Kept,
    Stop,
    TemplateRecord,
    applied_hash,
    configurations,
    parse_record,
    with_template,
)
from pulsar_operator.domain.dataplane.rollout.progress import proved, stopped_by
from tests.support.cluster.stateful_sets import template
from tests.unit.rollout.test_turns import NEW, NEW_HASH, OLD, OLD_HASH, tier

Json = dict[str, Any]
LATE = datetime(2026, 1, 1, 0, 20, tzinfo=UTC)

KEPT = st.builds(lambda image, version: Kept(template(image), version), st.text(max_size=20), st.none() | st.text())
RECORDS = st.builds(
    lambda kept, good, stop: TemplateRecord(
        {manifest_hash(each.template): each for each in kept},
        manifest_hash(kept[0].template) if kept and good else None,
        stop,
        ready="0123abcd" if good else None,
    ),
    st.lists(KEPT, max_size=4),
    st.booleans(),
    st.none() | st.builds(Stop, st.text(min_size=1), st.text()),
)


@given(RECORDS)
def test_what_is_written_is_read(record: TemplateRecord) -> None:
    assert parse_record({"data": record.to_data()}) == record


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"template": []}', '{"version": "1"}', '{"template": {"changed": "by hand"}}']
)
def test_what_is_not_what_its_hash_says_is_not_on_record(text: str) -> None:
    data = TemplateRecord({OLD_HASH: Kept(OLD)}, OLD_HASH).to_data() | {f"{OLD_HASH}.json": text}
    assert parse_record({"data": data}) == TemplateRecord()


def test_no_record_is_an_empty_one() -> None:
    assert parse_record(None) == parse_record({"data": None}) == TemplateRecord()


def test_the_last_good_template_is_kept_whatever_else_goes() -> None:
    record = TemplateRecord({OLD_HASH: Kept(OLD), NEW_HASH: Kept(NEW)}, OLD_HASH)
    assert set(record.only([NEW_HASH, None]).kept) == {OLD_HASH, NEW_HASH}
    assert set(record.only([]).kept) == {OLD_HASH}


def test_a_workload_says_which_template_it_has() -> None:
    rendered = {"metadata": {"name": "x", "annotations": {"mine": "1"}}, "spec": {"template": NEW, "replicas": 2}}
    before = copy.deepcopy((rendered, OLD))
    found = with_template(rendered, OLD_HASH, OLD)
    assert (found["spec"]["template"], applied_hash(found)) == (OLD, OLD_HASH)
    assert found["metadata"]["annotations"]["mine"] == "1"
    assert found["spec"]["replicas"] == 2
    assert (rendered, OLD) == before


def test_configurations_of_a_template() -> None:
    made = template()
    made["spec"]["volumes"] = [{"name": "a", "configMap": {"name": "c-1"}}, {"name": "tmp", "emptyDir": {}}]
    assert configurations(made) == {"c-1"}


# ------------------------------------------------------------------------------------------------------- progress

WAITING = {"revision": "r1", "ready": False, "was_ready": False}
ROLLED_BACK_TO = TemplateRecord({OLD_HASH: Kept(OLD), NEW_HASH: Kept(NEW)}, OLD_HASH)


def test_a_pod_that_is_not_ready_for_long_stops_the_roll_with_its_own_words() -> None:
    failing = WAITING | {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    found = tier(
        Component.BROKER, changed=False, pods=[{"revision": "r0"}, {"revision": "r0"}, failing], record=ROLLED_BACK_TO
    )
    stop = stopped_by(found, LATE, 600)
    assert stop is not None and stop.template == NEW_HASH
    assert "my-broker-2" in stop.message and "no such image" in stop.message and "600 s" in stop.message


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("not yet", {"deadline": 3600}),
        ("nothing to go back to: a first start", {"record": TemplateRecord({NEW_HASH: Kept(NEW)})}),
        ("it proved itself before", {"record": TemplateRecord({NEW_HASH: Kept(NEW)}, NEW_HASH)}),
        ("an old pod that is away", {"pods": [WAITING | {"revision": "r0"}, {}, {}]}),
        ("a pod that ends", {"pods": [WAITING | {"terminating": True}, {}, {}]}),
        ("its turn has not come", {"changed": True}),
    ],
)
def test_nothing_stops(what: str, changes: Json) -> None:
    deadline = changes.pop("deadline", 600)
    found = tier(
        Component.BROKER, **({"changed": False, "pods": [WAITING, {}, {}], "record": ROLLED_BACK_TO} | changes)
    )
    assert stopped_by(found, LATE, deadline) is None, what


def test_a_pod_that_was_ready_says_nothing_of_its_template() -> None:
    """Its node may be gone: going back for that would be another change at the worst of times."""
    away = {"revision": "r1", "ready": False}
    found = tier(Component.BROKER, changed=False, pods=[away, {}, {}], record=ROLLED_BACK_TO)
    assert stopped_by(found, LATE, 600) is None


def test_a_pod_has_the_time_that_its_startup_probe_gives_it() -> None:
    """A bookie replays its journal; one that ended before has only the deadline."""
    since = datetime.fromisoformat("2026-01-01T00:00:01Z")
    for restarts, after, stops in ((0, 600, False), (0, 1799, False), (0, 1800, True), (1, 600, True), (1, 599, False)):
        found = tier(
            Component.BROKER, changed=False, pods=[WAITING | {"restarts": restarts}, {}, {}], record=ROLLED_BACK_TO
        )
        assert found.state is not None
        probe = {"failureThreshold": 360, "periodSeconds": 5}
        found.state.pods[0].raw["spec"]["containers"][0]["startupProbe"] = probe
        assert (stopped_by(found, since + timedelta(seconds=after), 600) is not None) is stops, (restarts, after)


@pytest.mark.parametrize(("after", "stops"), [(0, False), (599, False), (600, True)])
def test_time_in_which_the_configuration_store_was_away_does_not_count(after: int, stops: bool) -> None:
    found = tier(Component.BROKER, changed=False, pods=[WAITING, {}, {}], record=ROLLED_BACK_TO)
    back = replace(found, answers_since=LATE)
    assert (stopped_by(back, LATE + timedelta(seconds=after), 600) is not None) is stops


def test_a_template_proves_itself_when_every_pod_runs_it_ready() -> None:
    done = tier(Component.BROKER, changed=False, record=ROLLED_BACK_TO)
    assert proved(done) == NEW_HASH
    assert proved(tier(Component.BROKER, changed=False, pods=[WAITING, {}, {}], record=ROLLED_BACK_TO)) is None
    assert (
        proved(tier(Component.BROKER, changed=False, pods=[{"revision": "r0"}, {}, {}], record=ROLLED_BACK_TO)) is None
    )
    assert proved(tier(Component.BROKER, changed=False, record=TemplateRecord({NEW_HASH: Kept(NEW)}, NEW_HASH))) is None
    assert proved(tier(Component.BROKER, changed=False, record=TemplateRecord())) is None, "it is not on record"
