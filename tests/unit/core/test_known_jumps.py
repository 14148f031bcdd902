"""The jumps between versions that a process knows: the file of the package, and the setting that adds to it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml
from kubernetes.aio.client.configuration import Configuration

from e2e.kind.dockerfile import copy_sources, source_paths, stage
from pulsar_operator.adapters.kube_http import KubeClient
from pulsar_operator.domain.dataplane.rollout.versions import Jumps, decide
from pulsar_operator.ports import Deps
from pulsar_operator.runtime import Operator, known_jumps
from pulsar_operator.settings import Settings, load

ROOT = Path(__file__).resolve().parents[3]
MATRIX = Path("operator/pulsar_operator/data/version_jumps.toml")
PULSAR = tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))["pulsar"]


def test_the_tested_upgrade_is_built_in_both_ways_and_nothing_else() -> None:
    old, new = PULSAR["upgrade_from"], PULSAR["tested"]
    assert known_jumps(Settings()) == Jumps(frozenset({(old, new), (new, old)}))


def test_the_setting_adds_to_what_is_built_in() -> None:
    settings = load({"PULSAR_OPERATOR_UPGRADE_PATHS": "4.0.8 -> 4.0.9"})
    jumps = known_jumps(settings)
    assert jumps == known_jumps(Settings()) | Jumps.parse("4.0.8 -> 4.0.9")
    assert decide(frozenset({"4.0.6"}), "4.0.9", jumps).path == ("4.0.8", "4.0.9")


async def test_controllers_get_them() -> None:
    settings = load({"PULSAR_OPERATOR_UPGRADE_PATHS": "4.0.8 -> 4.0.9"})
    given: list[Deps] = []

    def note(deps: Deps) -> dict[object, object]:
        given.append(deps)
        return {}

    operator = Operator(settings, KubeClient(Configuration(host="http://127.0.0.1:1")), note)  # type: ignore[arg-type]
    try:
        assert [deps.jumps for deps in given] == [known_jumps(settings)]
    finally:
        await operator._close()


def test_the_image_has_the_file(tmp_path: Path) -> None:
    sources = copy_sources((ROOT / "operator/Dockerfile").read_text())
    stage(ROOT, source_paths(ROOT, [source for source in sources if source.endswith("pulsar_operator")]), tmp_path)
    assert (tmp_path / MATRIX).read_text() == (ROOT / MATRIX).read_text()


def test_the_chart_says_what_is_built_in() -> None:
    """In the comment of the value, and on its page."""
    entry = f"{PULSAR['upgrade_from']} <-> {PULSAR['tested']}"
    values = (ROOT / "helm/pulsar-operator/values.yaml").read_text()
    assert entry in values.partition("\nupgradePaths:")[0].rpartition("\n\n")[2]
    assert yaml.safe_load(values)["upgradePaths"] == []
    page = (ROOT / "helm/pulsar-operator/README.md").read_text()
    assert f"{PULSAR['upgrade_from']} and {PULSAR['tested']}, in both directions" in page
