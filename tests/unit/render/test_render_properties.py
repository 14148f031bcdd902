"""No argument of Java sets what config may not set."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import check_config, spec_problems, store_problems
from pulsar_operator.domain.render.properties import VARIABLES
from tests.support.cluster.rendering import distributed, standalone

Json = dict[str, Any]
GUARDS = ["snapshot.trust.empty", "db.autocreate"]
LAID_OVER = "-Dorg.apache.bookkeeper.conf.readsystemproperties=true"


def with_section(component: Component, section: Json) -> PulsarClusterSpec:
    """A specification with a section of one component."""
    match component:
        case Component.ZOOKEEPER:
            return distributed(metadataStore={"managed": {"replicas": 1, **section}})
        case Component.BOOKIE:
            return distributed(bookkeeper={"replicas": 2, **section})
        case Component.AUTORECOVERY:
            return distributed(bookkeeper={"replicas": 2, "autoRecovery": section})
        case Component.STANDALONE:
            return standalone(**section)
    return distributed(**{component.value: {"replicas": 2, **section}})


def options(*arguments: str) -> Json:
    return {"jvm": {"options": list(arguments)}}


def variable(name: str, *arguments: str) -> Json:
    return {"pod": {"env": [{"name": name, "value": " ".join(arguments)}]}}


@pytest.mark.parametrize(
    "key", [*GUARDS, "skipACL", "ssl.keyStore.location", "DigestAuthenticationProvider.superDigest"]
)
def test_what_config_reserves_no_argument_sets(key: str) -> None:
    """An empty server that trusts itself founds a second ensemble over the data of the first."""
    argument = f"-Dzookeeper.{key}=canary"
    for section, place in [
        (options("-Xss1m", argument), "jvm.options[1]"),
        *((variable(name, "-Xss1m", f"'{argument}'"), f'pod.env "{name}"') for name in VARIABLES),
    ]:
        (problem,) = spec_problems(with_section(Component.ZOOKEEPER, section))
        assert problem.startswith(
            f"spec.metadataStore.managed.{place} sets zookeeper.{key}, which is reserved, because "
        )
        assert problem.endswith(". Remove the setting")
        assert "canary" not in problem


def test_a_configuration_store_is_checked_where_it_stands() -> None:
    spec = with_section(Component.ZOOKEEPER, options("-Dzookeeper.db.autocreate=true"))
    assert spec.metadata_store and spec.metadata_store.managed
    field = "spec.configurationStore.managed"
    (problem,) = store_problems(spec.metadata_store.managed, Component.CONFIGURATION_STORE, field, spec.preset)
    assert problem.startswith(f"{field}.jvm.options[0] sets zookeeper.db.autocreate")


@pytest.mark.parametrize("key", GUARDS)
def test_what_protects_an_ensemble_is_reserved_in_config(key: str) -> None:
    """ZooKeeper puts a key that it does not know over the property on its command line."""
    (problem,) = check_config(Component.ZOOKEEPER, {key: "true"})
    assert "an empty server must not found a new ensemble over existing data" in problem


@pytest.mark.parametrize(
    "component",
    [
        Component.ZOOKEEPER,
        Component.BOOKIE,
        Component.AUTORECOVERY,
        Component.BROKER,
        Component.PROXY,
        Component.STANDALONE,
    ],
)
def test_properties_are_not_laid_over_the_settings_of_bookkeeper(component: Component) -> None:
    """With it, -DjournalDirectories moves the journal off its volume."""
    for section in (options(LAID_OVER), variable("PULSAR_EXTRA_OPTS", LAID_OVER)):
        (problem,) = spec_problems(with_section(component, section))
        assert "it would override settings of BookKeeper" in problem


def test_other_arguments_are_the_users() -> None:
    free = ["-Dzookeeper.maxCnxns=100", "-Dx=-Dzookeeper.db.autocreate", "-XX:+UseZGC"]
    assert spec_problems(with_section(Component.ZOOKEEPER, options(*free))) == []
    assert spec_problems(with_section(Component.ZOOKEEPER, variable("PULSAR_EXTRA_OPTS", *free, "-Dy='open"))) == []
    client = "-Dzookeeper.ssl.keyStore.location=/mnt/tls/keystore.p12"
    assert spec_problems(with_section(Component.BROKER, options(client))) == [], "of a client it is no server's"
    secret = {"name": "PULSAR_EXTRA_OPTS", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
    assert spec_problems(with_section(Component.ZOOKEEPER, {"pod": {"env": [secret]}})) == []
