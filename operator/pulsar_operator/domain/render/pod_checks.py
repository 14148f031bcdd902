"""What users say of pods that would collide with the operator's own, one sentence each with field, value and remedy."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from pulsar_operator.api.v1alpha1.base import Jvm
from pulsar_operator.api.v1alpha1.pods import EnvFrom, EnvVar, PodTemplate, VolumeMount
from pulsar_operator.domain.render.common import WRITABLE
from pulsar_operator.domain.render.containers import container_problems
from pulsar_operator.domain.render.lifetime import grace_problems
from pulsar_operator.domain.render.names import CLAIM_TEMPLATES
from pulsar_operator.domain.render.pod_extras import twice

ENV_PREFIXES = ("PULSAR_CONF_", "ZOO_", "POD_", "PULSAR_OPERATOR_")
_ENV_NAMES = ("PULSAR_HOME", "PULSAR_DATA", "PULSAR_LOGS", "PULSAR_RENDERED")

_VOLUMES = re.compile("|".join({"config", *WRITABLE, *CLAIM_TEMPLATES.values()}))
SEALED = (
    "/etc/pulsar-operator",
    "/opt/pulsar-operator",
    "/pulsar/conf-rendered",
    "/pulsar/data",
    "/proc",
    "/sys",
    "/dev",
)
"""Folders in which nothing may be mounted: the operator's configuration, the start program, the data, the kernel."""
NEEDED = ("/tmp", "/pulsar/logs", "/pulsar/conf", "/pulsar/lib", "/pulsar/bin", "/etc", "/bin", "/lib", "/usr")
"""Folders that may not be hidden, though something may be mounted inside."""

WRITTEN = ("/tmp", "/pulsar/logs")
"""Folders of the operator's own volumes that Java may write into."""


def pod_problems(field: str, pod: PodTemplate | None, ports: Mapping[str, int]) -> list[str]:
    """Everything that is refused in a pod template; ``field`` is where it stands in the spec, ``ports`` are the main
    container's."""
    if pod is None:
        return []
    volumes = [volume.name for volume in pod.volumes or ()]
    return [
        *check_env(f"{field}.env", pod.env),
        *_source_problems(f"{field}.envFrom", pod.env_from or ()),
        *_volume_problems(f"{field}.volumes", volumes),
        *_mount_problems(f"{field}.volumeMounts", pod.volume_mounts or (), volumes),
        *grace_problems(field, pod),
        *container_problems(field, pod, ports),
    ]


def check_env(field: str, env: Sequence[EnvVar] | None) -> list[str]:
    """Why extra environment variables are refused; ``field`` is where they stand in the spec."""
    names = [variable.name for variable in env or ()]
    return [
        *(
            f'{field} name "{name}" is reserved: names starting with {", ".join(ENV_PREFIXES)} and the '
            "folders of the image are the operator's own; use the component's config field"
            for name in names
            if name.startswith(ENV_PREFIXES) or name in _ENV_NAMES
        ),
        *twice(field, "name", names),
    ]


def _source_problems(field: str, sources: Sequence[EnvFrom]) -> list[str]:
    """Prefixes by which every key would be the operator's; others only the start program can tell."""
    return [
        f'{field} prefix "{source.prefix}" is reserved: names starting with {", ".join(ENV_PREFIXES)} are the '
        "operator's own; choose another prefix"
        for source in sources
        if (source.prefix or "").startswith(ENV_PREFIXES)
    ]


def _volume_problems(field: str, names: Sequence[str]) -> list[str]:
    return [
        *(
            f'{field} name "{name}" is the operator\'s own volume: choose another name'
            for name in names
            if _VOLUMES.fullmatch(name)
        ),
        *twice(field, "name", names),
    ]


def _mount_problems(field: str, mounts: Sequence[VolumeMount], volumes: Sequence[str]) -> list[str]:
    found = []
    for mount in mounts:
        where = f'{field} mountPath "{mount.mount_path}"'
        if mount.name not in volumes:
            found.append(f'{where} names volume "{mount.name}", which is not in volumes: add it there')
        if ".." in mount.mount_path.split("/"):
            found.append(f"{where} has a part ..: write the path without it")
        elif taken := _taken(mount.mount_path):
            found.append(f"{where} would hide or change {taken}, which the operator needs: choose another path")
    return [*found, *twice(field, "mountPath", [posixpath.normpath(mount.mount_path) for mount in mounts])]


def written_problems(field: str, jvm: Jvm | None, pod: PodTemplate | None) -> list[str]:
    """Whether files that Java is to write have a place to be; ``field`` is where the component stands in the spec."""
    mounts = [mount.mount_path for mount in (pod.volume_mounts if pod else None) or () if not mount.read_only]
    given = (("heapDumpPath", jvm.heap_dump_path), ("gcLogPath", jvm.gc_log_path)) if jvm else ()
    return [
        f'{field}.jvm.{name} = "{path}" is in no folder that can be written: choose one in {", ".join(WRITTEN)}, or '
        f"mount a volume there by {field}.pod.volumeMounts"
        for name, path in given
        if path and not any(_is_within(path, posixpath.normpath(folder)) for folder in (*WRITTEN, *mounts))
    ]


def _taken(path: str) -> str | None:
    """The folder of the operator's or of the image's that a mount at this path is in the way of."""
    here = posixpath.normpath("/" + path.lstrip("/"))
    for folder in (*SEALED, *NEEDED):
        if _is_within(folder, here) or (folder in SEALED and _is_within(here, folder)):
            return folder
    return None


def _is_within(path: str, folder: str) -> bool:
    return folder in ("/", path) or path.startswith(f"{folder}/")
