"""Which steps each command consists of."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from e2e.kind import golang, javaclient, nodeimage, prereq, productimages, pulsar, rootfs, s3ajars, stock, versions
from e2e.kind.cache import Cache, default_cache
from e2e.kind.cluster import ClusterMachine
from e2e.kind.delivery import Delivery, clean_steps, named_products, push_steps
from e2e.kind.docker import Docker, pull_step
from e2e.kind.engine import engine_step
from e2e.kind.kindconfig import Cluster
from e2e.kind.paths import repository_root
from e2e.kind.shell import CommandError, Log
from e2e.kind.source import OVERRIDE, Source, choose, known_source
from e2e.kind.steps import Runner, Step

TOOLS = (golang.KUBERNETES, golang.ETCD, golang.KIND, golang.HELM, golang.GITOPS_HEALTH, golang.S3_SERVER)
NODE_PROGRAMS = (golang.KUBERNETES, golang.ETCD, golang.KIND, golang.COREDNS, golang.PROVISIONER)
GO_NEEDS = (prereq.GIT,)
ROOTFS_NEEDS = (prereq.MMDEBSTRAP,)
PULSAR_NEEDS = (prereq.MAVEN, prereq.JAVA)
JAVA_NEEDS = (*PULSAR_NEEDS, javaclient.JAVAC)


@dataclass
class Machine:
    """This machine: its cache, its engine and this checkout. Every public method may raise StepFailedError."""

    command: str
    cache: Cache = field(default_factory=default_cache)
    docker: Docker = field(default_factory=Docker)
    root: Path = field(default_factory=repository_root)

    def make(self, what: str) -> None:
        """Do one of the commands that take no name: COMMANDS of e2e.kind, but for status and paths."""
        if what == "tools":
            # Without an engine on purpose: integration tests need none.
            self._run(self._tool_steps())
            return
        if what == "java-client":
            self._run([prereq.prerequisites_step(JAVA_NEEDS), javaclient.java_client_step(self.cache)])
            return
        if what == "newer-pulsar":
            steps = [pulsar.distribution_step(self.cache), pulsar.newer_step(self.cache)]
            self._run([prereq.prerequisites_step(PULSAR_NEEDS), *steps])
            return
        if what == "engine":
            self._run([engine_step(self.cache, self.docker)])
            self._source()
            return
        plans: dict[str, Callable[[Source], list[Step]]] = {
            "node-image": self._node_image_steps,
            "pulsar-base": self._pulsar_steps,
            "python-base": self._python_steps,
            "images": self._image_steps,
            "older-images": self._older_image_steps,
        }
        source = self._source()
        self._run([engine_step(self.cache, self.docker), *plans[what](source)])

    def deliver(self, delivery: Delivery) -> None:
        """Build the product images for a registry, and push them if asked. Raises ValueError for what cannot be had."""
        source = self._source()
        delivery.check(source, bool(delivery.platform) and self.docker.has_buildx())
        products = named_products(delivery, self.root)
        if source == "stock":
            builder = productimages.ImageBuilder(self.cache, self.docker, self.root, source, products)
            steps = clean_steps(builder, delivery)
        else:
            steps = self._image_steps(source, products)
        self._run([engine_step(self.cache, self.docker), *steps, *push_steps(self.docker, delivery, products)])
        print(f"both charts: helm install ... --set imageRegistry={delivery.registry}")

    def up(self, cluster: Cluster, build_images: bool = True) -> None:
        """Make a cluster be there, healthy, and loaded with the product images, building those that are not current."""
        source = self._source()
        machine = ClusterMachine(self.cache, self.docker, source, cluster)
        steps = [engine_step(self.cache, self.docker), *self._node_image_steps(source)]
        # Whoever brings a cluster up installs charts into it.
        steps += self._stock_cluster_tools(golang.HELM) if source == "stock" else self._go_steps((golang.HELM,))
        if build_images and not cluster.registry:
            steps += self._image_steps(source)
        if cluster.registry:
            steps += self._registry_steps(machine)
        self._run([*steps, *machine.steps(productimages.product_tags())])
        print(f"kubeconfig: {machine.kubeconfig}")

    def load(self, name: str, images: list[str]) -> None:
        """Load images (the product's, when none is named) into a running cluster."""
        source = self._source()
        machine = ClusterMachine(self.cache, self.docker, source, Cluster(name))
        tags = images or productimages.product_tags()
        self._run([engine_step(self.cache, self.docker), machine.load_step(tags)])

    def down(self, name: str) -> None:
        """Remove a cluster; nothing happens when there is none, or no engine."""
        machine = ClusterMachine(self.cache, self.docker, self._known(), Cluster(name))

        def remove(log: Log) -> None:
            if not self.docker.server_version():
                raise CommandError("no container engine answers, so no cluster can be removed")
            machine.down(log)

        gone = machine.state() == "absent" and not machine.kubeconfig.exists()
        self._run([Step(f"cluster {name}", lambda: gone, remove, "removed", "python -m e2e.kind engine")])

    def status(self) -> None:
        """Print what is there; changes nothing and starts nothing."""
        version = self.docker.server_version() if prereq.find_program("docker") else ""
        print(f"cache: {self.cache.root}")
        print(f"image source: {self._known()}")
        print(f"container engine: {version or 'none answers'}")
        for program in ("kubectl", "helm", "kind", "kube-apiserver", "etcd"):
            there = (self.cache.bin / program).exists()
            print(f"tool {program}: {'there' if there else 'missing (python -m e2e.kind tools)'}")
        if version:
            self._engine_status()

    def _engine_status(self) -> None:
        source = self._known()
        bases = [productimages.pulsar_base(source), productimages.python_base(source)]
        tags = [*bases, *productimages.product_tags()]
        facts = self.docker.image_facts(tags)
        for tag in tags:
            print(f"image {tag}: {facts[tag][0] if tag in facts else 'missing (python -m e2e.kind images)'}")
        shown = "{{.Names}} {{.Status}} {{.Ports}}"
        listing = self.docker.capture("ps", "--all", "--filter", "label=io.x-k8s.kind.cluster", "--format", shown)
        for line in listing.splitlines():
            print(f"node {line}")

    def _run(self, steps: list[Step]) -> None:
        Runner(self.cache, self.command).run(steps)

    def _known(self) -> Source:
        return known_source(self.cache, os.environ)

    def _source(self) -> Source:
        override = os.environ.get(OVERRIDE, "")
        if not override and not self._known_already():
            # Only an engine can tell whether its registry answers, so it comes first.
            self._run([engine_step(self.cache, self.docker)])
        choice = choose(self.cache, self.docker)
        print(f"images: {choice.source} ({choice.reason}; {OVERRIDE}=stock or built overrides)", flush=True)
        return choice.source

    def _known_already(self) -> bool:
        return (self.cache.root / "image-source").is_file()

    def _tool_steps(self) -> list[Step]:
        java = [
            pulsar.distribution_step(self.cache),
            javaclient.java_client_step(self.cache),
            s3ajars.s3a_jars_step(self.cache),
        ]
        needs = JAVA_NEEDS
        if self._known() == "stock" and sys.platform == "linux" and self.docker.server_version():
            return [
                *self._stock_cluster_tools(golang.HELM, golang.GITOPS_HEALTH, golang.S3_SERVER),
                prereq.prerequisites_step(needs),
                *java,
            ]
        return [*self._go_steps(TOOLS, *needs), *java]

    def _go_steps(self, programs: tuple[golang.Program, ...], *needs: prereq.Need) -> list[Step]:
        return [
            prereq.prerequisites_step([*GO_NEEDS, *needs]),
            golang.go_step(self.cache),
            *golang.program_steps(self.cache, programs),
        ]

    def _stock_cluster_tools(self, *more: golang.Program) -> list[Step]:
        return [*self._go_steps((golang.KIND, *more)), *stock.program_steps(self.cache, self.docker)]

    def _node_image_steps(self, source: Source) -> list[Step]:
        if source == "stock":
            return [pull_step(self.docker, versions.STOCK_NODE_IMAGE)]
        programs = self._go_steps(NODE_PROGRAMS, prereq.GCC, *ROOTFS_NEEDS)
        return [*programs, *nodeimage.node_image_steps(self.cache, self.docker)]

    def _pulsar_steps(self, source: Source, version: str = versions.PULSAR) -> list[Step]:
        needs = [*PULSAR_NEEDS, *(ROOTFS_NEEDS if source == "built" else ())]
        steps = [prereq.prerequisites_step(needs), pulsar.distribution_step(self.cache, version)]
        if source == "stock":
            return [*steps, pull_step(self.docker, versions.stock_pulsar_base(version))]
        return [*steps, *pulsar.base_image_steps(self.cache, self.docker, version)]

    def _python_steps(self, source: Source) -> list[Step]:
        if source == "stock":
            return [pull_step(self.docker, versions.STOCK_PYTHON_BASE)]
        base = rootfs.rootfs_step(self.cache, self.docker, "python", rootfs.PYTHON)
        return [prereq.prerequisites_step(ROOTFS_NEEDS), base]

    def _registry_steps(self, machine: ClusterMachine) -> list[Step]:
        if machine.source == "stock":
            return machine.registry.base_steps()
        base = rootfs.rootfs_step(self.cache, self.docker, "registry", rootfs.REGISTRY)
        return [prereq.prerequisites_step(ROOTFS_NEEDS), base]

    def _image_steps(
        self, source: Source, products: tuple[productimages.Product, ...] = productimages.PRODUCTS
    ) -> list[Step]:
        builder = productimages.ImageBuilder(self.cache, self.docker, self.root, source, products)
        java = prereq.prerequisites_step(JAVA_NEEDS)
        return [*self._pulsar_steps(source), *self._python_steps(source), java, *builder.steps()]

    def _older_image_steps(self, source: Source) -> list[Step]:
        products = productimages.OLDER_PRODUCTS
        builder = productimages.ImageBuilder(self.cache, self.docker, self.root, source, products)
        return [*self._pulsar_steps(source, versions.OLDER_PULSAR), *builder.image_steps()]
