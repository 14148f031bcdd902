"""A confirmation of a tenant answers for its namespaces of that day and for the tenant's own change, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_LOSS, Kind
from pulsar_operator.domain.logical.consent import asked_of, moment_of
from pulsar_operator.ports import CUSTOM
from tests.support.logical.world import NS, LogicalWorld
from tests.unit.logical.test_consent import DAY, WEEK, asked, commands, confirm, minutes, store

MANY = 30
LATER = "2030-01-01T00:00:00Z"


async def lowered(*names: str, **policies: Any) -> LogicalWorld:
    """A tenant whose default retention went from a week to a day, with namespaces that store something."""
    w = LogicalWorld()
    w.tenant(namespaceDefaults={"retention": WEEK})
    for second, name in enumerate(names):
        w.kube.time = lambda second=second: f"2026-11-01T00:00:{second:02}Z"
        w.namespace(name, policies=policies)
    await w.run()
    for name in names:
        store(w, f"persistent://t/{name}/x")
    w.tenant(namespaceDefaults={"retention": DAY})
    await w.run()
    return w


async def test_one_command_answers_for_all_namespaces_of_the_day() -> None:
    names = [f"n{i}" for i in range(MANY)]
    w = await lowered(*names)
    assert {minutes(w, name) for name in names} == {10080}
    assert {commands(asked(w, name=name))[1][2][ANNOTATION_CONFIRM_LOSS] for name in names} == {
        commands(asked(w, name="n0"))[1][2][ANNOTATION_CONFIRM_LOSS]
    }, "the command is the same wherever it is read"
    confirm(w, asked(w, name="n0"), 1)
    for name in names[:10]:
        await w.reconcile(Kind.NAMESPACE, name)
    # The operator starts again, and the status of those it did not come to is lost.
    for name in names[10:]:
        w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, name, {})
    w.restart()
    await w.run()
    assert {minutes(w, name) for name in names} == {1440}
    assert {w.condition(Kind.NAMESPACE, name)[0] for name in names} == {"True"}


async def test_a_namespace_of_later_has_its_own_question_and_a_command_for_the_tenant() -> None:
    w = await lowered("n")
    confirm(w, asked(w), 1)
    await w.run()
    w.kube.time = lambda: LATER
    w.pulsar.namespaces["t/late"] = {
        **w.pulsar.namespaces["t/n"],
        "retention_policies": {"retentionTimeInMinutes": 10080, "retentionSizeInMB": -1},
        "properties": {},
    }
    store(w, "persistent://t/late/x")
    w.namespace("late")
    await w.run()
    w.restart()
    await w.run()
    message = asked(w, name="late")
    assert minutes(w, "late") == 10080
    assert commands(message)[1][2][ANNOTATION_CONFIRM_LOSS].endswith(":20300101T000000Z")
    confirm(w, message, 1)
    await w.run()
    assert minutes(w, "late") == 1440


async def test_a_line_that_a_namespace_drops_later_is_not_the_tenants_change() -> None:
    w = await lowered("n")
    w.namespace("other", policies={"retention": WEEK})
    await w.run()
    store(w, "persistent://t/other/x")
    confirm(w, asked(w), 1)
    await w.run()
    w.namespace("other")
    await w.run()
    await w.run()
    assert minutes(w, "other") == 10080
    assert [kind for kind, *_ in commands(asked(w, name="other"))] == [Kind.NAMESPACE]


async def test_a_longer_value_that_another_client_sets_later_is_not_the_tenants_change() -> None:
    w = await lowered("n")
    confirm(w, asked(w), 1)
    await w.run()
    assert minutes(w) == 1440
    w.pulsar.namespaces["t/n"]["retention_policies"] = {"retentionTimeInMinutes": 10080, "retentionSizeInMB": -1}
    await w.run()
    await w.run()
    assert minutes(w) == 10080
    assert [kind for kind, *_ in commands(asked(w))] == [Kind.NAMESPACE]


async def test_a_namespace_that_keeps_more_than_was_confirmed_asks() -> None:
    w = await lowered("n", "more")
    w.pulsar.namespaces["t/more"]["retention_policies"] = {"retentionTimeInMinutes": 99999, "retentionSizeInMB": -1}
    confirm(w, asked(w), 1)
    await w.run()
    assert (minutes(w), minutes(w, "more")) == (1440, 99999)
    confirm(w, asked(w, name="more"), 1)
    await w.run()
    assert minutes(w, "more") == 1440


async def test_another_change_of_the_tenant_is_another_question() -> None:
    w = await lowered("n")
    tenant = w.get(Kind.TENANT, "t")
    assert tenant is not None
    (_, _, answer) = commands(asked(w))[1]
    spec = {**tenant["spec"], "namespaceDefaults": {"retention": DAY, "maxTopics": 4}}
    w.put(Kind.TENANT, "t", spec, annotations=answer)
    await w.run()
    assert minutes(w) == 10080


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ("f:2:1:3-0123abcd:20261127T092633Z", True),
        ("f:2:1:3-0123abcd:20261127T092634Z", True),
        ("x, f:2:1:3-0123abcd:20270101T000000Z", True),
        ("f:2:1:3-0123abcd:20261127T092632Z", False),
        ("f:2:1:3-0123abcd", False),
        ("f:any:1:3-0123abcd", False),
        ("f:any:1:3-0123abcd:20261127T092633Z", False),
        ("f:2:1:4-0123abcd:20261127T092633Z", False),
        ("f:9:1:3-0123abcd:20261127T092633Z", False),
        ("f:2:1:3-0123abcd:zzz", False),
        ("f:2:1:3-0123abcd:", False),
        ("20261127T092633Z", False),
        ("", False),
    ],
)
def test_which_confirmation_of_a_tenant_answers(given: str, counts: bool) -> None:
    meta = {"namespace": "apps", "name": "t", "generation": 3, "uid": "0123abcd-4"}
    created = moment_of({"creationTimestamp": "2026-11-27T09:26:33Z"})
    answers = {ANNOTATION_CONFIRM_LOSS: given}
    assert asked_of("PulsarTenant", meta, answers, created=created).answered("f", "2", "1") is counts
    unknown = asked_of("PulsarTenant", meta, answers, created=moment_of({}))
    assert not unknown.answered("f", "2", "1"), "an age that nobody knows is not old"
