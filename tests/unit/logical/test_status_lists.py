"""Lists of a status end at their bound, and have each key once, where they are built."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.base import MAX_CLUSTERS, MAX_PENDING
from pulsar_operator.api.v1alpha1.instance import InstanceClusterStatus
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.controllers.core.actor import Pending
from pulsar_operator.controllers.dataplane.instance.geo_replication import MAX_NAME, _waiting
from pulsar_operator.controllers.dataplane.instance.instance_controller import unique
from pulsar_operator.controllers.logical.logical_pass import MAX_FIELDS
from pulsar_operator.controllers.logical.topic_inventory import _counted
from pulsar_operator.domain.dataplane.instance.geo_replication import readings, together
from pulsar_operator.domain.dataplane.observed.pod_counters import Sample
from pulsar_operator.domain.logical.plan import joined
from pulsar_operator.ports import CUSTOM
from tests.support.logical.world import NS, LogicalWorld

TOPIC = "persistent://t/n/x"


def page(backlog: float) -> dict[str, Any]:
    """What one broker's page says of one topic."""
    labels = {"remote_cluster": "west", "namespace": "t/n", "topic": TOPIC}
    values = {"backlog": backlog, "connected_count": 1.0, "rate_out": 0.0}
    return readings([Sample(f"pulsar_replication_{name}", labels, value) for name, value in values.items()])


def test_a_topic_on_the_pages_of_two_brokers_is_one_row() -> None:
    """The key was there twice, and the API server answered 500 to every status of the instance."""
    reading = together([page(7), page(9)])["west"]
    assert reading.topics == ((TOPIC, 9),) and reading.still == ((TOPIC, 9),)
    assert [each.name for each in _waiting(reading.topics)] == [TOPIC]
    long = TOPIC + "y" * MAX_NAME
    assert len(_waiting(((long + "a", 2), (long + "b", 1)))) == 1


def test_two_clusters_of_one_name_are_one_row_and_rows_end() -> None:
    rows = [
        InstanceClusterStatus(name=f"c{n // 2}", object_name=f"c{n}", object_namespace="a", ready=True)
        for n in range(MAX_CLUSTERS * 3)
    ]
    names = [row.name for row in unique(rows)]
    assert len(names) == len(set(names)) == MAX_CLUSTERS


def test_drift_of_names_that_read_alike_is_one_entry() -> None:
    entries = [DriftEntry(field=r"properties[a\nb]", desired=d, actual=d) for d in ("1", "2")]
    assert [each.field for each in joined(entries)] == [r"properties[a\nb]"]


def test_actions_that_are_pending_end() -> None:
    pending = Pending()
    for n in range(MAX_PENDING + 3):
        pending.append(str(n))
    pending.extend(["a", "b"])
    pending += ["c"]
    assert len(pending) == MAX_PENDING and pending[-1] == str(MAX_PENDING - 1)


@pytest.mark.parametrize("names", [["x", "x-partition-3"], ["x-partition-3", "x"]])
def test_a_partition_without_its_topic_does_not_make_another_topic_partitioned(names: list[str]) -> None:
    assert _counted(names, frozenset()) == {"x": 0, "x-partition-3": 0}


async def test_the_clusters_of_a_tenant_end() -> None:
    w = LogicalWorld()
    w.tenant()
    await w.run()
    others = [f"c{n:03}" for n in range(MAX_CLUSTERS)]
    w.pulsar.clusters += others
    w.pulsar.tenants["t"]["allowedClusters"] += others
    await w.run()
    assert len(w.status(Kind.TENANT, "t")["clusters"]) == MAX_CLUSTERS


async def test_more_fields_than_the_status_has_room_for_are_refused_before_anything_is_written() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace(properties={"a": "1"})
    await w.run()
    status = w.status(Kind.NAMESPACE, "n")
    status["managedFields"] = [f"properties[p{n}]" for n in range(MAX_FIELDS)]
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", status)
    w.namespace(properties={"b": "2"})
    with w.admin.recording() as made:
        await w.reconcile(Kind.NAMESPACE, "n")
    assert made == []
    assert w.condition(Kind.NAMESPACE, "n")[:2] == ("False", "InvalidSpec")
