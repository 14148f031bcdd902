"""The cluster autoscaler may take a node away that has our pods, and no pod is replaced to tell it so."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_LOCAL_VOLUMES, ANNOTATION_RESTART, Kind
from pulsar_operator.domain.apply import stamped
from pulsar_operator.domain.dataplane.objects.local_volumes import with_local_volumes, without_a_roll
from pulsar_operator.domain.dataplane.objects.template_record import Stop, TemplateRecord, template_hash, with_template
from pulsar_operator.ports import PODS, STATEFUL_SETS, Json
from tests.support.cluster.rolls import BROKEN, reason, three, two
from tests.support.cluster.world import ClusterWorld

RENDERERS = ("cluster.cluster_controller", "instance.configuration_store")


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An operator that knew nothing of the annotation, until it is undone."""
    for module in RENDERERS:
        name = f"pulsar_operator.controllers.dataplane.{module}.with_local_volumes"
        monkeypatch.setattr(name, dict)
    yield monkeypatch


async def told(world: ClusterWorld) -> dict[str, str | None]:
    """What the annotation of each pod says."""
    return {
        pod["metadata"]["name"]: pod["metadata"]["annotations"].get(ANNOTATION_LOCAL_VOLUMES)
        for pod in await world.backstage.all(PODS)
    }


def volumes_of(pod: Json) -> list[str]:
    return [each["name"] for each in pod["spec"]["volumes"] if "emptyDir" in each]


async def test_every_pod_names_exactly_its_empty_dirs() -> None:
    def scratch(spec: Json) -> None:
        spec["proxy"]["pod"] = {"volumes": [{"name": "scratch", "emptyDir": {}}]}

    world = await three(scratch)
    said = await told(world)
    for pod in await world.backstage.all(PODS):
        assert said[pod["metadata"]["name"]] == ",".join(volumes_of(pod))
    assert said["east-broker-0"] == "tmp,logs,conf-rendered"
    assert said["east-proxy-0"] == "tmp,logs,conf-rendered,scratch"


async def test_a_users_own_annotation_stays() -> None:
    def own(spec: Json) -> None:
        spec["proxy"]["pod"] = {"annotations": {ANNOTATION_LOCAL_VOLUMES: "tmp"}}

    assert (await told(await three(own)))["east-proxy-0"] == "tmp"


async def test_an_upgrade_of_the_operator_rolls_nothing_and_the_next_roll_brings_it(
    earlier: pytest.MonkeyPatch,
) -> None:
    world = await two(2)
    earlier.undo()
    gone = list(world.journal.pods_gone())
    await world.run()
    assert world.journal.pods_gone() == gone
    assert set((await told(world)).values()) == {None}, "of the instance's configuration store too"
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_RESTART, "certificates")
    await world.run()
    said = await told(world)
    assert {name for name, text in said.items() if text} == {name for name in said if name.startswith("east-")}
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_RESTART, None)
    gone = list(world.journal.pods_gone())
    await world.run()
    assert world.journal.pods_gone() == gone


async def test_a_roll_that_stopped_is_not_tried_again_by_an_upgrade_of_the_operator(
    earlier: pytest.MonkeyPatch,
) -> None:
    world = await three()
    world.workloads.troubles.append(BROKEN)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(image={"proxy": "pulsar-proxy:broken"}))
    await world.run()
    world.clock.forward(700)
    await world.run()
    assert await reason(world) == "RolloutFailed"
    earlier.undo()
    gone = list(world.journal.pods_gone())
    await world.run()
    assert await reason(world) == "RolloutFailed"
    assert world.journal.pods_gone() == gone


PLAIN: Json = {
    "kind": STATEFUL_SETS.kind,
    "metadata": {"name": "s"},
    "spec": {"replicas": 1, "template": {"spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]}}},
}
ANNOTATED = with_local_volumes(PLAIN)


def other(manifest: Json) -> Json:
    """The same with another pod template."""
    changed: Json = copy.deepcopy(manifest)
    changed["spec"]["template"]["spec"]["hostname"] = "x"
    return changed


def applied(manifest: Json) -> Json:
    """As a cluster applies it."""
    return stamped(with_template(manifest, template_hash(manifest), manifest["spec"]["template"]))


@pytest.mark.parametrize("as_applied", [applied, stamped, lambda manifest: manifest])
def test_the_annotation_comes_and_stays(as_applied: Any) -> None:
    assert without_a_roll(ANNOTATED, PLAIN, None) == ANNOTATED
    assert without_a_roll(ANNOTATED, PLAIN, as_applied(ANNOTATED)) == ANNOTATED
    assert without_a_roll(ANNOTATED, PLAIN, as_applied(PLAIN)) == PLAIN
    assert without_a_roll(other(ANNOTATED), other(PLAIN), as_applied(PLAIN)) == other(ANNOTATED)
    assert without_a_roll(other(ANNOTATED), other(PLAIN), as_applied(ANNOTATED)) == other(ANNOTATED)


def test_a_change_of_size_is_no_roll() -> None:
    larger = {**PLAIN, "spec": {**PLAIN["spec"], "replicas": 3}}
    assert without_a_roll(with_local_volumes(larger), larger, applied(PLAIN)) == larger


def test_a_stopped_roll_stays_the_same_roll() -> None:
    record = TemplateRecord(stop=Stop(template_hash(other(PLAIN)), "broken"))
    assert without_a_roll(other(ANNOTATED), other(PLAIN), applied(PLAIN), record) == other(PLAIN)


def test_a_pod_without_local_volumes_says_nothing() -> None:
    bare = {**PLAIN, "spec": {"template": {"spec": {}}}}
    assert with_local_volumes(bare) == bare
