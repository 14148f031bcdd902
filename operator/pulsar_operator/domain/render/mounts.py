"""Validates where volumes may be mounted: they must not hide folders of the operator, the image or the kernel."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence

from pulsar_operator.api.v1alpha1.pods import VolumeMount
from pulsar_operator.domain.render.pod_extras import twice

KERNEL = ("/proc", "/sys", "/dev")
SEALED = ("/etc/pulsar-operator", "/opt/pulsar-operator", "/pulsar/conf-rendered", "/pulsar/data", *KERNEL)
"""Folders in which nothing may be mounted: the operator's configuration, the start program, the data, the kernel."""
_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64")
_LOCAL = ("/usr/local/bin", "/usr/local/lib")
_JAVA = tuple(f"{home}/{folder}" for home in ("/opt/jvm", "/opt/java/openjdk") for folder in ("bin", "conf", "lib"))
NEEDED = ("/tmp", "/pulsar/logs", "/pulsar/conf", "/pulsar/lib", "/pulsar/bin", "/etc", *_PROGRAMS, *_LOCAL, *_JAVA)
"""Folders that must not be hidden, although something may be mounted inside them: a pod without python3, Java or their
libraries never starts. Python and Java of the image are in /usr and /opt/jvm (Dockerfile of Pulsar 4.0); the other
folders are those of images from other sources."""


def mount_problems(field: str, mounts: Sequence[VolumeMount], volumes: Collection[str]) -> list[str]:
    """Returns why mounts of the main container are refused. ``field`` is their path, ``volumes`` are the names of
    volumes."""
    found = []
    for mount in mounts:
        where = f'{field} mountPath "{mount.mount_path}"'
        if mount.name not in volumes:
            found.append(f'{where} names volume "{mount.name}", which is not in volumes. Add the volume')
        if unclear := _unclear(mount.mount_path):
            found.append(f"{where} {unclear}")
        elif taken := _taken(mount.mount_path):
            found.append(f"{where} would hide or change {taken}, which the operator needs. Choose another path")
    return [*found, *twice(field, "mountPath", _paths(mounts))]


def other_mount_problems(here: str, mounts: Sequence[VolumeMount], volumes: Collection[str]) -> list[str]:
    """Returns why mounts of a user's container are refused, whose image is the user's too. ``here`` names the
    container."""
    found = []
    for mount in mounts:
        if mount.name not in volumes:
            found.append(f'{here} mounts volume "{mount.name}", which is not in volumes. Add the volume')
        if unclear := _unclear(mount.mount_path):
            found.append(f'{here} mountPath "{mount.mount_path}" {unclear}')
        elif _in_the_way(normal(mount.mount_path), KERNEL):
            found.append(f'{here} mountPath "{mount.mount_path}" belongs to the kernel. Choose another path')
    return [*found, *twice(here, "mountPath", _paths(mounts))]


def normal(path: str) -> str:
    """Returns a normalized absolute path. POSIX preserves two slashes at the beginning, Linux does not."""
    return posixpath.normpath("/" + path.lstrip("/"))


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or inside it, by whole segments."""
    return folder in ("/", path) or path.startswith(f"{folder}/")


def _unclear(path: str) -> str | None:
    """Returns why a path is ambiguous, as a message. None if it is not."""
    part = ".." if ".." in path.split("/") else "//" if "//" in path else None
    return f"contains {part}. Write the path without it" if part else None


def _taken(path: str) -> str | None:
    """Returns the folder of the operator or of the image that a mount at this path would hide or change; None if there
    is none."""
    here = normal(path)
    return _in_the_way(here, SEALED) or next((folder for folder in NEEDED if is_within(folder, here)), None)


def _in_the_way(here: str, folders: Iterable[str]) -> str | None:
    """Returns the folder that a mount is at, above or inside of; None if there is none."""
    return next((folder for folder in folders if is_within(folder, here) or is_within(here, folder)), None)


def _paths(mounts: Iterable[VolumeMount]) -> list[str]:
    return [normal(mount.mount_path) for mount in mounts]
