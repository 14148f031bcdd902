"""The node image of kind without a registry: control-plane images, and a Debian node that holds them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.kind import golang, rootfs, versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.docker import Docker, image_step
from e2e.kind.dockerfile import copy_sources
from e2e.kind.shell import Log, capture
from e2e.kind.steps import Step

RECIPES = Path(__file__).parent / "recipes"
NODE_PROGRAMS = ("hyperkube", "kubelet", "kubeadm", "kubectl")
KUBE_PROGRAMS = ("hyperkube", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")


def control_plane_digest() -> str:
    """Inputs hash of all control-plane images."""
    programs = (golang.KUBERNETES, golang.ETCD, golang.COREDNS, golang.PROVISIONER)
    return digest_texts(
        rootfs.CONTROL_PLANE.digest(),
        *(program.digest() for program in programs),
        digest_paths(RECIPES, [RECIPES / "controlplane"]),
        *all_images(),
    )


def node_digest() -> str:
    """Inputs hash of the node image."""
    recipe = digest_paths(RECIPES, [RECIPES / "node"])
    return digest_texts(rootfs.NODE.digest(), control_plane_digest(), golang.KIND.digest(), recipe)


def all_images() -> list[str]:
    """Every image that a node must hold before its kubelet starts."""
    return [
        *versions.KUBE_IMAGES,
        versions.ETCD_IMAGE,
        versions.COREDNS_IMAGE,
        *versions.PAUSE_IMAGES,
        versions.PROVISIONER_IMAGE,
    ]


def node_image_steps(cache: Cache, docker: Docker) -> list[Step]:
    """The steps from Go programs and Debian packages to the node image."""
    return [
        rootfs.rootfs_step(cache, docker, "control-plane", rootfs.CONTROL_PLANE),
        rootfs.rootfs_step(cache, docker, "node", rootfs.NODE),
        _control_plane_step(cache, docker),
        image_step(
            docker,
            f"node image {versions.BUILT_NODE_IMAGE}",
            versions.BUILT_NODE_IMAGE,
            node_digest(),
            lambda log: _build_node(cache, docker, log),
        ),
    ]


def _control_plane_step(cache: Cache, docker: Docker) -> Step:
    digest = control_plane_digest()
    tags = all_images()

    def fresh() -> bool:
        facts = docker.image_facts(tags)
        return all(facts.get(tag, ("", ""))[1] == digest for tag in tags)

    def build(log: Log) -> None:
        with scratch_folder(cache, "control-plane") as context:
            (context / "bin").mkdir()
            _copy_programs(cache, KUBE_PROGRAMS, context / "bin")
            for program in ("etcd", "coredns", "local-provisioner"):
                shutil.copy2(cache.bin / program, context / program)
            source = RECIPES / "controlplane" / "pause.c"
            log.run(["gcc", "-Os", "-static", "-s", "-o", context / "pause", source])
            targets = (
                ("kube", versions.KUBE_IMAGES),
                ("etcd", (versions.ETCD_IMAGE,)),
                ("coredns", (versions.COREDNS_IMAGE,)),
                ("pause", versions.PAUSE_IMAGES),
                ("provisioner", (versions.PROVISIONER_IMAGE,)),
            )
            for suffix, names in targets:
                part = _part_of(context, suffix)
                arguments = {"BASE_IMAGE": rootfs.CONTROL_PLANE.tag}
                dockerfile = RECIPES / "controlplane" / f"Dockerfile.{suffix}"
                docker.build(log, names[0], part, digest, dockerfile=dockerfile, build_args=arguments)
                for name in names[1:]:
                    docker.run(log, "tag", names[0], name)
        wanted = capture(
            [cache.bin / "kubeadm", "config", "images", "list", "--kubernetes-version", f"v{versions.KUBERNETES}"]
        ).split()
        missing = sorted(set(wanted) - set(tags))
        if missing:
            raise RuntimeError(f"kubeadm wants images that versions.py lacks: {', '.join(missing)}")

    return Step("control-plane images", fresh, build)


def _part_of(context: Path, suffix: str) -> Path:
    # A small context of its own: the legacy builder sends all of it, and the Kubernetes program alone has 100 MB.
    recipe = (RECIPES / "controlplane" / f"Dockerfile.{suffix}").read_text()
    part = context / f"context-{suffix}"
    part.mkdir()
    for source in copy_sources(recipe):
        (context / source).rename(part / source.strip("/"))
    return part


def _build_node(cache: Cache, docker: Docker, log: Log) -> None:
    with scratch_folder(cache, "node") as context:
        kind_files = golang.module_folder(cache, f"sigs.k8s.io/kind@v{versions.KIND}") / "images" / "base" / "files"
        # kind's own files are copied when the image is built and never committed; the module folder is read-only.
        for part in ("etc", "kind", "usr"):
            shutil.copytree(kind_files / part, context / "kind-files" / part)
        _set_modes(context / "kind-files")
        _adapt_containerd(context / "kind-files" / "etc" / "containerd" / "config.toml")
        _add_own_files(context / "files")
        (context / "bin").mkdir()
        _copy_programs(cache, NODE_PROGRAMS, context / "bin")
        docker.run(log, "save", "--output", context / "images.tar", *all_images())
        (context / "images.tar").chmod(0o644)
        dockerfile = RECIPES / "node" / "Dockerfile"
        arguments = {"BASE_IMAGE": rootfs.NODE.tag}
        digest = node_digest()
        docker.build(log, versions.BUILT_NODE_IMAGE, context, digest, dockerfile=dockerfile, build_args=arguments)


def _set_modes(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        script = path.is_dir() or {"bin"} & set(path.relative_to(folder).parts)
        path.chmod(0o755 if script else 0o644)
    folder.chmod(0o755)


def _adapt_containerd(config: Path) -> None:
    text = config.read_text()
    # Lowering an OOM score needs CAP_SYS_RESOURCE; with this set, containerd keeps to what it may do.
    adapted = text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    if adapted == text:
        raise RuntimeError("kind's containerd configuration has changed: restrict_oom_score_adj is not where it was")
    config.write_text(adapted)


def _add_own_files(folder: Path) -> None:
    recipe = RECIPES / "node"
    storage = (recipe / "default-storage.yaml.in").read_text()
    storage = storage.replace("@PROVISIONER_IMAGE@", versions.PROVISIONER_IMAGE)
    files = {
        "etc/systemd/system/load-images.service": (recipe / "load-images.service").read_text(),
        "etc/cni/net.d/10-bridge.conflist": (recipe / "10-bridge.conflist").read_text(),
        "kind/default-storage.yaml": storage,
        "kind/version": f"v{versions.KUBERNETES}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def _copy_programs(cache: Cache, names: tuple[str, ...], folder: Path) -> None:
    binary, *links = names
    shutil.copy2(cache.bin / binary, folder / binary)
    (folder / binary).chmod(0o755)
    for link in links:
        (folder / link).symlink_to(binary)


@contextmanager
def scratch_folder(cache: Cache, name: str) -> Iterator[Path]:
    """An empty folder in the cache for a build context; removed afterwards, whatever happens."""
    folder = cache.root / "build" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
