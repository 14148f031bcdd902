"""The product's own images, from the Dockerfiles in the repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from e2e.kind import conformancesite, dockerfile, javaclient, operatorsite, pulsar, rootfs, sizingsite, versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.docker import Docker, image_step
from e2e.kind.nodeimage import scratch_folder
from e2e.kind.shell import Log
from e2e.kind.source import Source
from e2e.kind.steps import SkippedError, Step


class Base(Enum):
    """What an image stands on."""

    PULSAR = "Pulsar's distribution with Java and Python"
    PYTHON = "Python alone"
    JAVA = "Java and Python"


@dataclass(frozen=True)
class Extra:
    """A folder of an image's context that comes from the cache and not from the repository."""

    path: str
    """Its place in the context. The Dockerfile names it with a ``*``: it builds without it too."""
    folder: Callable[[Cache], Path]
    digest: Callable[[Path, Source], str]
    """Inputs hash, by the root of the repository."""


@dataclass(frozen=True)
class Product:
    """One image: its tag, and the folder whose Dockerfile makes it with the root of the repository as context.

    With extras only the Dockerfile of that folder is part of the image, and what it copies.
    """

    tag: str
    folder: str
    base: Base = Base.PULSAR
    extras: tuple[Extra, ...] = ()
    pulsar: str = versions.PULSAR
    """Version of the Pulsar that it stands on."""


#: Where the Dockerfiles look for packages, and fetch them when there is no such folder.
PACKAGES = "packages"
OPERATOR = Product(
    "pulsar-operator:dev",
    "operator",
    Base.PYTHON,
    (
        Extra(
            PACKAGES,
            operatorsite.operator_site,
            lambda root, _source: operatorsite.operator_site_digest(root),
        ),
    ),
)
CONFORMANCE = Product(
    "pulsar-conformance:dev",
    "conformance_image",
    Base.JAVA,
    (
        Extra(PACKAGES, conformancesite.conformance_site, conformancesite.conformance_site_digest),
        Extra("java-client", javaclient.java_client, lambda _root, _source: javaclient.java_client_digest()),
    ),
)
SIZING = Product(
    "pulsar-sizing:dev",
    "sizing_image",
    Base.JAVA,
    (Extra(PACKAGES, sizingsite.sizing_site, sizingsite.sizing_site_digest),),
)


def server_images(version: str) -> tuple[Product, ...]:
    """What pods of a PulsarCluster run, on a version of Pulsar."""
    tag = versions.dev_tag(version)
    return (
        Product(f"pulsar-bookie:{tag}", "bookie_image", pulsar=version),
        Product(f"pulsar-broker:{tag}", "broker_image", pulsar=version),
        Product(f"pulsar-proxy:{tag}", "proxy", pulsar=version),
    )


PRODUCTS = (*server_images(versions.PULSAR), OPERATOR, CONFORMANCE, SIZING)
#: What an upgrade begins with; only its tests need them, so nothing else builds or loads them.
OLDER_PRODUCTS = server_images(versions.OLDER_PULSAR)


def product_tags() -> list[str]:
    """The tags of all product images."""
    return [product.tag for product in PRODUCTS]


def pulsar_base(source: Source, version: str = versions.PULSAR) -> str:
    """The base image of the bookie, broker and proxy images; of the others with Java too where it is a stock one."""
    return versions.stock_pulsar_base(version) if source == "stock" else versions.built_pulsar_base(version)


def python_base(source: Source) -> str:
    """The base image of the operator image."""
    return versions.STOCK_PYTHON_BASE if source == "stock" else versions.BUILT_PYTHON_BASE


@dataclass(frozen=True)
class ImageBuilder:
    """Builds the product images of one checkout."""

    cache: Cache
    docker: Docker
    root: Path
    source: Source
    products: tuple[Product, ...] = PRODUCTS

    def steps(self) -> list[Step]:
        """What images take from the cache, then one step an image; what the repository lacks is skipped with a word."""
        return [
            operatorsite.operator_site_step(self.cache, self.root),
            conformancesite.conformance_site_step(self.cache, self.root, self.source),
            javaclient.java_client_step(self.cache),
            sizingsite.sizing_site_step(self.cache, self.root, self.source),
            *self.image_steps(),
        ]

    def image_steps(self) -> list[Step]:
        """One step an image; for images that take nothing from the cache they are all there is to do."""
        return [self._step(product) for product in self.products]

    def digest(self, product: Product) -> str:
        """Inputs hash of one image: its Dockerfile, its folder, what the Dockerfile copies, and its base image.

        Raises FileNotFoundError without a Dockerfile, MissingSourceError when it copies what is not there.
        """
        recipe = self.root / product.folder / "Dockerfile"
        if not recipe.is_file():
            raise FileNotFoundError(f"no {product.folder}/Dockerfile in the repository yet")
        inputs = [recipe, *self._sources(product)]
        if not product.extras:
            inputs.append(self.root / product.folder)
        parts = [product.tag, self.base(product), self._base_digest(product), digest_paths(self.root, inputs)]
        return digest_texts(*parts, *(extra.digest(self.root, self.source) for extra in product.extras))

    def _step(self, product: Product) -> Step:
        name = f"image {product.tag}"
        try:
            digest = self.digest(product)
        except (FileNotFoundError, dockerfile.MissingSourceError) as reason:
            return Step(name, lambda: False, _skip(str(reason)))
        return image_step(self.docker, name, product.tag, digest, lambda log: self._build(product, digest, log))

    def _build(self, product: Product, digest: str, log: Log) -> None:
        with scratch_folder(self.cache, product.folder) as context:
            dockerfile.stage(self.root, self._sources(product), context)
            for extra in product.extras:
                self._add(log, extra, context)
            recipe = self.root / product.folder / "Dockerfile"
            arguments = {"BASE_IMAGE": self.base(product)}
            before = self.docker.image_facts([product.tag]).get(product.tag)
            self.docker.build(log, product.tag, context, digest, dockerfile=recipe, build_args=arguments)
            after = self.docker.image_facts([product.tag]).get(product.tag)
            if before is not None and before != after:
                # The image that lost its tag is of no use to anybody; where it is in use, the engine keeps it.
                self.docker.succeeds("image", "rm", before[0])

    def _sources(self, product: Product) -> list[Path]:
        sources = dockerfile.copy_sources((self.root / product.folder / "Dockerfile").read_text())
        extras = {f"{extra.path}*" for extra in product.extras}
        return dockerfile.source_paths(self.root, [source for source in sources if source not in extras])

    def _add(self, log: Log, extra: Extra, context: Path) -> None:
        folder = extra.folder(self.cache)
        if not folder.is_dir():
            raise SkippedError(f"{folder} is not there yet")
        target = context / extra.path
        target.parent.mkdir(parents=True, exist_ok=True)
        log.run(["cp", "-al", folder, target])

    def base(self, product: Product) -> str:
        """The image that one stands on."""
        if product.base is Base.PYTHON:
            return python_base(self.source)
        if product.base is Base.JAVA and self.source == "built":
            # A layer of the Pulsar base image; the stock one has no layer of that kind to stand on.
            return rootfs.JAVA.tag
        return pulsar_base(self.source, product.pulsar)

    def _base_digest(self, product: Product) -> str:
        if self.source == "stock":
            return "stock"
        if product.base is Base.PULSAR:
            return pulsar.base_digest(product.pulsar)
        return (rootfs.PYTHON if product.base is Base.PYTHON else rootfs.JAVA).digest()


def _skip(reason: str) -> Callable[[Log], None]:
    def build(log: Log) -> None:
        raise SkippedError(reason)

    return build
