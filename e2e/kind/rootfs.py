"""Base images from Debian packages, made with mmdebstrap and imported into the container engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_texts
from e2e.kind.docker import INPUTS_LABEL, Docker, image_step
from e2e.kind.shell import Log
from e2e.kind.steps import Step

#: Manuals and translations are a third of a small image; the copyright files stay.
LEFT_OUT = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/man*/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/info/*",
)


@dataclass(frozen=True)
class Rootfs:
    """A Debian root file system: the tag it gets as an image, the release, and the packages beyond the minimum."""

    tag: str
    suite: str
    packages: tuple[str, ...]

    def digest(self) -> str:
        """Inputs hash. Package versions are what the release has on the day; `docker rmi TAG` asks for newer ones."""
        return digest_texts("rootfs-1", self.suite, *self.packages, *LEFT_OUT)


CONTROL_PLANE = Rootfs(
    "pulsar-operator/control-plane-base:1",
    "bookworm",
    ("ca-certificates", "iptables", "nftables", "conntrack", "kmod", "ipset"),
)
NODE = Rootfs(
    "pulsar-operator/node-base:1",
    "bookworm",
    (
        *("systemd", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod"),
        *("libseccomp2", "pigz", "e2fsprogs", "bash", "ca-certificates", "curl", "jq", "procps", "containerd", "runc"),
        *("containernetworking-plugins", "socat"),
    ),
)
#: bookworm for the operator: the same minor version of Python as the stock image, so one set of wheels fits both.
PYTHON = Rootfs(versions.BUILT_PYTHON_BASE, "bookworm", ("ca-certificates", "python3"))
#: trixie for Pulsar: bookworm's Java 17.0.15 has a JIT bug that Pulsar meets. All of python3, as in the stock image:
#: python3-minimal has no urllib.request and no http.
JAVA = Rootfs(
    "pulsar-operator/java:21-local1",
    "trixie",
    ("ca-certificates", "openjdk-21-jre-headless", "python3"),
)
REGISTRY = Rootfs("pulsar-operator/registry:1", "bookworm", ("ca-certificates", "docker-registry"))


def rootfs_step(cache: Cache, docker: Docker, name: str, rootfs: Rootfs) -> Step:
    """A step that leaves this root file system as an image in the engine."""

    def build(log: Log) -> None:
        tar = cache.root / "rootfs.tar"
        log.run(mmdebstrap_command(rootfs, tar))
        label = f"LABEL {INPUTS_LABEL}={rootfs.digest()}"
        docker.run(log, "import", "--change", label, "--change", 'CMD ["/bin/bash"]', tar, rootfs.tag)
        tar.unlink()

    return image_step(docker, f"{name} base image ({rootfs.suite})", rootfs.tag, rootfs.digest(), build)


def mmdebstrap_command(rootfs: Rootfs, tar: Path) -> Sequence[str]:
    """The command line that writes this root file system to a tar file."""
    options = [f"--dpkgopt={option}" for option in LEFT_OUT]
    include = f"--include={','.join(rootfs.packages)}"
    return ["mmdebstrap", "--quiet", "--variant=minbase", include, *options, rootfs.suite, str(tar)]
