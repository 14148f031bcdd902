"""Keys of config that Pulsar does not know: not applied, told, and no pod is replaced for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.cluster.cluster_controller import ClusterController
from pulsar_operator.controllers.dataplane.instance.instance_controller import InstanceController
from pulsar_operator.domain.render.settings import KnownSettings
from pulsar_operator.ports import CONFIG_MAPS, PODS, Json
from tests.support.cluster.copies import converged, made_once
from tests.support.cluster.world import ClusterWorld, quickstart

MISSPELLED = {"batchIndexAcknowledgeEnable": "true"}
KNOWN = {"maxProducersPerTopic": "7"}


def knowing(world: ClusterWorld, settings: KnownSettings) -> ClusterWorld:
    """An operator with other lists of settings takes over."""
    deps = replace(world.deps, settings=settings)
    world.controllers |= {Kind.CLUSTER: ClusterController(deps), Kind.INSTANCE: InstanceController(deps)}
    return world


@made_once
async def from_before(section: str) -> ClusterWorld:
    """A cluster that runs with a misspelled key, since its operator knew no settings."""
    manifests = quickstart()
    manifests[1]["spec"][section]["config"] = dict(MISSPELLED)
    world = knowing(ClusterWorld.fakes(), KnownSettings())
    await world.apply(*manifests)
    await world.run()
    assert await world.all_ready() == {}
    return world


async def overrides(world: ClusterWorld, workload: str) -> str:
    name = await world.configuration(workload)
    return str((await world.get(CONFIG_MAPS, name))["data"]["overrides.conf"])


async def told(world: ClusterWorld) -> tuple[str, str, str]:
    return await world.condition(Kind.CLUSTER, "east", "ConfigApplied")


def setting(section: str, config: dict[str, str] | None) -> object:
    def change(spec: Json) -> None:
        at = spec["metadataStore"]["managed"] if section == "metadataStore" else spec[section]
        at["config"] = config

    return change


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("metadataStore", "spec.metadataStore.managed.config"),
        ("bookkeeper", "spec.bookkeeper.config"),
        ("broker", "spec.broker.config"),
        ("proxy", "spec.proxy.config"),
    ],
)
async def test_a_misspelled_key_rolls_nothing_and_is_told(section: str, field: str) -> None:
    world = await converged(*quickstart())
    pods = await world.uids(PODS)
    await world.change(Kind.CLUSTER, "east", setting(section, {"nosuchkeyatall": "1"}))  # type: ignore[arg-type]
    await world.run()
    assert await world.uids(PODS) == pods
    status, reason, message = await told(world)
    assert (status, reason) == ("False", "ConfigNotApplied")
    assert message == (
        f'{field} key "nosuchkeyatall" is not applied, because Pulsar 4.0.8 does not know it. Remove the key, or write '
        "PULSAR_PREFIX_nosuchkeyatall to apply it unchecked. All other settings are applied"
    )
    assert await world.all_ready() == {}, "the cluster serves as before"
    await world.change(Kind.CLUSTER, "east", setting(section, None))  # type: ignore[arg-type]
    await world.run()
    assert await world.uids(PODS) == pods
    assert (await told(world))[0] == "absent"


async def test_other_keys_are_applied() -> None:
    world = await converged(*quickstart())
    config = {**MISSPELLED, **KNOWN, "managedLedgerOffloadDriver": "aws-s3"}
    await world.change(Kind.CLUSTER, "east", setting("broker", config))  # type: ignore[arg-type]
    await world.run()
    text = await overrides(world, "east-broker")
    assert "\nmaxProducersPerTopic=7\n" in text
    assert "batchIndexAcknowledgeEnable" not in text and "managedLedgerOffloadDriver" not in text
    _, _, message = await told(world)
    assert "Write acknowledgmentAtBatchIndexLevelEnabled instead. " in message
    assert "no image of this version has an offload driver, which tiered storage requires" in message
    assert await world.all_ready() == {}


async def test_an_unchecked_key_is_applied_and_taken_out_again() -> None:
    world = await converged(*quickstart())
    pods = await world.uids(PODS)
    await world.change(Kind.CLUSTER, "east", setting("broker", {"PULSAR_PREFIX_own": "1"}))  # type: ignore[arg-type]
    await world.run()
    assert "\nown=1\n" in await overrides(world, "east-broker")
    between = await world.uids(PODS)
    assert {name for name, uid in between.items() if pods[name] != uid} == {"east-broker-0"}
    assert (await told(world))[0] == "absent"
    await world.change(Kind.CLUSTER, "east", setting("broker", None))  # type: ignore[arg-type]
    await world.run()
    assert "own=1" not in await overrides(world, "east-broker")
    assert (await world.uids(PODS))["east-broker-0"] != between["east-broker-0"]


@pytest.mark.parametrize("section", ["bookkeeper", "broker", "proxy"])
async def test_an_operator_that_knows_better_replaces_no_pod(section: str) -> None:
    """Nor does the correction that takes the key out; the next roll with a reason of its own leaves it out."""
    world = await from_before(section)
    workload = "east-bookie" if section == "bookkeeper" else f"east-{section}"
    assert "batchIndexAcknowledgeEnable=true" in await overrides(world, workload)
    assert (await told(world))[:2] == ("True", "ConfigUnchecked")
    pods = await world.uids(PODS)
    world.restart()
    await world.run()
    assert await world.uids(PODS) == pods
    assert (await told(world))[:2] == ("False", "ConfigNotApplied")

    more = {**MISSPELLED, "nosuchkeyatall": "1"}
    for config in (more, None):
        await world.change(Kind.CLUSTER, "east", setting(section, config))  # type: ignore[arg-type]
        await world.run()
        assert await world.uids(PODS) == pods
    assert (await told(world))[0] == "absent"

    known = {"bookkeeper": "gcWaitTime", "broker": "maxProducersPerTopic", "proxy": "maxConcurrentLookupRequests"}
    await world.change(Kind.CLUSTER, "east", setting(section, {known[section]: "77777"}))  # type: ignore[arg-type]
    await world.run()
    text = await overrides(world, workload)
    assert f"{known[section]}=77777" in text and "batchIndexAcknowledgeEnable" not in text
    assert {name for name, uid in (await world.uids(PODS)).items() if pods[name] != uid} >= {f"{workload}-0"}


async def test_a_version_that_nobody_knows_gets_all_of_it_and_says_so() -> None:
    world = knowing(ClusterWorld.fakes(), KnownSettings.parse({"4.1.0": {"broker": []}}))
    manifests = quickstart()
    manifests[1]["spec"]["broker"]["config"] = dict(MISSPELLED)
    await world.apply(*manifests)
    await world.run()
    status, reason, message = await told(world)
    assert (status, reason) == ("True", "ConfigUnchecked")
    assert "The operator does not know the settings of Pulsar 4.0.8" in message
    assert "batchIndexAcknowledgeEnable=true" in await overrides(world, "east-broker")


async def test_the_configuration_store_likewise() -> None:
    manifests = quickstart()
    store = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}, "config": {"snapCount": "5000"}}}
    manifests[0]["spec"] = {"configurationStore": store}
    world = await converged(*manifests)
    pods = await world.uids(PODS)

    def misspell(spec: Json) -> None:
        spec["configurationStore"]["managed"]["config"] = {"snapCount": "5000", "snapCont": "1"}

    await world.change(Kind.INSTANCE, "demo", misspell)
    await world.run()
    assert await world.uids(PODS) == pods
    status, reason, message = await world.condition(Kind.INSTANCE, "demo", "ConfigApplied")
    assert (status, reason) == ("False", "ConfigNotApplied")
    assert 'spec.configurationStore.managed.config key "snapCont" is not applied' in message
    assert "Write snapCount" in message
    assert await world.all_ready() == {}
