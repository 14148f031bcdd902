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
    """A list whose entries server-side apply identifies by one field."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return Field(max_length=max_length, json_schema_extra=extra)


def exactly_one(where: str, *members: str) -> tuple[str, str]:
    """A CEL rule of a struct: one of its members is set and no other."""
    present = ", ".join(f"has(self.{member})" for member in members)
    return f"[{present}].filter(x, x).size() == 1", f"exactly one of {', '.join(members)} must be set in {where}"


class KeyReference(ApiModel):
    """One key of a Secret or ConfigMap in the object's Kubernetes namespace."""

    name: ObjectName
    """Name of the Secret or ConfigMap that has the key."""
    key: Key
    """Key whose value is used."""
    optional: bool | None = None
    """Whether the key may be missing. Defaults to false."""


class FieldReference(ApiModel):
    """A field of the pod itself."""

    field_path: Annotated[str, Field(min_length=1, max_length=256)]
    """Path of the field, such as status.hostIP, that has the value."""


class EnvVarSource(ApiModel):
    """Source of the value of an environment variable."""

    model_config = ConfigDict(
        json_schema_extra=validations(exactly_one("valueFrom", "secretKeyRef", "configMapKeyRef", "fieldRef"))
    )

    secret_key_ref: KeyReference | None = None
    """Key of a Secret that has the value."""
    config_map_key_ref: KeyReference | None = None
    """Key of a ConfigMap that has the value."""
    field_ref: FieldReference | None = None
    """Field of the pod that has the value."""


class EnvVar(ApiModel):
    """An environment variable."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                # Objects of earlier versions have an empty value that nobody wrote.
                "!has(self.valueFrom) || !has(self.value) || self.value == ''",
                "value and valueFrom must not both be set. Remove one of them",
            )
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=ENV_NAME)]
    """Name of the variable. The name must not start with PULSAR_CONF_, ZOO_, POD_ or PULSAR_OPERATOR_."""
    value: Annotated[str, Field(max_length=4096)] | None = None
    """Value of the variable. If unset, valueFrom or an empty value applies."""
    value_from: EnvVarSource | None = None
    """Source of the value. If unset, value is used."""


class ObjectRef(ApiModel):
    """A Secret or ConfigMap in the object's Kubernetes namespace."""

    name: ObjectName
    """Name of the Secret or ConfigMap that is used."""
    optional: bool | None = None
    """Whether the object may be missing. Defaults to false."""


class EnvFrom(ApiModel):
    """Secret or ConfigMap whose keys become environment variables. Variables in env take precedence."""

    model_config = ConfigDict(json_schema_extra=validations(exactly_one("envFrom", "secretRef", "configMapRef")))

    prefix: Annotated[str, Field(max_length=128, pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")] | None = None
    """Text that is put before each key. If unset, the keys have no prefix."""
    secret_ref: ObjectRef | None = None
    """Secret whose keys become variables."""
    config_map_ref: ObjectRef | None = None
    """ConfigMap whose keys become variables."""


class KeyToPath(ApiModel):
    """Key that becomes a file."""

    key: Key
    """Key whose value the file contains."""
    path: Annotated[str, Field(min_length=1, max_length=512, pattern=SUB_PATH)]
    """Relative path of the file that is written."""


Items = Annotated[list[KeyToPath], Field(max_length=64)]


class SecretVolume(ApiModel):
    """Files of a Secret."""

    secret_name: ObjectName
    """Name of the Secret whose keys become files."""
    items: Items | None = None
    """Keys that become files. If unset, all keys become files."""
    optional: bool | None = None
    """Whether the Secret and its keys may be missing. Defaults to false."""


class ConfigMapVolume(ApiModel):
    """Files of a ConfigMap."""

    name: ObjectName
    """Name of the ConfigMap whose keys become files."""
    items: Items | None = None
    """Keys that become files. If unset, all keys become files."""
    optional: bool | None = None
    """Whether the ConfigMap and its keys may be missing. Defaults to false."""


class EmptyDirVolume(ApiModel):
    """A directory that is deleted with the pod."""

    medium: Annotated[str, Field(max_length=32, pattern=r"^(Memory)?$")] | None = None
    """Memory keeps the files in RAM, as part of the containers' memory. If unset, the files are on the node's disk."""
    size_limit: Quantity | None = None
    """Size above which the pod is evicted. If unset, there is no limit."""


class ProjectedVolume(ApiModel):
    """Several sources in one directory."""

    sources: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=16)]
    """Sources as in a PodSpec, which Kubernetes validates when it creates the pod."""


class CsiVolume(ApiModel):
    """An inline volume of a CSI driver, such as secrets-store.csi.k8s.io."""

    driver: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the CSI driver that provides the volume."""
    read_only: bool | None = None
    """Whether the mount is read-only. Defaults to false."""
    fs_type: Annotated[str, Field(max_length=32)] | None = None
    """File system type. If unset, the driver chooses the type."""
    volume_attributes: Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=32)] | None = None
    """Settings that the driver reads, without secrets. If unset, the driver gets no settings."""
    node_publish_secret_ref: ObjectRef | None = None
    """Secret that the driver needs. If unset, the driver gets no Secret."""


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim that already exists."""

    claim_name: ObjectName
    """Name of the PersistentVolumeClaim that all pods of the component mount."""
    read_only: bool | None = None
    """Whether the mount is read-only. Defaults to false."""


VOLUME_SOURCES = ("secret", "configMap", "emptyDir", "projected", "csi", "persistentVolumeClaim")


class Volume(ApiModel):
    """An additional volume."""

    model_config = ConfigDict(json_schema_extra=validations(exactly_one("an entry of volumes", *VOLUME_SOURCES)))

    name: PartName
    """Name by which volumeMounts refer to the volume."""
    secret: SecretVolume | None = None
    """Volume whose files are keys of a Secret."""
    config_map: ConfigMapVolume | None = None
    """Volume whose files are keys of a ConfigMap."""
    empty_dir: EmptyDirVolume | None = None
    """Directory that is deleted with the pod."""
    projected: ProjectedVolume | None = None
    """Volume that combines several sources."""
    csi: CsiVolume | None = None
    """Inline volume that a CSI driver provides."""
    persistent_volume_claim: ClaimVolume | None = None
    """PersistentVolumeClaim that already exists."""


class VolumeMount(ApiModel):
    """A mount of a volume."""

    name: PartName
    """Name of the entry of volumes that is mounted."""
    mount_path: Annotated[str, Field(min_length=2, max_length=512, pattern=MOUNT_PATH)]
    """Absolute path of the mount. Paths that the operator or the image needs are refused."""
    sub_path: Annotated[str, Field(max_length=512, pattern=SUB_PATH)] | None = None
    """Path in the volume that is mounted. If unset, the complete volume is mounted."""
    read_only: bool | None = None
    """Whether the mount is read-only. Defaults to false."""


EnvList = Annotated[list[EnvVar], keyed_list("name", 64)]
EnvFromList = Annotated[list[EnvFrom], Field(max_length=16)]
MountList = Annotated[list[VolumeMount], keyed_list("mountPath", 32)]


class ContainerEntry(ApiModel):
    """An additional container. containers.py has its other fields."""

    model_config = ConfigDict(extra="allow")

    name: PartName
    """Name of the container, which is unique in the pod."""
    image: ImageName
    """Image that the container runs."""


Containers = Annotated[list[ContainerEntry], keyed_list("name", 8)]


class Spreading(StrEnum):
    """Whether pods that cannot be spread run together (Preferred) or remain pending (Required)."""

    PREFERRED = "Preferred"
    REQUIRED = "Required"


class ProbeTimings(ApiModel):
    """Timings of a probe of the main container. The operator defines what the probe calls."""

    initial_delay_seconds: Annotated[int, Field(ge=0, le=86400)] | None = None
    """Seconds before the first probe. Defaults to 0."""
    period_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds between two probes. Defaults to 15 for livenessProbe and to 5 for the other probes."""
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds after which a probe without an answer fails. Defaults to 10 for livenessProbe and to 5 for the other
    probes."""
    failure_threshold: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Consecutive failures after which the probe counts as failed. Defaults to 3 for readinessProbe, 6 for
    livenessProbe, and for startupProbe to 360 (bookies), 120 (brokers, standalone pods) or 60 (other pods)."""


class DisruptionBudget(ApiModel):
    """The PodDisruptionBudget of a component."""

    enabled: bool = True
    """Whether the operator creates a PodDisruptionBudget for the component."""
    max_unavailable: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of pods that may be evicted at a time. Defaults to 1."""


class PodTemplate(ApiModel):
    """Settings of pods. The fields are an allow-list, so that every pod meets Pod Security Standard restricted."""

    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = None
    """Additional labels. Labels that the operator sets take precedence. If unset, none are added."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=65536)]], Field(max_length=64)] | None = None
    """Additional annotations. Annotations that the operator sets take precedence. If unset, none are added."""
    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = None
    """Labels that a node must have to run the pods. If unset, any node may run the pods."""
    affinity: dict[str, Any] | None = None
    """Affinity as in a PodSpec, which Kubernetes validates when it creates the pod. If unset, only podAntiAffinity
    applies."""
    pod_anti_affinity: Spreading | None = None
    """Whether two pods of the component must not (Required) or should not (Preferred) share a node, in addition to
    affinity. If unset, Preferred applies unless affinity is set."""
    zone_spread: Spreading | None = None
    """Whether the pods must (Required) or should (Preferred) be spread evenly over zones, in addition to
    topologySpreadConstraints. If unset, Preferred applies unless topologySpreadConstraints is set."""
    tolerations: Annotated[list[dict[str, Any]], Field(max_length=64)] | None = None
    """Tolerations as in a PodSpec, which Kubernetes validates when it creates the pod. If unset, none are added."""
    topology_spread_constraints: Annotated[list[dict[str, Any]], Field(max_length=16)] | None = None
    """Topology spread constraints as in a PodSpec, which Kubernetes validates when it creates the pod. If unset, only
    zoneSpread applies."""
    priority_class_name: Annotated[str, Field(max_length=253)] | None = None
    """PriorityClass of the pods. If unset, Kubernetes chooses the PriorityClass."""
    termination_grace_period_seconds: Annotated[int, Field(ge=10, le=86400)] | None = None
    """Seconds after which a stopping pod is killed, including preStopSleepSeconds. Defaults to preStopSleepSeconds plus
    90 (brokers, standalone pods), 60 (bookies, proxies) or 30 (other pods)."""
    pre_stop_sleep_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds for which a deleted pod continues to serve, while endpoints are updated. Defaults to 0, or to
    autoscaling.drainSeconds of proxies."""
    readiness_probe: ProbeTimings | None = None
    """Timings of the probe that decides whether the pod receives connections. If unset, each field has its default."""
    liveness_probe: ProbeTimings | None = None
    """Timings of the probe that restarts the container. If unset, each field has its default."""
    startup_probe: ProbeTimings | None = None
    """Timings of the probe that must succeed before the others begin. If unset, each field has its default."""
    tmp_dir_size_limit: Quantity | None = None
    """Size of /tmp above which the pod is evicted. If unset, there is no limit."""
    logs_dir_size_limit: Quantity | None = None
    """Size of /pulsar/logs above which the pod is evicted. If unset, there is no limit."""
    pod_disruption_budget: DisruptionBudget | None = None
    """PodDisruptionBudget of the component. If unset, only one pod may be evicted at a time. Evictions of
    auto-recovery and standalone pods are not limited then."""
    env: EnvList | None = None
    """Additional environment variables of the main container. If unset, none are added."""
    env_from: EnvFromList | None = None
    """Objects whose keys become environment variables of the main container. Variables in env take precedence. If
    unset, none are added."""
    volumes: Annotated[list[Volume], keyed_list("name", 32)] | None = None
    """Additional volumes. If unset, none are added."""
    volume_mounts: MountList | None = None
    """Additional mounts of the main container. If unset, none are added."""
    sidecars: Containers | None = None
    """Additional containers. Besides name and image, these fields of a container are allowed: imagePullPolicy, command,
    args, env, envFrom, resources, volumeMounts, ports, readinessProbe, livenessProbe. The operator checks them and sets
    the security context. If unset, none are added."""
    init_containers: Containers | None = None
    """Containers that complete before the main container starts. Init containers have the fields of sidecars except
    ports and probes. If unset, none are added."""
    service_account_annotations: (
        Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] | None
    ) = None
    """Annotations of a ServiceAccount for these pods alone, such as for the workload identity of a cloud. The
    ServiceAccount has no permissions in Kubernetes. If unset, the components share a ServiceAccount."""
