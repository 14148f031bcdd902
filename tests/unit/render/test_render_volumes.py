"""Journal and entry logs fit their volumes, whatever the size; a combination that does not fit is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.api.v1alpha1.quantities import MEBI
from pulsar_operator.domain.render import render_cluster, spec_problems
from pulsar_operator.domain.render.volumes import (
    store_limits,
    store_volume_problems,
    volume_limits,
    volume_problems,
)
from tests.support.cluster.rendering import distributed, inputs, overrides

GIB = 2**30


def keeper(journal: str = "10Gi", ledgers: str = "50Gi", **config: str) -> BookKeeper:
    return BookKeeper.model_validate({"journal": {"size": journal}, "ledgers": {"size": ledgers}, "config": config})


@pytest.mark.parametrize(
    ("journal", "ledgers", "limits"),
    [
        ("10Gi", "50Gi", ("1280", "4", str(GIB))),
        ("20Gi", "32Gi", ("2048", "5", str(GIB))),
        ("1Ti", "2Ti", ("2048", "5", str(GIB))),
        ("1Gi", "2Gi", ("128", "4", str(64 * MEBI))),
        ("1073741824", "2147483648", ("128", "4", str(64 * MEBI))),
        ("16M", "400Mi", ("1", "5", str(16 * MEBI))),
    ],
)
def test_the_settings_follow_from_the_sizes(journal: str, ledgers: str, limits: tuple[str, ...]) -> None:
    assert tuple(volume_limits(keeper(journal, ledgers), Preset.PRODUCTION).values()) == limits


def test_a_preset_is_not_exceeded() -> None:
    assert volume_limits(keeper(), Preset.SMALL)["journalMaxSizeMB"] == "64"


@given(st.integers(16, 2**22), st.integers(400, 2**24), st.sampled_from(Preset))
def test_they_always_fit(journal: int, ledgers: int, preset: Preset) -> None:
    given = keeper(f"{journal}Mi", f"{ledgers}Mi")
    limits = {name: int(text) for name, text in volume_limits(given, preset).items()}
    assert volume_problems(given, preset) == []
    assert (limits["journalMaxBackups"] + 3) * limits["journalMaxSizeMB"] <= 0.95 * journal
    assert 1 <= limits["journalMaxBackups"] <= 5 and 1 <= limits["journalMaxSizeMB"] <= 2048
    assert 1.2 * limits["logSizeLimit"] <= 0.05 * ledgers * MEBI + 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            keeper(journalMaxSizeMB="2048"),
            ["spec.bookkeeper.journal.size = 10Gi", "journalMaxSizeMB = 2048", "14336 MiB"],
        ),
        (keeper("1Gi", journalMaxBackups="20"), ["journalMaxBackups = 20", "lower or remove"]),
        (keeper("4Mi"), ["spec.bookkeeper.journal.size = 4Mi", "Raise the size"]),
        (keeper(ledgers="300Mi"), ["spec.bookkeeper.ledgers.size = 300Mi", "15 MiB", "the minimum"]),
        (keeper(ledgers="10Gi", logSizeLimit="1073741824"), ["logSizeLimit = 1073741824", "could compact nothing"]),
        (keeper(diskUsageThreshold="0.99"), ["diskUsageThreshold = 0.99"]),
        (keeper(diskUsageThreshold="0.5"), ["diskUsageThreshold = 0.5", "diskUsageWarnThreshold (0.9)"]),
    ],
)
def test_what_does_not_fit_is_refused(given: BookKeeper, words: list[str]) -> None:
    problems = volume_problems(given, Preset.PRODUCTION)
    assert len(problems) == 1 and all(word in problems[0] for word in words), problems


def test_what_a_user_sets_and_fits_stays() -> None:
    given = keeper(
        journalMaxSizeMB="512", journalMaxBackups="9", logSizeLimit=str(256 * MEBI), diskUsageThreshold="0.9"
    )
    assert volume_problems(given, Preset.PRODUCTION) == []
    assert volume_problems(keeper(journalMaxSizeMB="many"), Preset.PRODUCTION) == []
    low = keeper(diskUsageThreshold="0.01", diskUsageWarnThreshold="0.01")
    assert volume_problems(low, Preset.PRODUCTION) == []


def test_they_reach_the_bookies_and_the_condition() -> None:
    config: dict[str, Any] = {"journalMaxBackups": "2"}
    spec = distributed(
        preset="Production", bookkeeper={"journal": {"size": "8Gi"}, "ledgers": {"size": "16Gi"}, "config": config}
    )
    found = overrides(render_cluster(inputs(spec)).of(Component.BOOKIE))
    assert (found["journalMaxSizeMB"], found["journalMaxBackups"]) == ("1024", "2")
    assert found["logSizeLimit"] == str(512 * MEBI)
    small = distributed(bookkeeper={"journal": {"size": "1Mi"}})
    assert any("spec.bookkeeper.journal.size" in text for text in spec_problems(small))


def store(size: str = "10Gi", **config: str) -> ManagedZooKeeper:
    named = {name.replace("_", "."): text for name, text in config.items()}
    return ManagedZooKeeper.model_validate({"storage": {"size": size}, "config": named})


@pytest.mark.parametrize(
    ("size", "limits"),
    [
        ("10Gi", ("327680", "65536")),
        ("1Gi", ("32768", "32768")),
        ("1Ti", ("4194304", "65536")),
        ("100Mi", ("3200", "3200")),
    ],
)
def test_the_logs_of_zookeeper_follow_from_the_size(size: str, limits: tuple[str, ...]) -> None:
    assert tuple(store_limits(store(size)).values()) == limits


@given(st.integers(16, 2**22))
def test_the_logs_of_zookeeper_always_fit(size: int) -> None:
    limits = {name: int(text) for name, text in store_limits(store(f"{size}Mi")).items()}
    assert store_volume_problems(store(f"{size}Mi"), "x") == []
    assert 4 * max(limits.values()) <= size * 1024 / 2
    assert limits["preAllocSize"] <= 65536 and limits["snapSizeLimitInKb"] <= 4194304


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"snapSizeLimitInKb": "4194304"}, ["spec.x.storage.size = 10Gi", "16384 MiB", "snapSizeLimitInKb = 4194304"]),
        ({"autopurge_snapRetainCount": "50"}, ["16320 MiB", "spec.x.config.autopurge.snapRetainCount = 50"]),
        ({"preAllocSize": "2000000"}, ["7812 MiB", "preAllocSize = 2000000"]),
    ],
)
def test_settings_of_zookeeper_that_do_not_fit_are_refused(config: dict[str, str], words: list[str]) -> None:
    (problem,) = store_volume_problems(store(**config), "spec.x")
    assert all(word in problem for word in words), problem
    assert store_volume_problems(store("1Ti", **config), "spec.x") == []


def test_an_ensemble_is_given_them_and_asked_for_them() -> None:
    spec = distributed(metadataStore={"managed": {"storage": {"size": "1Gi"}}})
    assert overrides(render_cluster(inputs(spec)).of(Component.ZOOKEEPER))["snapSizeLimitInKb"] == "32768"
    spec = distributed(metadataStore={"managed": {"config": {"snapSizeLimitInKb": "9999999"}}})
    assert any("snapSizeLimitInKb = 9999999" in problem for problem in spec_problems(spec))
