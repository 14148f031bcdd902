"""Images for a registry: names, builders, and what is refused before anything is built."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from e2e.kind import __main__ as command_line
from e2e.kind import versions
from e2e.kind.cache import Cache
from e2e.kind.delivery import REGISTRY, Delivery, clean_steps, named_products, project_version, push_steps
from e2e.kind.docker import Docker
from e2e.kind.productimages import PRODUCTS, ImageBuilder
from e2e.kind.shell import Log

ROOT = Path(__file__).resolve().parents[3]
HOST = "registry.example.com/team"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words of each docker command that a step runs."""
    found: list[list[str]] = []
    monkeypatch.setattr(Docker, "program", lambda _self: "docker")
    monkeypatch.setattr(Docker, "has_buildx", lambda _self: True)
    monkeypatch.setattr(Docker, "has_image", lambda _self, _tag, _digest: True)
    monkeypatch.setattr(Log, "run", lambda _self, argv, **_: found.append([str(word) for word in argv][1:]))
    return found


def build(delivery: Delivery, tmp_path: Path) -> None:
    """Everything on stock bases."""
    products = named_products(delivery, ROOT)
    builder = ImageBuilder(Cache(tmp_path), Docker(), ROOT, "stock", products)
    for step in [*clean_steps(builder, delivery), *push_steps(Docker(), delivery, products)]:
        step.build(Log(tmp_path / "log"))


def test_names_are_those_that_the_charts_ask_for() -> None:
    """With imageRegistry as the only value that is set."""
    operator = yaml.safe_load((ROOT / "helm/pulsar-operator/values.yaml").read_text())
    pulsar = yaml.safe_load((ROOT / "helm/pulsar/values.yaml").read_text())
    charts = {
        name: yaml.safe_load((ROOT / "helm" / name / "Chart.yaml").read_text())
        for name in ("pulsar-operator", "pulsar")
    }
    asked = {name.replace("{version}", charts["pulsar"]["appVersion"]) for name in operator["pulsarImages"].values()}
    asked.add(f"{operator['image']['repository']}:{charts['pulsar-operator']['appVersion']}")
    for image in (pulsar["conformance"]["image"], pulsar["sizing"]["image"]):
        asked.add(f"{image['repository']}:{charts['pulsar']['version']}")
    assert {product.tag for product in named_products(Delivery(HOST), ROOT)} == {f"{HOST}/{name}" for name in asked}


def test_the_charts_take_the_registries_that_are_pushed_to() -> None:
    for chart in ("pulsar-operator", "pulsar"):
        schema = json.loads((ROOT / "helm" / chart / "values.schema.json").read_text())
        assert schema["properties"]["imageRegistry"]["pattern"] == f"^$|{REGISTRY.pattern}"


def test_the_local_images_are_others() -> None:
    """Of a cluster that runs, nothing changes when images for a registry are built."""
    assert not {product.tag for product in PRODUCTS} & {product.tag for product in named_products(Delivery(HOST), ROOT)}


@pytest.mark.parametrize("good", ["localhost:5000", "127.0.0.1:5000/a", "ghcr.io/some-one/pulsar_x", "r.example.com"])
def test_registries(good: str) -> None:
    Delivery(good).check("built", buildx=False)


@pytest.mark.parametrize(
    "bad", ["", "https://r.example.com", "r.example.com/", "r.example.com/Team", "r a", "/x", "r:p"]
)
def test_what_is_no_registry_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="give a host and a path"):
        Delivery(bad).check("stock", buildx=True)


@pytest.mark.parametrize(
    ("platform", "source", "buildx", "push", "why"),
    [
        ("linux/arm64", "built", True, True, "a registry for the base images"),
        ("linux/arm64", "stock", False, True, "needs docker buildx"),
        ("linux/amd64,linux/arm64", "stock", True, False, "need PUSH=1"),
        ("linux/amd64,linux/arm64", "stock", True, True, ""),
        ("linux/arm64", "stock", True, False, ""),
    ],
)
def test_what_another_platform_needs(platform: str, source: str, buildx: bool, push: bool, why: str) -> None:
    delivery = Delivery(HOST, push, platform)
    if not why:
        delivery.check("stock", buildx)
        return
    with pytest.raises(ValueError, match=why):
        delivery.check("stock" if source == "stock" else "built", buildx)


def test_stock_images_are_built_from_the_checkout_alone_and_pushed(ran: list[list[str]], tmp_path: Path) -> None:
    build(Delivery(HOST, push=True), tmp_path)
    builds, pushes = ran[: len(PRODUCTS)], ran[len(PRODUCTS) :]
    assert [words[0] for words in builds] == ["build"] * len(PRODUCTS)
    assert {words[-1] for words in builds} == {str(ROOT)}, "the context"
    tags = [words[words.index("--tag") + 1] for words in builds]
    assert pushes == [["push", tag] for tag in tags]
    bases = {words[words.index("--build-arg") + 1] for words in builds}
    assert bases == {f"BASE_IMAGE={name}" for name in (versions.STOCK_PULSAR_BASE, versions.STOCK_PYTHON_BASE)}


def test_without_push_nothing_is_pushed(ran: list[list[str]], tmp_path: Path) -> None:
    build(Delivery(HOST), tmp_path)
    assert [words for words in ran if words[0] != "build"] == []


@pytest.mark.parametrize(("push", "where"), [(True, "--push"), (False, "--load")])
def test_other_platforms_are_built_by_buildx_which_pushes(
    ran: list[list[str]], tmp_path: Path, push: bool, where: str
) -> None:
    build(Delivery(HOST, push, "linux/arm64"), tmp_path)
    assert len(ran) == len(PRODUCTS)
    for words in ran:
        assert words[:4] == ["buildx", "build", "--platform", "linux/arm64"]
        assert where in words and words[-1] == str(ROOT)


@pytest.mark.parametrize("option", [["--push"], ["--platform", "linux/arm64"]])
def test_nothing_is_pushed_nowhere(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["images", *option]) == 2
    assert "name the registry" in capsys.readouterr().err


def test_what_is_refused_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PULSAR_OPERATOR_IMAGES", "built")
    assert command_line.main(["images", "--registry", HOST, "--platform", "linux/arm64"]) == 2
    assert "fit this machine alone" in capsys.readouterr().err


def test_make_passes_on_what_is_asked() -> None:
    recipe = re.search(r"^images: .*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    for variable, option in {"REGISTRY": "--registry", "PUSH": "--push", "PLATFORM": "--platform"}.items():
        assert f"$(if $({variable}),{option}" in recipe[1]


def test_the_version_is_the_projects() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", project_version(ROOT))


def test_a_push_that_fails_says_how_to_log_in() -> None:
    delivery = Delivery(HOST, push=True)
    (first, *_rest) = push_steps(Docker(), delivery, named_products(delivery, ROOT))
    assert first.hint == "docker login registry.example.com"
    assert not first.fresh()
