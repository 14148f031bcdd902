"""What users may say about pods: an allow-list, so that every pod passes Pod Security Standard restricted.

Fields are named as in a PodSpec. What could break the standard is not there (hostPath, host network, a security
context, another ServiceAccount); what would collide with the operator's own is refused by domain/render/pod_checks.py.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import DNS_LABEL, ApiModel, ObjectName, Quantity, validations
from pulsar_operator.api.v1alpha1.images import ImageName

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
KEY = r"^[-._a-zA-Z0-9]+$"
MOUNT_PATH = r"^/[^:\x00-\x1f]*$"
SUB_PATH = r"^[^/:\x00-\x1f][^:\x00-\x1f]*$"

Key = Annotated[str, Field(min_length=1, max_length=253, pattern=KEY)]
PartName = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
"""Name of a volume or a container: a DNS-1123 label."""


def keyed_list(key: str, max_length: int) -> Any:
    """A list whose entries server-side apply tells apart by one field."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return Field(max_length=max_length, json_schema_extra=extra)


def exactly_one(where: str, *members: str) -> tuple[str, str]:
    """A CEL rule of a struct: one of its members is set and no other."""
    present = ", ".join(f"has(self.{member})" for member in members)
    return f"[{present}].filter(x, x).size() == 1", f"exactly one of {', '.join(members)} must be set in {where}"


class KeyReference(ApiModel):
    """One key of a Secret or ConfigMap in the object's Kubernetes namespace."""

    name: ObjectName
    """metadata.name of the Secret or ConfigMap."""
    key: Key
    """The key in it."""
    optional: bool | None = None
    """Whether a pod starts without it; absent = it waits."""


class FieldReference(ApiModel):
    """A field of the pod itself."""

    field_path: Annotated[str, Field(min_length=1, max_length=256)]
    """Path of the field, such as status.hostIP or metadata.labels['zone']."""


class EnvVarSource(ApiModel):
    """Where the value of an environment variable comes from."""

    model_config = ConfigDict(
        json_schema_extra=validations(exactly_one("valueFrom", "secretKeyRef", "configMapKeyRef", "fieldRef"))
    )

    secret_key_ref: KeyReference | None = None
    """A key of a Secret."""
    config_map_key_ref: KeyReference | None = None
    """A key of a ConfigMap."""
    field_ref: FieldReference | None = None
    """A field of the pod."""


class EnvVar(ApiModel):
    """An environment variable."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                # Objects of earlier versions have an empty value that nobody wrote.
                "!has(self.valueFrom) || !has(self.value) || self.value == ''",
                "value and valueFrom exclude each other: set one of them",
            )
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=ENV_NAME)]
    """Name; in the main container PULSAR_CONF_, ZOO_ and POD_ begin the operator's own."""
    value: Annotated[str, Field(max_length=4096)] | None = None
    """Value; absent = empty."""
    value_from: EnvVarSource | None = None
    """Where the value comes from instead."""


class ObjectRef(ApiModel):
    """A Secret or ConfigMap in the object's Kubernetes namespace."""

    name: ObjectName
    """metadata.name of the Secret or ConfigMap."""
    optional: bool | None = None
    """Whether a pod starts without it; absent = it waits."""


class EnvFrom(ApiModel):
    """All keys of a Secret or ConfigMap as environment variables; those named in env win."""

    model_config = ConfigDict(json_schema_extra=validations(exactly_one("envFrom", "secretRef", "configMapRef")))

    prefix: Annotated[str, Field(max_length=128, pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")] | None = None
    """Text that is put before each key."""
    secret_ref: ObjectRef | None = None
    """The Secret."""
    config_map_ref: ObjectRef | None = None
    """The ConfigMap."""


class KeyToPath(ApiModel):
    """One key as a file."""

    key: Key
    """The key in it."""
    path: Annotated[str, Field(min_length=1, max_length=512, pattern=SUB_PATH)]
    """Relative path of the file."""


Items = Annotated[list[KeyToPath], Field(max_length=64)]


class SecretVolume(ApiModel):
    """Files of a Secret."""

    secret_name: ObjectName
    """metadata.name of the Secret."""
    items: Items | None = None
    """Keys and their files; absent = all."""
    optional: bool | None = None
    """Whether a pod starts without it; absent = it waits."""


class ConfigMapVolume(ApiModel):
    """Files of a ConfigMap."""

    name: ObjectName
    """metadata.name of the ConfigMap."""
    items: Items | None = None
    """Keys and their files; absent = all."""
    optional: bool | None = None
    """Whether a pod starts without it; absent = it waits."""


class EmptyDirVolume(ApiModel):
    """A folder that lives as long as the pod."""

    medium: Annotated[str, Field(max_length=32, pattern=r"^(Memory)?$")] | None = None
    """Memory = in RAM, which counts as memory of the containers; absent = on the node's disk."""
    size_limit: Quantity | None = None
    """A pod that writes more is evicted."""


class ProjectedVolume(ApiModel):
    """Several sources in one folder."""

    sources: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=16)]
    """Sources as in a PodSpec, such as secret, configMap, downwardAPI and serviceAccountToken; checked by Kubernetes
    when the pod is made."""


class CsiVolume(ApiModel):
    """An inline volume of a CSI driver, such as secrets-store.csi.k8s.io."""

    driver: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the driver."""
    read_only: bool | None = None
    """Whether it is mounted read-only."""
    fs_type: Annotated[str, Field(max_length=32)] | None = None
    """File system; absent = the driver's choice."""
    volume_attributes: Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=32)] | None = None
    """Settings the driver reads; no secrets."""
    node_publish_secret_ref: ObjectRef | None = None
    """Secret the driver needs."""


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim that exists; all pods of the component mount it."""

    claim_name: ObjectName
    """metadata.name of the claim."""
    read_only: bool | None = None
    """Whether it is mounted read-only."""


VOLUME_SOURCES = ("secret", "configMap", "emptyDir", "projected", "csi", "persistentVolumeClaim")


class Volume(ApiModel):
    """A volume beside the operator's own."""

    model_config = ConfigDict(json_schema_extra=validations(exactly_one("an entry of volumes", *VOLUME_SOURCES)))

    name: PartName
    """Name, by which it is mounted."""
    secret: SecretVolume | None = None
    """Files of a Secret."""
    config_map: ConfigMapVolume | None = None
    """Files of a ConfigMap."""
    empty_dir: EmptyDirVolume | None = None
    """A folder that lives as long as the pod."""
    projected: ProjectedVolume | None = None
    """Several sources in one folder."""
    csi: CsiVolume | None = None
    """An inline volume of a CSI driver."""
    persistent_volume_claim: ClaimVolume | None = None
    """A claim that exists."""


class VolumeMount(ApiModel):
    """Where a volume is seen."""

    name: PartName
    """Name of an entry of volumes."""
    mount_path: Annotated[str, Field(min_length=2, max_length=512, pattern=MOUNT_PATH)]
    """Absolute path; in the main container none of the operator's own."""
    sub_path: Annotated[str, Field(max_length=512, pattern=SUB_PATH)] | None = None
    """Path inside the volume; absent = all of it."""
    read_only: bool | None = None
    """Whether it is mounted read-only."""


EnvList = Annotated[list[EnvVar], keyed_list("name", 64)]
EnvFromList = Annotated[list[EnvFrom], Field(max_length=16)]
MountList = Annotated[list[VolumeMount], keyed_list("mountPath", 32)]


class ContainerEntry(ApiModel):
    """A container beside the main one; containers.py has its fields."""

    model_config = ConfigDict(extra="allow")

    name: PartName
    """Name, unlike that of any other container of the pod."""
    image: ImageName
    """Image."""


Containers = Annotated[list[ContainerEntry], keyed_list("name", 8)]


class Spreading(StrEnum):
    """Whether what cannot be spread runs together, or waits."""

    PREFERRED = "Preferred"
    REQUIRED = "Required"


class ProbeTimings(ApiModel):
    """When a probe of the main container asks; what it asks is the operator's. Absent = the operator's value."""

    initial_delay_seconds: Annotated[int, Field(ge=0, le=86400)] | None = None
    """Seconds before the first probe."""
    period_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds from one probe to the next."""
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds an answer may take."""
    failure_threshold: Annotated[int, Field(ge=1, le=10000)] | None = None
    """So many failures in a row count."""


class DisruptionBudget(ApiModel):
    """The PodDisruptionBudget of a component."""

    enabled: bool = True
    """False: there is none, because you have one of your own or none is wanted."""
    max_unavailable: Annotated[int, Field(ge=1, le=1024)] | None = None
    """So many pods at a time may be evicted; absent = 1."""


class PodTemplate(ApiModel):
    """What a user may set on pods: an allow-list, so that a pod always passes Pod Security Standard restricted."""

    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = None
    """Extra labels; the operator's own win."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=65536)]], Field(max_length=64)] | None = None
    """Extra annotations."""
    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = None
    """Node labels the pods need."""
    affinity: dict[str, Any] | None = None
    """Affinity as in a PodSpec, checked by Kubernetes when the pod is made; absent = spread over nodes where
    possible."""
    pod_anti_affinity: Spreading | None = None
    """No two pods of the component on one node, beside affinity; absent = Preferred, unless affinity is set."""
    zone_spread: Spreading | None = None
    """Evenly over zones, beside topologySpreadConstraints; absent = Preferred, unless they are set."""
    tolerations: Annotated[list[dict[str, Any]], Field(max_length=64)] | None = None
    """Tolerations as in a PodSpec, checked by Kubernetes when the pod is made."""
    topology_spread_constraints: Annotated[list[dict[str, Any]], Field(max_length=16)] | None = None
    """Topology spread constraints as in a PodSpec, checked by Kubernetes when the pod is made."""
    priority_class_name: Annotated[str, Field(max_length=253)] | None = None
    """PriorityClass of the pods."""
    termination_grace_period_seconds: Annotated[int, Field(ge=10, le=86400)] | None = None
    """After this long a pod that stops is killed, preStopSleepSeconds included."""
    pre_stop_sleep_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """A pod that is deleted serves on for so long, while Services and load balancers take it out."""
    readiness_probe: ProbeTimings | None = None
    """Timings of the probe that decides whether a pod gets connections."""
    liveness_probe: ProbeTimings | None = None
    """Timings of the probe that has the container restarted."""
    startup_probe: ProbeTimings | None = None
    """Timings of the probe that the others wait for; how long a start may take."""
    tmp_dir_size_limit: Quantity | None = None
    """Limit of /tmp; a pod that writes more is evicted."""
    logs_dir_size_limit: Quantity | None = None
    """Limit of /pulsar/logs; a pod that writes more is evicted."""
    pod_disruption_budget: DisruptionBudget | None = None
    """How many may be evicted at a time; absent = one, of auto-recovery and standalone any."""
    env: EnvList | None = None
    """Extra environment variables of the main container."""
    env_from: EnvFromList | None = None
    """Secrets and ConfigMaps all of whose keys become environment variables of the main container."""
    volumes: Annotated[list[Volume], keyed_list("name", 32)] | None = None
    """Volumes beside the operator's own."""
    volume_mounts: MountList | None = None
    """Where the main container sees them."""
    sidecars: Containers | None = None
    """Containers beside the main one. Further fields as in a container: imagePullPolicy, command, args, env, envFrom,
    resources, volumeMounts, ports, readinessProbe, livenessProbe; checked by the operator, which sets the security
    context."""
    init_containers: Containers | None = None
    """Containers that run to their end before the main one starts. Further fields as those of sidecars, without ports
    and probes."""
    service_account_annotations: (
        Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] | None
    ) = None
    """Annotations of a ServiceAccount that these pods have for themselves, for the workload identity of a cloud; absent
    = all pods share one. It has no permissions in Kubernetes."""
