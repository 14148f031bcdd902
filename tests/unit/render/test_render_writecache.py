"""The write cache of bookies has room for the largest message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.domain.render import render_cluster, spec_problems
from pulsar_operator.domain.render.presets import preset_values
from pulsar_operator.domain.render.writecache import FRAME_PADDING, WRITE_CACHE, write_cache, write_cache_problems
from tests.support.cluster.rendering import distributed, inputs, overrides

MIB = 1024 * 1024


def rendered(message: int | None, volumes: int, preset: str = "Small", **keeper: Any) -> dict[str, str]:
    broker = {} if message is None else {"maxMessageSize": message}
    ledgers = {"size": "1Gi", "count": volumes}
    spec = distributed(preset=preset, broker=broker, bookkeeper={"replicas": 1, "ledgers": ledgers, **keeper})
    return overrides(render_cluster(inputs(spec)).of(Component.BOOKIE))


@given(st.none() | st.integers(1024, 256 * MIB), st.integers(1, 8), st.sampled_from(list(Preset)))
def test_half_a_volumes_share_holds_a_frame(message: int | None, volumes: int, preset: Preset) -> None:
    keeper = BookKeeper.model_validate({"ledgers": {"size": "1Gi", "count": volumes}})
    base = preset_values(preset).config.get(Component.BOOKIE, {}).get(WRITE_CACHE)
    direct = preset_values(preset).sizing[Component.BOOKIE].direct
    assert direct is not None
    cache = float(write_cache(keeper, preset, message).get(WRITE_CACHE) or base or direct / 4)
    assert cache * MIB / volumes / 2 >= (message or 5 * MIB) + FRAME_PADDING


@pytest.mark.parametrize(
    ("message", "volumes", "preset", "expected"),
    [
        (8 * MIB, 1, "Small", "33"),
        (None, 2, "Small", "41"),
        (1 * MIB, 1, "Small", "16"),
        (8 * MIB, 1, "Production", None),
        (100 * MIB, 2, "Production", "801"),
    ],
)
def test_what_is_rendered(message: int | None, volumes: int, preset: str, expected: str | None) -> None:
    assert rendered(message, volumes, preset).get(WRITE_CACHE) == expected


def test_a_users_value_wins_where_a_message_fits() -> None:
    assert rendered(8 * MIB, 1, config={WRITE_CACHE: "20"})[WRITE_CACHE] == "20"


@pytest.mark.parametrize(
    ("message", "keeper", "words"),
    [
        (8 * MIB, {"config": {WRITE_CACHE: "16"}}, ["spec.bookkeeper.config.dbStorage_writeCacheMaxSizeMb = 16", "17"]),
        (60 * MIB, {}, ["spec.broker.maxMessageSize = 62914560", "128 MiB", "jvm.directMemory to 322m"]),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(message: int, keeper: dict[str, Any], words: list[str]) -> None:
    spec = distributed(preset="Small", broker={"maxMessageSize": message}, bookkeeper={"replicas": 1, **keeper})
    (problem,) = spec_problems(spec)
    for word in words:
        assert word in problem


def test_enough_direct_memory_is_accepted() -> None:
    keeper = BookKeeper.model_validate({"jvm": {"directMemory": "322m"}})
    assert write_cache_problems(keeper, Preset.SMALL, 60 * MIB) == []
