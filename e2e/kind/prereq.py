"""Programs that the steps call: found, or installed with apt-get where this is Debian and we are root, or named."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.kind.shell import CommandError, Log
from e2e.kind.steps import Step

#: Where Debian puts daemons and administrator's tools; an ordinary user's PATH often lacks them.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin")


class MissingProgramError(CommandError):
    """A program is missing and this machine is not one where we may install it."""


@dataclass(frozen=True)
class Need:
    """One program and the Debian packages that bring it."""

    program: str
    packages: tuple[str, ...]
    why: str
    #: A file that must be there too, for packages that bring no program of their own.
    file: str = ""

    def met(self) -> bool:
        """Whether the program (and the file) is there."""
        return find_program(self.program) is not None and (not self.file or Path(self.file).exists())


GIT = Need("git", ("git", "ca-certificates"), "the Go tool asks for it")
GCC = Need("gcc", ("gcc", "libc6-dev"), "the pause program is C", file="/usr/include/stdlib.h")
DOCKERD = Need("dockerd", ("docker.io", "containerd", "runc", "iptables", "conntrack"), "kind runs its nodes in Docker")
MMDEBSTRAP = Need("mmdebstrap", ("mmdebstrap",), "base images are made from Debian packages")
MAVEN = Need("mvn", ("maven",), "the Pulsar distribution comes from Maven Central")
JAVA = Need("java", ("openjdk-17-jre-headless",), "Maven needs it")


def find_program(name: str) -> str | None:
    """The path of a program on PATH or in the administrator's folders, or None."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *SYSTEM_FOLDERS))
    return shutil.which(name, path=path)


def is_debian_root() -> bool:
    """Whether apt-get may be used here: a Debian family system, and we are root."""
    return sys.platform == "linux" and shutil.which("apt-get") is not None and os.geteuid() == 0


def packages_for(needs: Iterable[Need]) -> list[str]:
    """The packages of all needs, each once, in order."""
    return list(dict.fromkeys(package for need in needs for package in need.packages))


def explain(needs: Sequence[Need]) -> str:
    """One sentence: what is missing, why it is needed, and the command that installs it."""
    missing = ", ".join(f"{need.program} ({need.why})" for need in needs)
    return f"missing: {missing}; install with: sudo apt-get install {' '.join(packages_for(needs))}"


def prerequisites_step(needs: Sequence[Need], may_install: Callable[[], bool] = is_debian_root) -> Step:
    """A step that makes every needed program available, or fails with the one sentence that names what is missing."""

    def build(log: Log) -> None:
        missing = [need for need in needs if not need.met()]
        if not may_install():
            raise MissingProgramError(explain(missing))
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        log.run(["apt-get", "update", "-q"], env=quiet)
        log.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages_for(missing)], env=quiet)
        still = [need for need in missing if not need.met()]
        if still:
            raise MissingProgramError(explain(still))

    name = f"prerequisites ({', '.join(need.program for need in needs)})"
    return Step(name, lambda: all(need.met() for need in needs), build, done_word="installed")
