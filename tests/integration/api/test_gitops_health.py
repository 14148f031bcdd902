"""kstatus itself, and the health checks for Argo CD in the interpreter it has, agree with docs/conditions.md: for every
kind, every reason and every status of Ready."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.domain.conditions import STALLED_SECONDS, ConditionSet
from tests.support.admission.samples import manifest, minimal, path
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.gitops_health import Health, judge, scripts

PAGE = Path(__file__).resolve().parents[3] / "docs" / "conditions.md"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
READY = ("Current", "Healthy")
WAITING = ("InProgress", "Progressing")
Pair = tuple[str, str]


def documented() -> dict[str, tuple[Pair, Pair]]:
    """By reason of Ready, what kstatus and Argo CD say at first and later, as the page has it."""
    text = PAGE.read_text(encoding="utf-8")
    part = text.split("<!-- generated: waiting -->\n", 1)[1].split("<!-- /generated -->", 1)[0]
    out: dict[str, tuple[Pair, Pair]] = {}
    rest: Pair | None = None
    for line in part.splitlines()[2:]:
        _, reasons, _, kstatus, argo = (cell.strip() for cell in line.strip("|").split("|"))
        words = [re.findall(r"`(\w+)`", cell) for cell in (kstatus, argo)]
        later, first = (words[0][0], words[1][0]), (words[0][-1], words[1][-1])
        names = re.findall(r"`(\w+)`", reasons)
        out.update({name: (first, later) for name in names})
        if not names:
            rest = later
    assert rest is not None
    return {reason: out.get(reason, (rest, rest)) for reason in Reason}


def told(kind: Kind, conditions: ConditionSet, **meta: Any) -> Any:
    """An object with the status of a pass."""
    status = {"observedGeneration": 3, "conditions": [wire(each) for each in conditions.result()]}
    identity = {"name": "x", "namespace": "ns", "generation": 3, **meta}
    return {"apiVersion": API_VERSION, "kind": kind.value, "metadata": identity, "spec": {}, "status": status}


def passes(kind: Kind, ready: ConditionStatus, reason: Reason) -> tuple[Any, Any]:
    """The object after the first pass that says so, and after one that says so a minute later."""
    first = ConditionSet((ConditionType.READY,), [], 3, BEGIN)
    first.set(ConditionType.READY, ready, reason, "why")
    before = [wire(each) for each in first.result()]
    second = ConditionSet((ConditionType.READY,), before, 3, BEGIN + timedelta(seconds=STALLED_SECONDS))
    second.set(ConditionType.READY, ready, reason, "why")
    return told(kind, first), told(kind, second)


def pair(health: Health) -> Pair:
    return health.kstatus, health.argo


def one(kind: Kind, obj: Any, folder: Path) -> Health:
    (found,) = judge([obj], scripts()[kind], folder)
    return found


def test_there_is_a_check_for_every_kind() -> None:
    assert sorted(scripts()) == sorted(Kind)


@pytest.mark.parametrize("kind", Kind)
def test_every_reason_is_judged_as_the_page_says(kind: Kind, tmp_path: Path) -> None:
    page = documented()
    cases = list(itertools.product(ConditionStatus, Reason))
    objects = [obj for ready, reason in cases for obj in passes(kind, ready, reason)]
    found = [pair(each) for each in judge(objects, scripts()[kind], tmp_path)]
    wrong = []
    for (ready, reason), judged in zip(cases, zip(found[::2], found[1::2], strict=True), strict=True):
        expected = (READY, READY) if ready is ConditionStatus.TRUE else page[reason]
        if judged != expected:
            wrong.append(f"Ready {ready.value} {reason.value}: {judged}, the page says {expected}")
    assert wrong == []


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, READY),
        ({"generation": 4}, WAITING),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, ("Terminating", "Progressing")),
    ],
)
def test_a_newer_generation_and_a_deletion_count_first(
    kind: Kind, change: dict[str, Any], expected: Pair, tmp_path: Path
) -> None:
    conditions = ConditionSet((), [], 3, BEGIN)
    conditions.set(ConditionType.READY, True, Reason.READY, "well")
    assert pair(one(kind, told(kind, conditions, **change), tmp_path)) == expected


def test_a_roll_of_a_ready_cluster_is_waited_for(tmp_path: Path) -> None:
    conditions = ConditionSet((), [], 3, BEGIN)
    conditions.set(ConditionType.READY, True, Reason.READY, "well")
    conditions.set(ConditionType.PROGRESSING, True, Reason.ROLLOUT_IN_PROGRESS, "2 of 3 pods")
    found = one(Kind.CLUSTER, told(Kind.CLUSTER, conditions), tmp_path)
    assert pair(found) == WAITING and found.argo_message == "2 of 3 pods"


def test_messages_say_the_reason(tmp_path: Path) -> None:
    stalled, _ = passes(Kind.TOPIC, ConditionStatus.FALSE, Reason.INVALID_SPEC)
    assert one(Kind.TOPIC, stalled, tmp_path).argo_message == "InvalidSpec: why"
    waits, _ = passes(Kind.TOPIC, ConditionStatus.UNKNOWN, Reason.ADMIN_UNREACHABLE)
    assert one(Kind.TOPIC, waits, tmp_path).argo_message == "AdminUnreachable: why"


@pytest.mark.parametrize("kind", Kind)
def test_a_new_object_is_waited_for(apiserver: ApiServer, namespace: str, kind: Kind, tmp_path: Path) -> None:
    """As a real API server has it: with the default of the definition, which no operator has looked at yet."""
    created = apiserver.request("POST", path(kind, namespace), manifest(kind, "new", minimal(kind)))
    assert created.code == 201, created.message
    found = apiserver.request("GET", path(kind, namespace, "new")).body
    assert pair(one(kind, found, tmp_path)) == WAITING
    del found["status"]
    assert one(kind, found, tmp_path).kstatus == "Current", "what it would be without the default"
    assert one(kind, found, tmp_path).argo == "Progressing"
