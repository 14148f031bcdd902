"""The pages for a reader: nobody who is called at night meets a reason that leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.healing import SETS, Healing
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import render_cluster, spec_problems
from tests.support.cluster.rendering import inputs
from tests.support.documents import EXAMPLES, ROOT, example

PAGE = (ROOT / "docs/on-call.md").read_text(encoding="utf-8")

PLATFORMS = [file for file in EXAMPLES if file.parent.name == "platforms"]


@pytest.mark.parametrize("reason", sorted(SETS[Healing.CHANGE] | SETS[Healing.CONSENT] | SETS[Healing.OTHERS]))
def test_what_waiting_does_not_heal_is_on_the_page(reason: Reason) -> None:
    assert f"`{reason}`" in PAGE


def test_pages_are_as_long_as_a_reader_has_time() -> None:
    for name, most in (("applications", 200), ("on-call", 300), ("platforms", 300)):
        assert len((ROOT / f"docs/{name}.md").read_text(encoding="utf-8").splitlines()) < most


@pytest.mark.parametrize("file", PLATFORMS, ids=lambda file: file.stem)
def test_examples_of_platforms_render(file: Path) -> None:
    (cluster,) = [one.obj for one in example(file) if one.obj["kind"] == Kind.CLUSTER.value]
    spec = PulsarClusterSpec.model_validate(cluster["spec"])
    assert spec_problems(spec) == []
    sets = [each for each in render_cluster(inputs(spec)).all() if each["kind"] == "StatefulSet"]
    assert sorted(each["spec"]["replicas"] for each in sets) == [1, 2, 3, 3, 3]


def test_there_is_an_example_for_each_platform_of_the_page() -> None:
    assert [file.stem for file in PLATFORMS] == ["aks", "eks", "gke", "openshift"]
