"""Which keys of config are applied: names by version, near names, prefixes, plug-ins, what no image has."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import render_cluster, spec_problems
from pulsar_operator.domain.render.config import OVERRIDES_FILE, check_config, overrides_text, parse_overrides
from pulsar_operator.domain.render.presets import preset_values
from pulsar_operator.domain.render.reserved import AUTORECOVERY_KEYS
from pulsar_operator.domain.render.settings import (
    CONFIG_FIELDS,
    TABLES,
    KnownSettings,
    judge,
    left_out,
    sift,
    with_kept,
)
from pulsar_operator.runtime import known_settings
from tests.support.cluster.rendering import distributed, inputs, standalone
from tests.support.documents import EXAMPLES, PAGES, example, shown

ROOT = Path(__file__).resolve().parents[3]
PULSAR = tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))["pulsar"]
TESTED = PULSAR["tested"]
KNOWN = known_settings()
COMPONENTS = [component for component in TABLES if component is not Component.AUTORECOVERY]


def test_there_is_a_list_of_every_tested_version() -> None:
    assert {TESTED, PULSAR["upgrade_from"]} <= set(KNOWN.versions)


@pytest.mark.parametrize(
    ("component", "key", "near"),
    [
        (Component.BROKER, "batchIndexAcknowledgeEnable", "acknowledgmentAtBatchIndexLevelEnabled"),
        (Component.BROKER, "brokerDeleteInactiveTopicEnabled", "brokerDeleteInactiveTopicsEnabled"),
        (Component.BROKER, "managedledgercachesizemb", "managedLedgerCacheSizeMB"),
        (Component.BROKER, "nosuchkeyatall", None),
        (Component.BROKER, "journalSyncData", None),
        (Component.PROXY, "maxConcurentLookupRequests", "maxConcurrentLookupRequests"),
        (Component.BOOKIE, "gcWaitTme", "gcWaitTime"),
        (Component.BOOKIE, "lostBookieRecoveryDelai", "lostBookieRecoveryDelay"),
        (Component.ZOOKEEPER, "autopurge.purgeIntervall", "autopurge.purgeInterval"),
        (Component.CONFIGURATION_STORE, "snapCont", "snapCount"),
        (Component.STANDALONE, "nosuchkeyatall", None),
    ],
)
def test_an_unknown_key_is_not_applied_and_told_with_the_nearest_name(
    component: Component, key: str, near: str | None
) -> None:
    found = judge(component, TESTED, {key: "1"}, KNOWN)
    assert found.applied == {}
    (problem,) = found.problems
    assert problem.startswith(
        f'{CONFIG_FIELDS[component]} key "{key}" is not applied, because Pulsar {TESTED} does not know it. '
    )
    if near is not None:
        assert problem.endswith(f". Write {near} instead")
    elif key == "nosuchkeyatall":
        assert problem.endswith(f". Remove the key, or write PULSAR_PREFIX_{key} to apply it unchecked")


@pytest.mark.parametrize(
    ("component", "key"),
    [
        (Component.BROKER, "managedLedgerCacheSizeMB"),
        (Component.BROKER, "bookkeeper_anything"),
        (Component.BROKER, "brokerClient_connectionsPerBroker"),
        (Component.BROKER, "PULSAR_PREFIX_nosuchkeyatall"),
        (Component.BROKER, "s3ManagedLedgerOffloadBucket"),
        (Component.PROXY, "brokerClient_connectionsPerBroker"),
        (Component.PROXY, "httpReverseProxy.1.path"),
        (Component.BOOKIE, "dbStorage_writeCacheMaxSizeMb"),
        (Component.BOOKIE, "dbStorage_anything"),
        (Component.BOOKIE, "auditorPeriodicBookieCheckInterval"),
        (Component.ZOOKEEPER, "snapshot.compression.method"),
        (Component.ZOOKEEPER, "metricsProvider.anything"),
        (Component.STANDALONE, "journalSyncData"),
        (Component.STANDALONE, "brokerDeleteInactiveTopicsEnabled"),
    ],
)
def test_known_keys_and_declared_prefixes_are_applied(component: Component, key: str) -> None:
    assert judge(component, TESTED, {key: "1"}, KNOWN).problems == ()


PLUG_INS: list[tuple[dict[str, str], bool]] = [
    ({"messagingProtocols": "kafka"}, True),
    ({"messagingProtocols": ""}, False),
    ({"entryFilterNames": "jms"}, True),
    ({"topicFactoryClassName": "com.example.Topics"}, True),
    ({"brokerEntryMetadataInterceptors": "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"}, False),
    (
        {"brokerEntryMetadataInterceptors": "org.apache.pulsar.common.intercept.A, io.example.Mine"},
        True,
    ),
    ({"managedLedgerCacheSizeMB": "1.5"}, False),
]


@pytest.mark.parametrize(("config", "loads"), PLUG_INS)
def test_a_config_that_loads_plug_ins_may_have_their_keys(config: dict[str, str], loads: bool) -> None:
    found = judge(Component.BROKER, TESTED, {**config, "kafkaListeners": "x"}, KNOWN)
    assert ("kafkaListeners" in found.applied) is loads


@pytest.mark.parametrize("component", [Component.BROKER, Component.STANDALONE])
@pytest.mark.parametrize("key", ["managedLedgerOffloadDriver", "PULSAR_PREFIX_managedLedgerOffloadDriver"])
def test_an_offload_driver_is_not_applied_whatever_the_version(component: Component, key: str) -> None:
    """The rest of the config is."""
    for version in (TESTED, "4.9.9"):
        found = judge(component, version, {key: "aws-s3", "maxProducersPerTopic": "7"}, KNOWN)
        assert found.applied == {"maxProducersPerTopic": "7"}
        (problem,) = found.problems
        assert problem.endswith("no image of this version has an offload driver, which tiered storage requires")
    assert judge(component, TESTED, {key: " "}, KNOWN).problems == ()


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_version_without_a_list_applies_all(component: Component) -> None:
    assert judge(component, "4.9.9", {"nosuchkeyatall": "1"}, KNOWN).applied == {"nosuchkeyatall": "1"}


@pytest.mark.parametrize(
    ("version", "config", "unchecked"),
    [("4.9.9", {"a": "b"}, True), ("4.9.9", None, False), (TESTED, {"a": "b"}, False)],
)
def test_a_version_without_a_list_is_told_where_there_is_a_config(
    version: str, config: dict[str, str] | None, unchecked: bool
) -> None:
    assert sift(distributed(version=version, proxy={"config": config}), KNOWN).unchecked is unchecked


def test_a_reserved_key_is_refused_by_its_reason_and_not_as_unknown() -> None:
    for key in ("zkServers", "PULSAR_PREFIX_zkServers", "bad key"):
        assert judge(Component.BROKER, TESTED, {key: "x"}, KNOWN).problems == ()
        assert check_config(Component.BROKER, {key: "x"})


def test_one_setting_in_two_forms_is_refused() -> None:
    (problem,) = check_config(Component.BROKER, {"abc": "1", "PULSAR_PREFIX_abc": "2"})
    assert (
        problem
        == 'spec.broker.config has both "abc" and "PULSAR_PREFIX_abc", which set the same key. Remove one of them'
    )


@pytest.mark.parametrize("spec", [distributed(), standalone()], ids=["distributed", "standalone"])
@pytest.mark.parametrize("preset", list(Preset))
@pytest.mark.parametrize("version", sorted(KNOWN.versions))
def test_what_the_operator_itself_renders_is_known(spec: PulsarClusterSpec, preset: Preset, version: str) -> None:
    rendered = render_cluster(inputs(spec.model_copy(update={"preset": preset, "version": version})))
    for component, manifests in rendered.components.items():
        for manifest in manifests:
            if OVERRIDES_FILE in manifest.get("data", {}):
                config = parse_overrides(manifest["data"][OVERRIDES_FILE])
                assert config
                assert left_out(component, version, config, KNOWN) == {}
    for component, config in preset_values(preset).config.items():
        assert left_out(component, version, config, KNOWN) == {}
    assert left_out(Component.AUTORECOVERY, version, dict.fromkeys(AUTORECOVERY_KEYS, ""), KNOWN) == {}


def test_every_config_of_examples_and_pages_is_known() -> None:
    looked = 0
    for each in [e for file in EXAMPLES for e in example(file)] + [e for page in PAGES for e in shown(page)]:
        if each.obj["kind"] == "PulsarCluster":
            spec = PulsarClusterSpec.model_validate(each.obj["spec"])
            found = sift(spec, KNOWN)
            looked += "config" in json.dumps(each.obj["spec"])
            assert found.problems == (), each.where
    assert looked > 1


def test_a_specification_is_sifted_in_every_section() -> None:
    config = {"nosuchkeyatall": "1"}
    spec = distributed(
        metadataStore={"managed": {"config": {**config, "snapCount": "5"}}},
        bookkeeper={"config": {**config, "gcWaitTime": "5"}},
        broker={"config": {**config, "maxProducersPerTopic": "5"}},
        proxy={"config": config},
    )
    found = sift(spec, KNOWN)
    assert [problem.partition(" key")[0] for problem in found.problems] == [
        "spec.metadataStore.managed.config",
        "spec.bookkeeper.config",
        "spec.broker.config",
        "spec.proxy.config",
    ]
    assert found.spec.metadata_store and found.spec.metadata_store.managed and found.spec.bookkeeper
    assert found.spec.metadata_store.managed.config == {"snapCount": "5"}
    assert found.spec.bookkeeper.config == {"gcWaitTime": "5"}
    assert found.spec.broker and found.spec.broker.config == {"maxProducersPerTopic": "5"}
    assert found.spec.proxy and found.spec.proxy.config is None
    assert spec_problems(found.spec) == []
    (problem,) = sift(standalone(config=config), KNOWN).problems
    assert problem.startswith("spec.standalone.config")


def test_keys_that_pods_run_with_are_kept_where_they_are_unknown() -> None:
    spec = distributed(broker={"config": {"maxProducersPerTopic": "5"}})
    running = {Component.BROKER: {"nosuchkeyatall": "1", "maxConsumersPerTopic": "9", "PULSAR_PREFIX_x": "1"}}
    kept = with_kept(spec, KNOWN, running)
    assert kept is not None and kept.broker is not None
    assert kept.broker.config == {"nosuchkeyatall": "1", "maxProducersPerTopic": "5"}
    assert with_kept(spec, KNOWN, {Component.BROKER: {"maxConsumersPerTopic": "9"}}) is None
    bookies = with_kept(spec, KNOWN, {Component.BOOKIE: {"a": "1"}, Component.AUTORECOVERY: {"auditorX": "2"}})
    assert bookies is not None and bookies.bookkeeper is not None
    assert bookies.bookkeeper.config == {"a": "1", "auditorX": "2"}


def test_overrides_are_read_as_they_were_written() -> None:
    values = {"PULSAR_PREFIX_b": "x=y", "a": "1", "c": ""}
    text = overrides_text(values)
    assert "\n# PULSAR_PREFIX_b\nb=x=y\n" in f"\n{text}"
    assert parse_overrides(text) == values


def test_many_unknown_keys_take_no_time_to_compare() -> None:
    """Near names are looked for only where they are shown: comparing takes as long as the keys are many and long."""
    config: dict[str, Any] = {f"unknownKey{number}": "1" for number in range(512)} | {"x" * 4096: "1"}
    found = judge(Component.BROKER, TESTED, config, KNOWN)
    assert len(found.problems) == 513
    assert sum(": write " in problem for problem in found.problems) <= 5
    assert all(len(problem) < 400 for problem in found.problems)


def test_a_list_is_of_its_version() -> None:
    known = KnownSettings.parse({"4.1.0": {"broker": ["fresh"]}})
    assert judge(Component.BROKER, "4.1.0", {"fresh": "1"}, known).problems == ()
    assert judge(Component.BROKER, TESTED, {"fresh": "1"}, KNOWN).problems != ()


def test_the_chart_has_the_lists() -> None:
    """For the admission policy."""
    files = sorted((ROOT / "operator/pulsar_operator/data/settings").glob("*.json"))
    copies = sorted((ROOT / "helm/pulsar-operator/files/settings").glob("*.json"))
    assert [file.name for file in files] == [file.name for file in copies] != []
    assert [file.read_text() for file in files] == [file.read_text() for file in copies]
