"""A pause, or a dry run, of several changes at once: each is told, and none is made."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, ANNOTATION_PAUSE, Kind
from pulsar_operator.ports import Json
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.ledgers import LedgerWorld

CONFIG: dict[str, Json] = {"broker": {"maxProducersPerTopic": "7"}, "bookkeeper": {"gcWaitTime": "900001"}}


@pytest.mark.parametrize("annotation", [ANNOTATION_PAUSE, ANNOTATION_DRY_RUN])
@pytest.mark.parametrize(
    ("part", "replicas", "words"),
    [
        ("broker", 4, "spec.replicas changed from 2 to 4"),
        ("broker", 1, "Create PulsarRebalance east-drain-to-1"),
        ("bookkeeper", 5, "spec.replicas changed from 4 to 5"),
        ("bookkeeper", 3, "east-bookie-3"),
    ],
)
async def test_another_number_and_another_template(annotation: str, part: str, replicas: int, words: str) -> None:
    """The template is not on record, since nothing is written, when the number has its turn."""
    world = await (BusyWorld.up(2) if part == "broker" else LedgerWorld.up(4))
    await world.annotate(Kind.CLUSTER, "east", annotation, "true")
    change = {"replicas": replicas, "config": CONFIG[part]}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec[part].update(change))
    await world.run(rounds=30)
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert [each for each in pending if words in each], pending
    record = [each for each in pending if f"-{'bookie' if part == 'bookkeeper' else part}-templates, " in each]
    assert len(record) == 1, pending
