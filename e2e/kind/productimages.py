"""The product's own images, from the Dockerfiles in the repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.kind import dockerfile, operatorsite, pulsar, rootfs, versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.docker import Docker, image_step
from e2e.kind.nodeimage import scratch_folder
from e2e.kind.shell import Log
from e2e.kind.source import Source
from e2e.kind.steps import SkippedError, Step


@dataclass(frozen=True)
class Product:
    """One image: its tag, and the folder whose Dockerfile makes it with the root of the repository as context."""

    tag: str
    folder: str
    python: bool = False


OPERATOR = Product("pulsar-operator:dev", "operator", python=True)
PRODUCTS = (
    Product(f"pulsar-bookie:{versions.DEV_TAG}", "bookie_image"),
    Product(f"pulsar-broker:{versions.DEV_TAG}", "broker_image"),
    Product(f"pulsar-proxy:{versions.DEV_TAG}", "proxy"),
    OPERATOR,
)
#: The folder of the operator's context that comes from the cache and not from the repository.
SITE = "site"


def product_tags() -> list[str]:
    """The tags of all product images."""
    return [product.tag for product in PRODUCTS]


def pulsar_base(source: Source) -> str:
    """The base image of the bookie, broker and proxy images."""
    return versions.STOCK_PULSAR_BASE if source == "stock" else versions.BUILT_PULSAR_BASE


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

    def steps(self) -> list[Step]:
        """The operator's packages, then one step an image; what is not in the repository yet is skipped with a word."""
        return [
            *operatorsite.operator_site_steps(self.cache, self.root),
            *(self._step(product) for product in PRODUCTS),
        ]

    def digest(self, product: Product) -> str:
        """Inputs hash of one image: its Dockerfile, its folder, what the Dockerfile copies, and its base image.

        Raises FileNotFoundError without a Dockerfile, MissingSourceError when it copies what is not there.
        """
        recipe = self.root / product.folder / "Dockerfile"
        if not recipe.is_file():
            raise FileNotFoundError(f"no {product.folder}/Dockerfile in the repository yet")
        inputs = [recipe, *self._sources(product)]
        if not product.python:
            inputs.append(self.root / product.folder)
        parts = [product.tag, self._base(product), self._base_digest(product), digest_paths(self.root, inputs)]
        if product.python:
            parts += [operatorsite.deps_digest(self.root), operatorsite.app_digest(self.root)]
        return digest_texts(*parts)

    def _step(self, product: Product) -> Step:
        name = f"image {product.tag}"
        try:
            digest = self.digest(product)
        except (FileNotFoundError, dockerfile.MissingSourceError) as reason:
            return Step(name, lambda: False, _skip(str(reason)))
        return image_step(self.docker, name, product.tag, digest, lambda log: self._build(product, digest, log))

    def _build(self, product: Product, digest: str, log: Log) -> None:
        with scratch_folder(self.cache, product.tag.replace(":", "-")) as context:
            dockerfile.stage(self.root, self._sources(product), context)
            if product.python:
                self._add_site(log, context)
            recipe = self.root / product.folder / "Dockerfile"
            arguments = {"BASE_IMAGE": self._base(product)}
            before = self.docker.image_facts([product.tag]).get(product.tag)
            self.docker.build(log, product.tag, context, digest, dockerfile=recipe, build_args=arguments)
            after = self.docker.image_facts([product.tag]).get(product.tag)
            if before is not None and before != after:
                # The image that lost its tag is of no use to anybody; where it is in use, the engine keeps it.
                self.docker.succeeds("image", "rm", before[0])

    def _sources(self, product: Product) -> list[Path]:
        sources = dockerfile.copy_sources((self.root / product.folder / "Dockerfile").read_text())
        if product.python:
            sources = [source for source in sources if source.strip("/").split("/")[0] != SITE]
        return dockerfile.source_paths(self.root, sources)

    def _add_site(self, log: Log, context: Path) -> None:
        site = operatorsite.site_folder(self.cache)
        missing = [name for name in ("deps", "app") if not (site / name).is_dir()]
        if missing:
            raise SkippedError(f"the operator's packages are not there yet: {', '.join(missing)}")
        (context / SITE).mkdir()
        log.run(["cp", "-al", site / "deps", site / "app", context / SITE])

    def _base(self, product: Product) -> str:
        return python_base(self.source) if product.python else pulsar_base(self.source)

    def _base_digest(self, product: Product) -> str:
        if self.source == "stock":
            return "stock"
        return rootfs.PYTHON.digest() if product.python else pulsar.base_digest()


def _skip(reason: str) -> Callable[[Log], None]:
    def build(log: Log) -> None:
        raise SkippedError(reason)

    return build
