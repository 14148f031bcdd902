"""A container may have the memory that its Java is given; one that takes more is killed."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import spec_problems
from tests.support.cluster.rendering import distributed, standalone

FIELDS: dict[str, tuple[str, ...]] = {
    "spec.metadataStore.managed": ("metadataStore", "managed"),
    "spec.bookkeeper": ("bookkeeper",),
    "spec.bookkeeper.autoRecovery": ("bookkeeper", "autoRecovery"),
    "spec.broker": ("broker",),
    "spec.proxy": ("proxy",),
}


def spec_with(path: tuple[str, ...], **settings: Any) -> PulsarClusterSpec:
    section: dict[str, Any] = {"replicas": 1, **settings} if path != ("bookkeeper", "autoRecovery") else settings
    for name in reversed(path[1:]):
        section = {name: section}
    return distributed(**{path[0]: section})


def limits(memory: str) -> dict[str, Any]:
    return {"limits": {"memory": memory}}


@pytest.mark.parametrize("field", FIELDS)
def test_a_limit_below_heap_and_direct_memory_is_refused(field: str) -> None:
    jvm = {"heap": "1g", "directMemory": "512m"}
    (problem,) = spec_problems(spec_with(FIELDS[field], jvm=jvm, resources=limits("1535Mi")))
    assert problem.startswith(f"{field}.resources.limits.memory = 1535 MiB is less than a heap of 1024 MiB and 512 MiB")
    assert f"Raise the limit to more than 1536Mi, or set {field}.jvm.heap" in problem
    for enough in ("1536Mi", "2Gi", "1610612736", "2G"):
        assert spec_problems(spec_with(FIELDS[field], jvm=jvm, resources=limits(enough))) == []


@pytest.mark.parametrize("field", FIELDS)
def test_the_memory_of_the_preset_counts(field: str) -> None:
    (problem,) = spec_problems(spec_with(FIELDS[field], resources=limits("64Mi")))
    assert f"{field}.resources.limits.memory = 64 MiB" in problem
    assert spec_problems(spec_with(FIELDS[field], resources={"requests": {"memory": "64Mi"}})) == []
    assert spec_problems(spec_with(FIELDS[field], resources={"limits": {"cpu": "1"}})) == []


def test_standalone_too() -> None:
    assert spec_problems(standalone(resources=limits("639Mi")))
    assert spec_problems(standalone(resources=limits("640Mi"))) == []
