"""README.md against the repository: pages, targets, commands, versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from e2e.demo.ending import IN_CLUSTER, TOPIC, commands, ending

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
VERSIONS = tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))
IMAGE = f"registry.example.com/team/pulsar-broker:{VERSIONS['pulsar']['tested']}"


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "helm").glob("*/README.md"))], ids=str
)
def test_every_page_is_linked(page: Path) -> None:
    assert f"]({page.relative_to(ROOT)})" in README


def test_every_target_it_names_is_one() -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`(?:[A-Z_]+=\w+ )?make ([a-z][a-z0-9-]*)", README))
    named |= set(re.findall(r"^make ([a-z][a-z0-9-]*)", README, re.MULTILINE))
    assert {"demo", "demo-down", "test", "images", "help", "setup"} <= named
    assert named <= targets


def test_every_file_of_a_command_is_there() -> None:
    named = re.findall(r"(?<= )(?:helm|examples|operator)/[\w./-]+", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_values_it_sets_are_the_charts() -> None:
    values = yaml.safe_load((ROOT / "helm/pulsar-operator/values.yaml").read_text())
    keys = re.findall(r"--set '?(\w+)=", README)
    assert "imageRegistry" in keys
    assert set(keys) <= set(values)


def test_the_first_message_is_what_the_demo_ends_with() -> None:
    _objects, *messages = commands("kubectl", IMAGE)
    for command in messages:
        assert f"\n{command}\n" in README


def test_the_demo_ends_with_the_service_url_and_three_commands() -> None:
    text = ending("kubectl --context mine", IMAGE, "pulsar://127.0.0.1:6650")
    assert "from here:    pulsar://127.0.0.1:6650\n" in text and IN_CLUSTER in text
    assert len(re.findall(r"^  kubectl --context mine ", text, re.MULTILINE)) == 3
    assert "port-forward service/east-proxy" in ending("kubectl", IMAGE, "")


def test_the_first_message_goes_to_the_quickstart() -> None:
    names = {
        (found["kind"], found["metadata"]["name"])
        for found in yaml.safe_load_all((ROOT / "examples/quickstart.yaml").read_text())
    }
    tenant, namespace, topic = TOPIC.removeprefix("persistent://").split("/")
    wanted = {("PulsarTenant", tenant), ("PulsarNamespace", namespace), ("PulsarTopic", topic)}
    assert wanted | {("PulsarCluster", "east"), ("PulsarTopic", "clicks")} <= names
    assert "\nkubectl create namespace pulsar\n" in README


@pytest.mark.parametrize("name", ["kubernetes", "pulsar", "helm", "python"])
def test_the_tested_versions_are_told(name: str) -> None:
    assert f"| {VERSIONS[name]['tested']} |" in README
