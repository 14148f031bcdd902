"""Attacks on consent: what lets Pulsar delete stored messages without a person's word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.logical.consent import Asked, Guard, Stored, question
from pulsar_operator.domain.policies import NAMESPACE_POLICIES
from pulsar_operator.ports import RefusedError
from tests.fakes.admin import AdminCall
from tests.support.logical.world import LogicalWorld
from tests.unit.logical.test_consent import DAY, TOPIC, WEEK, asked, commands, confirm, kept_by, minutes, store

(RETENTION,) = (row for row in NAMESPACE_POLICIES if row.field == "policies.retention")
ASKED = Asked("PulsarNamespace", "apps", "n", "1-uid", frozenset())


async def test_a_cluster_that_the_instance_does_not_know_may_store_something() -> None:
    w = LogicalWorld("a", "west")
    w.tenant()
    w.namespace(policies={"retention": WEEK}, replicationClusters=["a", "west"])
    await w.run()
    store(w, TOPIC, "west")
    w.delete(Kind.CLUSTER, "west")
    w.namespace()
    await w.run()
    assert minutes(w) == 10080


def test_a_value_that_nobody_can_compare_counts_for_the_worst() -> None:
    guard = Guard((ASKED,), stored={"a": Stored(5)})
    assert question(guard, RETENTION, None, {None: object()}) is not None


async def test_an_inherited_value_that_brokers_do_not_report_counts_for_the_worst() -> None:
    w = await kept_by(retention=WEEK)

    def refuses(call: AdminCall) -> None:
        if call.path[-1] == "runtime":
            raise RefusedError("HTTP 401", status=401)

    w.admin.before.append(refuses)
    w.namespace()
    await w.run()
    assert minutes(w) == 10080
    assert "keeps unknown" in asked(w)


@pytest.mark.parametrize("value", ["soon", "1.5", [], {}])
async def test_a_configuration_with_nonsense_counts_for_the_worst(value: Any) -> None:
    w = await kept_by(retention=WEEK)
    w.pulsar.dynamic["a"] = {"defaultRetentionTimeInMinutes": value, "defaultRetentionSizeInMB": "-1"}
    w.namespace()
    await w.run()
    assert minutes(w) == 10080


async def test_sizes_that_are_nonsense_are_unknown() -> None:
    w = await kept_by(retention=WEEK)

    def refuses(call: AdminCall) -> None:
        if call.path[-1] == "internalStats":
            raise RefusedError("HTTP 403", status=403)

    w.admin.before.append(refuses)
    w.namespace()
    await w.run()
    assert minutes(w) == 10080
    assert "unknown number of bytes" in asked(w)


async def test_an_old_confirmation_of_the_tenant_is_none_for_a_namespace_that_comes_later() -> None:
    w = await kept_by({"retention": WEEK})
    w.tenant(namespaceDefaults={"retention": DAY})
    await w.run()
    confirm(w, asked(w), 1)
    await w.run()
    assert minutes(w) == 1440
    admin = replace(w.admin.calls[-1])
    assert admin.cluster == "a"
    # A namespace that somebody made with pulsar-admin, with a week of messages, is declared a month later.
    w.kube.time = lambda: "2026-12-27T00:00:00Z"
    w.pulsar.namespaces["t/late"] = {
        **w.pulsar.namespaces["t/n"],
        "retention_policies": {"retentionTimeInMinutes": 10080, "retentionSizeInMB": -1},
        "properties": {},
    }
    store(w, "persistent://t/late/y")
    w.namespace("late")
    await w.run()
    assert minutes(w, "late") == 10080


async def test_a_paused_tenant_still_asks() -> None:
    w = await kept_by({"retention": WEEK})
    w.tenant(annotations={"pulsaroperator.io/paused": "true"})
    await w.run()
    assert minutes(w) == 10080
    assert commands(asked(w))


async def test_a_restart_between_question_and_answer_asks_the_same() -> None:
    w = await kept_by(retention=WEEK)
    w.namespace()
    await w.run()
    before = commands(asked(w))
    w.restart()
    await w.run()
    assert commands(asked(w)) == before and minutes(w) == 10080
