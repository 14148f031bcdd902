"""The product images for a registry of one's own: under the names that the charts ask for, for other processors too."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from e2e.kind import versions
from e2e.kind.docker import Docker, image_step
from e2e.kind.productimages import PRODUCTS, Base, ImageBuilder, Product
from e2e.kind.shell import Argument, Log
from e2e.kind.source import Source
from e2e.kind.steps import Step

#: Host, port and path, without scheme and without a slash at the end; the charts' value imageRegistry is the same.
REGISTRY = re.compile(r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$")


@dataclass(frozen=True)
class Delivery:
    """What is asked for: names below a registry, whether they are pushed there, and for which processors."""

    registry: str
    push: bool = False
    platform: str = ""
    """As docker buildx takes it, such as linux/amd64,linux/arm64; "" = this machine's."""

    def check(self, source: Source, buildx: bool) -> None:
        """Raise ValueError, with what to do instead, for what cannot be had."""
        if not REGISTRY.match(self.registry):
            raise ValueError(f"REGISTRY={self.registry}: give a host and a path, such as registry.example.com/team")
        if not self.platform:
            return
        if source == "built":
            raise ValueError("PLATFORM needs a registry for the base images: those built here fit this machine alone")
        if not buildx:
            raise ValueError("PLATFORM needs docker buildx, which this Docker client lacks: install the plugin first")
        if "," in self.platform and not self.push:
            raise ValueError("several platforms in one image need PUSH=1: the local engine keeps one of them")

    def name(self, product: Product, version: str) -> str:
        """The full name of an image: Pulsar's have Pulsar's version, the others the project's."""
        short = product.tag.split(":")[0]
        return f"{self.registry}/{short}:{versions.PULSAR if product.base is Base.PULSAR else version}"


def project_version(root: Path) -> str:
    """The project's version, which is the charts' too."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def named_products(delivery: Delivery, root: Path) -> tuple[Product, ...]:
    """The products under their names in the registry."""
    version = project_version(root)
    return tuple(replace(product, tag=delivery.name(product, version)) for product in PRODUCTS)


def clean_steps(builder: ImageBuilder, delivery: Delivery) -> list[Step]:
    """Build on stock images with the checkout as context: packages and jars are fetched in the build."""
    return [_clean_step(builder, product, delivery) for product in builder.products]


def push_steps(docker: Docker, delivery: Delivery, products: tuple[Product, ...]) -> list[Step]:
    """Push the images that lie in the engine; none where they were pushed as they were built, or stay here."""
    if not delivery.push or delivery.platform:
        return []
    hint = f"docker login {delivery.registry.split('/')[0]}"

    def push(tag: str) -> Callable[[Log], None]:
        return lambda log: docker.run(log, "push", tag)

    return [Step(f"push {each.tag}", lambda: False, push(each.tag), done_word="pushed", hint=hint) for each in products]


def _clean_step(builder: ImageBuilder, product: Product, delivery: Delivery) -> Step:
    docker, recipe = builder.docker, builder.root / product.folder / "Dockerfile"
    arguments = {"BASE_IMAGE": builder.base(product)}
    name = f"image {product.tag}"
    if not delivery.platform:
        digest = builder.digest(product)

        def build(log: Log) -> None:
            docker.build(log, product.tag, builder.root, digest, dockerfile=recipe, build_args=arguments)

        return image_step(docker, name, product.tag, digest, build)

    def cross_build(log: Log) -> None:
        words: list[Argument] = ["buildx", "build", "--platform", delivery.platform, "--file", recipe]
        for key, value in arguments.items():
            words += ["--build-arg", f"{key}={value}"]
        docker.run(log, *words, "--tag", product.tag, "--push" if delivery.push else "--load", builder.root)

    done = "built and pushed" if delivery.push else "built"
    return Step(f"{name} for {delivery.platform}", lambda: False, cross_build, done_word=done)
