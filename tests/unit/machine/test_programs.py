"""Go programs, prerequisites, base images and paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.kind import golang, nodeimage, versions
from e2e.kind.__main__ import parser
from e2e.kind.cache import Cache
from e2e.kind.golang import RECIPES, fill_placeholders, parse_go_version
from e2e.kind.kindconfig import ports_file
from e2e.kind.paths import paths
from e2e.kind.prereq import Need, explain, packages_for
from e2e.kind.rootfs import JAVA, PYTHON, mmdebstrap_command

PROGRAMS = (golang.KUBERNETES, golang.ETCD, golang.COREDNS, golang.HELM, golang.PROVISIONER, golang.GITOPS_HEALTH)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_recipe_gets_all_its_versions(program: golang.Program) -> None:
    text = (RECIPES / "go" / program.name / "go.mod.in").read_text()
    filled = fill_placeholders(text, versions.go_placeholders())
    assert "@" not in filled
    assert filled.startswith("module ")


def test_an_unknown_placeholder_is_an_error() -> None:
    with pytest.raises(ValueError, match="@NOPE@"):
        fill_placeholders("require x v@NOPE@", {"ETCD": "1"})


def test_a_version_changes_only_the_programs_that_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {program.name: program.digest() for program in PROGRAMS}
    monkeypatch.setattr(versions, "HELM_KUBERNETES_LIBS", "0.36.9")
    after = {program.name: program.digest() for program in PROGRAMS}
    assert [name for name in before if before[name] != after[name]] == ["helm"]


@pytest.mark.parametrize(
    ("text", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26)), ("go version go1.25rc1 linux/arm64", (1, 25)), ("nonsense", (0, 0))],
)
def test_go_versions(text: str, version: tuple[int, int]) -> None:
    assert parse_go_version(text) == version


def test_a_missing_program_is_named_in_one_sentence_with_its_command() -> None:
    needs = [Need("a", ("p", "q"), "of this"), Need("b", ("q",), "of that")]
    assert packages_for(needs) == ["p", "q"]
    sentence = explain(needs)
    assert "\n" not in sentence
    assert "a (of this), b (of that)" in sentence
    assert sentence.endswith("sudo apt-get install p q")


def test_the_node_holds_every_image_once() -> None:
    images = nodeimage.all_images()
    assert len(set(images)) == len(images)
    assert f"registry.k8s.io/kube-apiserver:v{versions.KUBERNETES}" in images


def test_the_wheels_are_for_the_python_of_the_base_image() -> None:
    assert PYTHON.suite == "bookworm"
    assert versions.IMAGE_PYTHON == "3.11"
    assert versions.IMAGE_PYTHON in versions.STOCK_PYTHON_BASE


def test_the_command_that_makes_a_base_image() -> None:
    command = mmdebstrap_command(JAVA, Path("/c/x.tar"))
    assert command[0] == "mmdebstrap"
    assert command[-2:] == ["trixie", "/c/x.tar"]
    assert any("openjdk-21-jre-headless" in word for word in command)


def test_paths_are_known_before_anything_is_there(tmp_path: Path) -> None:
    known = paths(environ={"XDG_CACHE_HOME": str(tmp_path)})
    assert known.etcd == tmp_path / "pulsar-operator" / "bin" / "etcd"
    assert known["kube_apiserver"] == str(known.kube_apiserver)
    assert known["kubeconfigs"] == {}
    assert json.loads(json.dumps(known.as_json()))["images"]["pulsar-broker"] == f"pulsar-broker:{versions.DEV_TAG}"


def test_paths_know_the_ports_a_cluster_was_made_with(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    ports = ports_file(cache.root, "east")
    ports.parent.mkdir(parents=True)
    ports.write_text('{"pulsar_port": 16650, "web_port": 18080}')
    cache.kubeconfig("east").write_text("")
    known = paths(cache, {})
    assert known.clusters() == ["east"]
    assert (known.pulsar_port("east"), known.web_port("east")) == (16650, 18080)
    assert (known.pulsar_port("west"), known.node("west")) == (6650, "west-control-plane")


def test_the_command_line() -> None:
    asked = parser().parse_args(["up", "pulsar-e2e", "--pulsar-port", "16650", "--no-audit"])
    assert (asked.name, asked.pulsar_port, asked.web_port, asked.audit) == ("pulsar-e2e", 16650, 8080, False)
    assert parser().parse_args(["up", "x"]).audit is True
    assert parser().parse_args(["load", "x"]).images == []
