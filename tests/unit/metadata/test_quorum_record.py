"""Which quorums a cluster has had so far: by the record, or by what is left where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.api.constants import LABEL_COMPONENT, Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.registration.metadata import DamagedRecordError, Record, RecordState, parse_record
from pulsar_operator.domain.dataplane.registration.quorum_record import default_ensemble, known_quorum
from pulsar_operator.domain.render import Quorum, render_cluster
from pulsar_operator.domain.stored import parsed
from tests.support.cluster.rendering import distributed, inputs

Json = dict[str, Any]
OWNER = {"kind": "PulsarCluster", "metadata": {"name": "my", "uid": "u"}}
RECORD = Record("id-1", "c", RecordState.INITIALIZED, registered=True)
NOTHING = PulsarClusterStatus()
STATUS = {"ensemble": {"ensembleSize": 4, "writeQuorum": 3, "ackQuorum": 2}}


def children(*components: Component, bookies: int = 5, quorum: Quorum | None = None) -> list[Json]:
    """Objects of components as rendered, with the owner reference that they get."""
    spec = distributed(bookkeeper={"replicas": bookies})
    rendered = render_cluster(replace(inputs(spec), quorum=quorum))
    found = [each for component in components for each in rendered.of(component)]
    reference = [{"controller": True, "uid": "u", "kind": "PulsarCluster", "name": "my"}]
    return [
        {**each, "metadata": {**each["metadata"], "uid": each["metadata"]["name"], "ownerReferences": reference}}
        for each in found
    ]


ALL = (Component.BOOKIE, Component.BROKER)


@pytest.mark.parametrize(
    ("there", "record", "status", "volumes", "expected"),
    [
        pytest.param(ALL, "5/4/3", STATUS, True, "2/2/1", id="a record that nothing explains: what brokers have"),
        pytest.param((Component.BOOKIE,), "5/4/3", STATUS, True, "5/4/3", id="no brokers: the record"),
        pytest.param((), "5/4/3", STATUS, True, "5/4/3", id="the record of volumes that wait for their object"),
        pytest.param(ALL, None, STATUS, True, "2/2/1", id="no record: what brokers have"),
        pytest.param(ALL, "3/3", STATUS, True, "2/2/1", id="damaged record: what brokers have"),
        pytest.param(ALL, None, {}, True, "2/2/1", id="no record, no status: what brokers have"),
        pytest.param((Component.BROKER,), None, {}, False, "2/2/1", id="brokers alone"),
        pytest.param((Component.BOOKIE,), None, STATUS, True, "4/3/2", id="no record, no brokers: the status"),
        pytest.param((), None, STATUS, True, "4/3/2", id="volumes alone: the status"),
        pytest.param((Component.BOOKIE,), None, {}, True, "3/3/2", id="only bookies: by those there are"),
        pytest.param((Component.BOOKIE,), None, {"ensemble": {"ensembleSize": 2}}, True, "3/3/2", id="half a status"),
        pytest.param((Component.BOOKIE,), None, {"ensemble": "4/3/2"}, True, "3/3/2", id="another status"),
        pytest.param((), None, {}, True, None, id="volumes alone, and nothing told"),
        pytest.param((), "5/4/3", STATUS, False, None, id="nothing was brought up yet"),
        pytest.param((), None, {}, False, None, id="a new cluster"),
    ],
)
def test_what_is_known(
    there: tuple[Component, ...], record: str | None, status: Json, volumes: bool, expected: str | None
) -> None:
    live = Live.of(OWNER, children(*there, quorum=Quorum(2, 2, 1)))
    data = {**RECORD.to_data(), **({} if record is None else {"ensemble": record})}
    keeper = BookKeeper(replicas=2)
    found = known_quorum(keeper, live, record=data, status=parsed(PulsarClusterStatus, status), volumes=volumes)
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize(
    ("ensemble", "record", "expected"),
    [
        pytest.param({"ensembleSize": 3, "writeQuorum": 3}, "3/3/1", "3/3/1", id="a change that brokers wait for"),
        pytest.param({"ensembleSize": 3}, "3/2/1", "3/2/1", id="of one value"),
        pytest.param({"ensembleSize": 9}, "9/2/1", "9/2/1", id="also where it is refused for the number of bookies"),
        pytest.param({"ensembleSize": 3}, "1/1/1", "2/2/1", id="an old record while a change is pending"),
        pytest.param({"ensembleSize": 2}, "1/1/1", "2/2/1", id="an old record, and a value that brokers have"),
        pytest.param({"ackQuorum": 3, "writeQuorum": 2}, "1/1/1", "2/2/1", id="an old record, and values in disorder"),
    ],
)
def test_a_record_that_brokers_do_not_have(ensemble: Json, record: str, expected: str) -> None:
    live = Live.of(OWNER, children(*ALL, quorum=Quorum(2, 2, 1)))
    keeper = BookKeeper.model_validate({"replicas": 4, "ensemble": ensemble})
    data = {**RECORD.to_data(), "ensemble": record}
    stored = PulsarClusterStatus.model_validate(STATUS)
    assert str(known_quorum(keeper, live, record=data, status=stored, volumes=True)) == expected


def test_a_configuration_that_somebody_edited_overrules_no_record() -> None:
    objects = children(*ALL, quorum=Quorum(2, 2, 1))
    for each in objects:
        if each["kind"] == "ConfigMap" and "overrides.conf" in each["data"]:
            text = each["data"]["overrides.conf"]
            each["data"] = {
                **each["data"],
                "overrides.conf": text.replace("DefaultEnsembleSize=2", "DefaultEnsembleSize=4"),
            }
    live = Live.of(OWNER, objects)
    for record, expected in (({**RECORD.to_data(), "ensemble": "2/2/1"}, "2/2/1"), (RECORD.to_data(), "4/2/1")):
        assert str(known_quorum(BookKeeper(), live, record=record, status=NOTHING, volumes=True)) == expected


def test_bookies_there_are_with_what_is_set() -> None:
    live = Live.of(OWNER, children(Component.BOOKIE, bookies=6))
    for ensemble, expected in (({"writeQuorum": 5}, "5/5/3"), ({"ensembleSize": 7}, "3/3/2")):
        keeper = BookKeeper.model_validate({"replicas": 9, "ensemble": ensemble})
        assert str(known_quorum(keeper, live, record={}, status=NOTHING, volumes=True)) == expected


def test_brokers_without_their_configuration_say_nothing() -> None:
    objects = [each for each in children(*ALL, quorum=Quorum(2, 2, 1)) if each["kind"] != "ConfigMap"]
    assert str(known_quorum(BookKeeper(), Live.of(OWNER, objects), record={}, status=NOTHING, volumes=True)) == "3/3/2"


def test_the_record_keeps_them_and_older_records_are_read() -> None:
    kept = replace(RECORD, quorum=Quorum(3, 3, 2))
    assert kept.to_data()["ensemble"] == "3/3/2"
    assert parse_record(kept.to_data()) == kept
    assert "ensemble" not in RECORD.to_data() and parse_record(RECORD.to_data()) == RECORD
    with pytest.raises(
        DamagedRecordError, match=r"data\.ensemble: '3/3' does not have the form ensembleSize/writeQuorum/ackQuorum"
    ):
        parse_record({**RECORD.to_data(), "ensemble": "3/3"})


def broker_pod(ordinal: int, config: str | None) -> Json:
    """A broker's pod that mounts a ConfigMap."""
    name = f"my-broker-{ordinal}"
    volumes = [{"name": "config", "configMap": {"name": config}}] if config is not None else []
    reference = {"controller": True, "uid": "my-broker", "kind": "StatefulSet", "name": "my-broker"}
    labels = {LABEL_COMPONENT: Component.BROKER.value}
    meta = {"name": name, "uid": name, "labels": labels, "ownerReferences": [reference]}
    return {"kind": "Pod", "metadata": meta, "spec": {"volumes": volumes}}


def config_of(objects: list[Json]) -> str:
    return next(
        o["metadata"]["name"] for o in objects if o["kind"] == "ConfigMap" and "broker" in o["metadata"]["name"]
    )


@pytest.mark.parametrize(
    ("old", "template", "rendered", "pods", "size", "whose"),
    [
        ("3/3/2", "3/3/2", 2, ["old"], 3, "brokers use until"),
        ("3/3/2", "2/2/2", 2, ["old", "new"], 3, "broker pod my-broker-0"),
        ("3/3/2", "2/2/2", 2, ["new", "old"], 3, "broker pod my-broker-1"),
        ("3/3/2", "2/2/2", 2, ["new", "new"], 2, "the default of managed ledgers"),
        ("2/2/2", "2/2/2", 4, ["old"], 4, "the default of managed ledgers"),
        ("3/3/2", "2/2/2", 2, ["gone"], 5, "configuration is unknown"),
        ("3/3/2", "2/2/2", 2, [None], 5, "configuration is unknown"),
        ("3/3/2", "2/2/2", 2, [], 2, "the default of managed ledgers"),
    ],
)
def test_the_default_is_that_of_the_brokers_that_run(
    old: str, template: str, rendered: int, pods: list[str | None], size: int, whose: str
) -> None:
    """What is rendered reaches them only when their turn has come."""
    before = children(Component.BROKER, quorum=Quorum.parse(old))
    objects = children(*ALL, quorum=Quorum.parse(template))
    names = {"old": config_of(before), "new": config_of(objects), "gone": "deleted", None: None}
    there = [broker_pod(n, names[each]) for n, each in enumerate(pods)]
    kept = [each for each in before if each["kind"] == "ConfigMap"]
    found = default_ensemble(Live.of(OWNER, [*kept, *objects, *there]), rendered)
    assert found.size == size and whose in found.whose
