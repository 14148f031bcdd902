"""The images of the Pulsar that upgrades begin with: the same steps as for the tested one, beside its outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.kind import pulsar, versions
from e2e.kind.__main__ import COMMANDS, parser
from e2e.kind.cache import Cache
from e2e.kind.docker import Docker
from e2e.kind.machine import Machine
from e2e.kind.productimages import OLDER_PRODUCTS, PRODUCTS, Base, ImageBuilder, pulsar_base
from e2e.kind.shell import Log
from e2e.kind.source import Source
from e2e.kind.steps import Step

ROOT = Path(__file__).resolve().parents[3]
OLDER, TESTED = versions.OLDER_PULSAR, versions.PULSAR


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("older-images", Cache(tmp_path), Docker(), ROOT)


def steps(machine: Machine, source: Source, monkeypatch: pytest.MonkeyPatch, what: str = "older-images") -> list[Step]:
    """What a command would do."""
    found: list[Step] = []
    monkeypatch.setattr(Machine, "_source", lambda _self: source)
    monkeypatch.setattr(Machine, "_run", lambda _self, plan: found.extend(plan))
    machine.make(what)
    return found


def test_the_older_one_is_another() -> None:
    assert OLDER != TESTED
    assert versions.dev_tag(TESTED) == versions.DEV_TAG


def test_images_of_what_pods_of_a_cluster_run_beside_the_others() -> None:
    assert {product.tag for product in OLDER_PRODUCTS} == {
        f"pulsar-{name}:{OLDER}-dev" for name in ("bookie", "broker", "proxy")
    }
    servers = [product for product in PRODUCTS if product.base is Base.PULSAR]
    assert [product.folder for product in servers] == [product.folder for product in OLDER_PRODUCTS]
    assert {product.pulsar for product in servers} == {TESTED}


@pytest.mark.parametrize("source", ["built", "stock"])
def test_each_image_stands_on_its_own_pulsar(source: Source, tmp_path: Path) -> None:
    builder = ImageBuilder(Cache(tmp_path), Docker(), ROOT, source)
    for older, newer in zip(OLDER_PRODUCTS, PRODUCTS, strict=False):
        assert builder.base(older) == pulsar_base(source, OLDER) != builder.base(newer) == pulsar_base(source)
        assert OLDER in builder.base(older)
        assert builder.digest(older) != builder.digest(newer)
    assert pulsar.base_digest(OLDER) != pulsar.base_digest() == pulsar.base_digest(TESTED)


def test_an_image_is_made_anew_with_its_own_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ImageBuilder(Cache(tmp_path), Docker(), ROOT, "built")
    before = [builder.digest(product) for product in (OLDER_PRODUCTS[0], PRODUCTS[0])]
    true = pulsar.base_digest

    def changed(version: str = TESTED) -> str:
        return "another" if version == OLDER else true(version)

    monkeypatch.setattr(pulsar, "base_digest", changed)
    after = [builder.digest(product) for product in (OLDER_PRODUCTS[0], PRODUCTS[0])]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, True]


def test_what_is_made_names_the_older_version_alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [step.name for step in steps(machine, "built", monkeypatch)]
    assert names[2:] == [
        f"pulsar {OLDER}",
        "java base image (trixie)",
        f"pulsar base image pulsar-operator/pulsar-server:{OLDER}-local1",
        f"image pulsar-bookie:{OLDER}-dev",
        f"image pulsar-broker:{OLDER}-dev",
        f"image pulsar-proxy:{OLDER}-dev",
    ]


def test_a_registry_has_its_base(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"pull apachepulsar/pulsar:{OLDER}" in [step.name for step in steps(machine, "stock", monkeypatch)]


def test_nothing_else_builds_them(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tests no upgrade waits for none of it."""
    names = " ".join(step.name for step in steps(machine, "built", monkeypatch, "images"))
    assert TESTED in names and OLDER not in names


def test_the_distributions_lie_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetched by the same call; one is not taken for the other, nor unpacked over it."""
    cache, ran = Cache(tmp_path), list[str]()

    def run(_self: Log, argv: list[object], **_: object) -> None:
        words = [str(word) for word in argv]
        ran.append(" ".join(words))
        if words[0] == "mvn":
            (Path(words[-1].removeprefix("-DoutputDirectory=")) / "a-bin.tar.gz").write_text("")
        else:
            version = next(version for version in (OLDER, TESTED) if f":{version}:" in ran[-2])
            home = Path(words[-1]) / f"apache-pulsar-{version}"
            for folder in ("bin", "lib"):
                (home / folder).mkdir(parents=True)
            (home / "bin" / "pulsar").write_text(version)

    monkeypatch.setattr(Log, "run", run)
    for version in (TESTED, OLDER):
        step = pulsar.distribution_step(cache, version)
        assert not step.fresh()
        step.build(Log(tmp_path / "log"))
    assert f"-Dartifact=org.apache.pulsar:pulsar-server-distribution:{OLDER}:tar.gz:bin" in ran[2]
    assert ran[2].replace(OLDER, TESTED).split()[:5] == ran[0].split()[:5]
    for version in (TESTED, OLDER):
        assert pulsar.distribution_step(cache, version).fresh()
        assert (pulsar.pulsar_home(cache, version) / "bin" / "pulsar").read_text() == version


def test_it_is_a_command() -> None:
    assert parser().parse_args(["older-images"]).command == "older-images"
    page = (ROOT / "e2e/kind/README.md").read_text()
    assert "| `older-images` |" in page and f":{OLDER}-dev" in page
    assert "older-images" in COMMANDS
