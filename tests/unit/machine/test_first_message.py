"""e2e/support/first_message.py: the stages between apply and the first message, from what Kubernetes records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.support.first_message import Stage, stages_of, table_of

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready(seconds: float) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(seconds)}]}


def labelled(tier: str, created: float) -> dict[str, Any]:
    return {"creationTimestamp": at(created), "labels": {"app.kubernetes.io/component": tier}}


def pod(tier: str, started: float, up: float) -> dict[str, Any]:
    status = {**ready(up), "containerStatuses": [{"state": {"running": {"startedAt": at(started)}}}]}
    return {"metadata": labelled(tier, 0), "status": status}


def stages(message: float) -> list[Stage]:
    cluster = {"metadata": {"creationTimestamp": at(0)}, "status": ready(35)}
    sets = [{"metadata": labelled(*each)} for each in (("zookeeper", 1), ("bookie", 2), ("broker", 17))]
    pods = [pod("zookeeper", 3, 10), pod("bookie", 4, 12), pod("bookie", 6, 15), pod("broker", 20, 33)]
    return stages_of(cluster, sets, pods, BEGIN + timedelta(seconds=message))


def test_each_second_is_of_one_stage() -> None:
    """The bookies' StatefulSet and containers are there before ZooKeeper is, so that nobody waits for them; of two pods
    the later one counts."""
    found = stages(37.5)
    assert [(each.whose, each.seconds) for each in found] == [
        *(("operator", 1.0), ("Kubernetes", 2.0), ("Pulsar", 7.0)),
        *(("operator", 0.0), ("Kubernetes", 0.0), ("Pulsar", 5.0)),
        *(("operator", 2.0), ("Kubernetes", 3.0), ("Pulsar", 13.0)),
        *(("operator", 2.0), ("client", 2.5)),
    ]
    assert sum(each.seconds for each in found) == 37.5


def test_a_tier_that_the_cluster_does_not_have_is_left_out() -> None:
    assert not any("proxy" in each.name for each in stages(40))


def test_the_table_ends_with_the_share_of_each() -> None:
    *_, total, operator, kubernetes, pulsar, client = table_of(stages(40)).splitlines()
    assert total.split()[-4:] == ["40.0", "s", "100", "%"]
    shares = [" ".join(line.split()[2:5]) for line in (operator, kubernetes, pulsar, client)]
    assert shares == ["operator 5.0 s", "Kubernetes 5.0 s", "Pulsar 25.0 s", "client 5.0 s"]
