"""What the presets give: another figure would roll every pod of everybody at the next upgrade of the operator."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm, Preset
from pulsar_operator.domain.render.listeners import bookie_id
from pulsar_operator.domain.render.presets import jvm_arguments, preset_values

# Heap, direct memory, CPU, initial heap, requested and allowed beyond these; memory in MiB.
SMALL = {
    Component.ZOOKEEPER: (96, None, "50m", 32, 64, 192),
    Component.CONFIGURATION_STORE: (96, None, "50m", 32, 64, 192),
    Component.BOOKIE: (160, 128, "50m", 64, 96, 256),
    Component.AUTORECOVERY: (96, 64, "50m", 32, 64, 160),
    Component.BROKER: (256, 192, "100m", 64, 128, 320),
    Component.PROXY: (128, 128, "50m", 32, 64, 192),
    Component.STANDALONE: (384, 256, "100m", 64, 192, 384),
}
PRODUCTION = {
    Component.ZOOKEEPER: (512, None, "250m", 512, 256, 512),
    Component.CONFIGURATION_STORE: (512, None, "250m", 512, 256, 512),
    Component.BOOKIE: (2048, 2048, "1", 2048, 512, 1024),
    Component.AUTORECOVERY: (512, 256, "250m", 512, 256, 512),
    Component.BROKER: (2048, 4096, "1", 2048, 512, 1024),
    Component.PROXY: (1024, 1024, "500m", 1024, 256, 512),
    Component.STANDALONE: (2048, 2048, "1", 2048, 512, 1024),
}


@pytest.mark.parametrize(("preset", "sizes"), [(Preset.SMALL, SMALL), (Preset.PRODUCTION, PRODUCTION)])
def test_sizes_stay_as_they_are(preset: Preset, sizes: dict[Component, tuple[object, ...]]) -> None:
    found = preset_values(preset)
    assert {component: astuple(sizing) for component, sizing in found.sizing.items()} == sizes
    assert found.requests_include_direct is (preset is Preset.PRODUCTION)


def test_a_bookie_is_known_by_its_host_and_bookkeepers_port() -> None:
    """Pods' names alone: the cookie of a bookie is found by it after every restart."""
    assert bookie_id("east-bookie", 2, "ns", "cluster.local").endswith(":3181")


@pytest.mark.parametrize(
    ("component", "direct", "argument"),
    [
        (Component.ZOOKEEPER, None, []),
        (Component.ZOOKEEPER, "64m", ["-XX:MaxDirectMemorySize=64m"]),
        (Component.BROKER, None, ["-XX:MaxDirectMemorySize=192m"]),
        (Component.BROKER, "1g", ["-XX:MaxDirectMemorySize=1g"]),
    ],
)
def test_direct_memory_is_the_users_or_the_presets(
    component: Component, direct: str | None, argument: list[str]
) -> None:
    arguments = jvm_arguments(component, Preset.SMALL, Jvm(direct_memory=direct))
    assert [each for each in arguments if "DirectMemory" in each] == argument
