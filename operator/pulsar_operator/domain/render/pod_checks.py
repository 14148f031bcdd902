"""Pod settings of users that conflict with the operator's. Each problem is one sentence with field, value and
remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pulsar_operator.api.v1alpha1.base import Jvm
from pulsar_operator.api.v1alpha1.pods import VOLUME_SOURCES, EnvFrom, EnvVar, PodTemplate, Volume
from pulsar_operator.domain.render.child_names import CLAIM_TEMPLATES, is_claim_of_any
from pulsar_operator.domain.render.common import WRITABLE
from pulsar_operator.domain.render.containers import container_problems
from pulsar_operator.domain.render.edge_tls import CERTIFICATE_VOLUME
from pulsar_operator.domain.render.lifetime import grace_problems
from pulsar_operator.domain.render.mounts import is_within, mount_problems, normal
from pulsar_operator.domain.render.pod_extras import twice
from pulsar_operator.domain.render.pod_placement import spread_problems
from pulsar_operator.domain.render.security import VOLUMES
from pulsar_operator.domain.render.shapes import shape_problems

ENV_PREFIXES = ("PULSAR_CONF_", "ZOO_", "POD_", "PULSAR_OPERATOR_")
_ENV_NAMES = ("PULSAR_HOME", "PULSAR_DATA", "PULSAR_LOGS", "PULSAR_RENDERED")

_VOLUMES = re.compile("|".join({"config", CERTIFICATE_VOLUME, *WRITABLE, *VOLUMES, *CLAIM_TEMPLATES.values()}))
_PROFILES = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
)
"""Prefixes of annotations that Pod Security Standard restricted evaluates (k8s.io/pod-security-admission/policy:
AppArmor in every version of the standard, seccomp if enforce-version is 1.18 or older)."""
_ALLOWED_PROFILE = re.compile(r"|runtime/default|localhost/.*", re.DOTALL)
_ONLY_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
"""Annotation of a ServiceAccount whose pods may only use the Secrets it lists. The operator's ServiceAccounts list
none."""
WRITTEN = ("/tmp", "/pulsar/logs")
"""Folders of the operator's own volumes that the JVM may write to."""


def pod_problems(field: str, pod: PodTemplate | None, ports: Mapping[str, int]) -> list[str]:
    """Returns the problems of a pod template. ``field`` is its path in the spec, ``ports`` are those of the main
    container."""
    if pod is None:
        return []
    volumes = [volume.name for volume in pod.volumes or ()]
    shapes = shape_problems(field, pod)
    return [
        *shapes,
        *([] if shapes else spread_problems(field, pod)),
        *_annotation_problems(field, pod),
        *check_env(f"{field}.env", pod.env),
        *_source_problems(f"{field}.envFrom", pod.env_from or ()),
        *_volume_problems(f"{field}.volumes", pod.volumes or ()),
        *mount_problems(f"{field}.volumeMounts", pod.volume_mounts or (), volumes),
        *grace_problems(field, pod),
        *container_problems(field, pod, ports),
    ]


def check_env(field: str, env: Sequence[EnvVar] | None) -> list[str]:
    """Returns why additional environment variables are refused. ``field`` is their path in the spec."""
    names = [variable.name for variable in env or ()]
    return [
        *(
            f'{field} name "{name}" is reserved, because the operator uses names starting with '
            f"{', '.join(ENV_PREFIXES)} and the folders of the image. Use the component's config field instead"
            for name in names
            if name.startswith(ENV_PREFIXES) or name in _ENV_NAMES
        ),
        *twice(field, "name", names),
    ]


def _source_problems(field: str, sources: Sequence[EnvFrom]) -> list[str]:
    """Returns the prefixes with which every key would be reserved. Only the start program can check other ones."""
    return [
        f'{field} prefix "{source.prefix}" is reserved, because the operator uses names starting with '
        f"{', '.join(ENV_PREFIXES)}. Choose another prefix"
        for source in sources
        if (source.prefix or "").startswith(ENV_PREFIXES)
    ]


def _volume_problems(field: str, volumes: Sequence[Volume]) -> list[str]:
    found = []
    for number, volume in enumerate(volumes):
        sources = volume.model_dump(by_alias=True, exclude_none=True).keys() - {"name"}
        claim = volume.persistent_volume_claim
        if _VOLUMES.fullmatch(volume.name):
            found.append(f'{field} name "{volume.name}" is used by a volume of the operator. Choose another name')
        if len(sources) != 1:
            found.append(f"{field}[{number}] must have exactly one of {', '.join(VOLUME_SOURCES)}")
        if claim and is_claim_of_any(claim.claim_name):
            found.append(
                f'{field}[{number}].persistentVolumeClaim.claimName "{claim.claim_name}" is the data volume of a '
                "bookie, ZooKeeper or standalone pod. Name another claim"
            )
    return [*found, *twice(field, "name", [volume.name for volume in volumes])]


def _annotation_problems(field: str, pod: PodTemplate) -> list[str]:
    """Returns the annotations with which a StatefulSet is admitted but its pods are not. A rollout would remove a pod
    without getting a new one."""
    found = [
        f'{field}.annotations "{name}" would make Pod Security Standard restricted refuse the pods. Set its value '
        "to runtime/default or localhost/<profile>, or remove it"
        for name, value in (pod.annotations or {}).items()
        if name.startswith(_PROFILES) and not _ALLOWED_PROFILE.fullmatch(value)
    ]
    if (pod.service_account_annotations or {}).get(_ONLY_MOUNTABLE, "").lower() in ("1", "t", "true"):
        found.append(
            f'{field}.serviceAccountAnnotations "{_ONLY_MOUNTABLE}" would make Kubernetes refuse pods with '
            "Secrets, because the ServiceAccount lists no Secrets. Remove the annotation"
        )
    return found


def written_problems(field: str, jvm: Jvm | None, pod: PodTemplate | None) -> list[str]:
    """Returns the files of the JVM that have no writable folder. ``field`` is the path of the component in the spec."""
    mounts = [mount.mount_path for mount in (pod.volume_mounts if pod else None) or () if not mount.read_only]
    given = (("heapDumpPath", jvm.heap_dump_path), ("gcLogPath", jvm.gc_log_path)) if jvm else ()
    return [
        f'{field}.jvm.{name} = "{path}" is not in a writable folder. Choose a folder in {", ".join(WRITTEN)}, or '
        f"mount a volume there with {field}.pod.volumeMounts"
        for name, path in given
        if path and not any(is_within(path, normal(folder)) for folder in (*WRITTEN, *mounts))
    ]
