"""Each Dockerfile builds from a clean checkout alone: what it copies is there, and is sent to the builder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.kind import versions
from e2e.kind.dockerfile import copy_sources
from e2e.kind.productimages import PRODUCTS, Base, Product
from requirements import fetch

ROOT = Path(__file__).resolve().parents[3]
PYSPARK = re.compile(r"^pyspark==", re.MULTILINE)


def text_of(product: Product) -> str:
    return (ROOT / product.folder / "Dockerfile").read_text()


def given(product: Product) -> set[str]:
    """What may be in the context beside the checkout."""
    return {f"{extra.path}*" for extra in product.extras}


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.folder)
def test_what_is_copied_is_in_the_checkout(product: Product) -> None:
    sources = copy_sources(text_of(product))
    assert given(product) <= set(sources)
    assert [source for source in sources if source not in given(product) and not any(ROOT.glob(source))] == []


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.folder)
def test_what_may_be_missing_is_copied_together_with_a_file(product: Product) -> None:
    """A COPY all of whose sources are missing fails; and so does a pattern below a folder that is not there."""
    for instruction in re.findall(r"^COPY (.*) \S+$", text_of(product), re.MULTILINE):
        words = instruction.split()
        missing = [word for word in words if word in given(product)]
        assert [word for word in missing if "/" in word] == []
        assert len(words) > len(missing), instruction


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.folder)
def test_what_is_copied_is_sent_to_the_builder(product: Product) -> None:
    ignored, *lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored == "*"
    sent = [line.removeprefix("!") for line in lines if line.startswith("!")]
    for source in set(copy_sources(text_of(product))) - given(product):
        assert any(source == path or source.startswith(f"{path}/") for path in sent), source


def test_the_image_of_the_suite_has_all_its_packages() -> None:
    (suite,) = [product for product in PRODUCTS if product.folder == "conformance_image"]
    packages = {path.parent.name for path in (ROOT / "operator/pulsar_conformance").glob("*/__init__.py")}
    copied = {Path(source).name for source in copy_sources(text_of(suite)) if not source.endswith(".py")}
    assert packages - copied == {"java"}, "of which it gets the Python side alone"


def test_what_python_leaves_behind_is_not_sent() -> None:
    assert {"**/__pycache__", "**/*.pyc"} <= set((ROOT / ".dockerignore").read_text().splitlines())


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.folder)
def test_the_base_is_the_stock_image_of_the_pinned_version(product: Product) -> None:
    stock = versions.STOCK_PYTHON_BASE if product.base is Base.PYTHON else versions.STOCK_PULSAR_BASE
    assert f"ARG BASE_IMAGE={stock}\nFROM ${{BASE_IMAGE}}\n" in text_of(product)


def test_the_locked_jars_are_those_of_the_java_program() -> None:
    pom = (ROOT / "operator/pulsar_conformance/java/pom.xml").read_text().replace("${pulsar.version}", versions.PULSAR)
    pattern = r"<dependency>\s*<groupId>(.*)</groupId>\s*<artifactId>(.*)</artifactId>\s*<version>(.*)</version>"
    wanted = {(group.replace(".", "/"), name, version) for group, name, version in re.findall(pattern, pom)}
    locked = {tuple(path.rsplit("/", 3)[:3]) for _, path in fetch.locked_jars(ROOT / "requirements/java.txt")}
    assert wanted and wanted <= locked


def test_what_is_published_as_source_alone_is_made_by_locked_tools() -> None:
    assert PYSPARK.search((ROOT / "requirements/sizing.txt").read_text())
    assert re.search(r"^setuptools==\S+ \\\n    --hash=sha256:", (ROOT / "requirements/build.txt").read_text(), re.M)
