"""A container engine that works: the one that is there, or Debian's, started by hand where there is no systemd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from e2e.kind.cache import Cache
from e2e.kind.docker import Docker
from e2e.kind.prereq import DOCKERD, explain, find_program, is_debian_root, packages_for
from e2e.kind.shell import CommandError, Log
from e2e.kind.steps import Step

SHIM = Path(__file__).parent / "recipes" / "engine" / "runc-without-sys-resource"
DAEMON_CONFIG = Path("/etc/docker/daemon.json")
PID_FILES = (Path("/var/run/docker.pid"), Path("/run/docker/containerd/containerd.pid"))
CAP_SYS_RESOURCE = 24
START_SECONDS = 60.0


def lacks_capability(status: str, bit: int = CAP_SYS_RESOURCE) -> bool:
    """Whether the bounding set in the text of a /proc/PID/status lacks a capability.

    No CapBnd line (not Linux, or something that is not such a file) counts as "lacks nothing".
    """
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            return not int(line.split(":", 1)[1].strip(), 16) >> bit & 1
    return False


def daemon_flags(configured: Mapping[str, object], needs_shim: bool, shim: Path, cgroup_v1: bool) -> list[str]:
    """The flags that dockerd needs besides its configuration file, none of which the file already sets.

    Flags and not a file of our own: a setting given in both makes dockerd refuse to start, and a file in /etc would
    outlive this project.
    """
    flags: list[str] = []
    if needs_shim and not {"default-runtime", "runtimes"} & configured.keys():
        flags += ["--add-runtime", f"relaxed={shim}", "--default-runtime", "relaxed"]
    if cgroup_v1 and "default-cgroupns-mode" not in configured:
        # Without a cgroup namespace of its own, a node's systemd sees (and fights over) the host's groups.
        flags += ["--default-cgroupns-mode", "private"]
    return flags


def engine_step(cache: Cache, docker: Docker) -> Step:
    """Make sure a Docker engine answers. A working engine is never touched, and no configuration file is written."""

    def build(log: Log) -> None:
        if find_program("dockerd") is None:
            _install(log)
        if Path("/run/systemd/system").is_dir():
            log.run(["systemctl", "start", "docker"])
        else:
            _start_by_hand(cache, log)
        _wait(docker, cache)

    return Step(
        "container engine",
        lambda: docker.server_version() != "",
        build,
        done_word="started",
        hint="start Docker and see that `docker version` names a Server",
    )


def _install(log: Log) -> None:
    if not is_debian_root():
        if sys.platform != "linux":
            raise CommandError("no container engine answers: start Docker Desktop (or set DOCKER_HOST)")
        raise CommandError(f"no container engine answers; {explain([DOCKERD])}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    log.run(["apt-get", "update", "-q"], env=quiet)
    log.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages_for([DOCKERD])], env=quiet)


def _start_by_hand(cache: Cache, log: Log) -> None:
    if os.geteuid() != 0:
        raise CommandError("the container engine is down and only root can start it: sudo systemctl start docker")
    dockerd = find_program("dockerd")
    if dockerd is None:
        raise CommandError("docker.io is installed, but there is no dockerd")
    for pid_file in PID_FILES:
        _drop_stale(pid_file, log)
    configured = json.loads(DAEMON_CONFIG.read_text()) if DAEMON_CONFIG.is_file() else {}
    # A copy in the cache: the engine outlives this checkout, and its containers keep the path of their runtime.
    shim = cache.root / "engine" / SHIM.name
    shim.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(SHIM, shim)
    shim.chmod(0o755)
    status = Path("/proc/self/status").read_text()
    cgroup_v1 = not Path("/sys/fs/cgroup/cgroup.controllers").exists()
    flags = daemon_flags(configured, lacks_capability(status), shim, cgroup_v1)
    log.write(f"starting {dockerd} {' '.join(flags)}")
    # Its own session, and output to a file: a daemon that held on to our output would keep its reader waiting.
    with (cache.logs / "dockerd.log").open("ab") as output:
        subprocess.Popen(
            [dockerd, *flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
        )


def _drop_stale(pid_file: Path, log: Log) -> None:
    # After a restart of the machine the number in an old file may belong to anyone, and dockerd would refuse to start.
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return
    try:
        owner = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        owner = ""
    if owner not in {"dockerd", "containerd"}:
        log.write(f"removing {pid_file}: process {pid} is {owner or 'gone'}")
        pid_file.unlink(missing_ok=True)


def _wait(docker: Docker, cache: Cache) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not docker.server_version():
        if time.monotonic() > deadline:
            raise CommandError(f"dockerd does not answer after {START_SECONDS:.0f} s: see {cache.logs / 'dockerd.log'}")
        time.sleep(0.5)
