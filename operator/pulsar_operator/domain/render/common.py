"""Common parts of all components: pod template, security, probes, volumes, StatefulSet, ConfigMap, identity.

Every pod passes Pod Security Standard ``restricted`` with a read-only root. Writable folders are emptyDirs and claims.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIG_HASH, Component
from pulsar_operator.api.v1alpha1.platform import Platform, PodSecurity
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.domain.render.child_names import (
    Owner,
    config_map_name,
    digest,
    labels,
    owner_labels,
    selector_labels,
    service_account_name,
)
from pulsar_operator.domain.render.config import JVM_FILE, OVERRIDES_FILE, ip_arguments, jvm_text, overrides_text
from pulsar_operator.domain.render.containers import SECURITY, init_containers, sidecars
from pulsar_operator.domain.render.edge_tls import certificate_mounts, certificate_volumes
from pulsar_operator.domain.render.lifetime import grace_seconds, limited, pre_stop, timings
from pulsar_operator.domain.render.listeners import ListenerPlan
from pulsar_operator.domain.render.pod_extras import env_entries, env_sources, mount_entries, volume_entries
from pulsar_operator.domain.render.pod_placement import ZONE, affinity, zone_spread
from pulsar_operator.domain.render.security import token_mounts, token_volumes

Manifest = dict[str, Any]

START = ("python3", "/opt/pulsar-operator/pulsar_start")
CONFIG_FOLDER = "/etc/pulsar-operator/config"
DOWNWARD, DOWNWARD_FOLDER = "pod", "/etc/pulsar-operator/pod"
"""Volume with fields of the pod itself (downward API), and its folder."""
ADDRESSES, ADDRESSES_FOLDER = "listeners", "/etc/pulsar-operator/listeners"
"""Volume with the addresses of brokers at external listeners, and its folder."""
ADDRESSES_VARIABLE = "PULSAR_OPERATOR_LISTENERS"
"""Environment variable with the file of the pod in that folder, for which the start program waits."""
RENDERED_FOLDER = "/pulsar/conf-rendered"
IDS = {"runAsUser": 10000, "runAsGroup": 0, "fsGroup": 10000}
"""User and group ids of pods, unless the platform chooses them."""
OWN_VARIABLES = "PULSAR_OPERATOR_VARIABLES"
"""Environment variable with the names of the operator's own variables, for a container with envFrom."""
WRITABLE = {"tmp": "/tmp", "logs": "/pulsar/logs", "conf-rendered": RENDERED_FOLDER}
"""emptyDir volumes of every pod: name to mount path. /tmp must allow execution (RocksDB and Netty unpack libraries)."""


@dataclass(frozen=True)
class Claim:
    """A volume claim of each pod."""

    name: str
    path: str
    size: str
    storage_class: str | None


@dataclass(frozen=True)
class Probes:
    """Probe handlers, with their timing in seconds."""

    readiness: Manifest
    liveness: Manifest
    startup: Manifest
    startup_seconds: int = 300
    """Seconds that a start may take before the container is restarted."""
    readiness_timeout: int = 5


@dataclass(frozen=True)
class Workload:
    """Everything that differs between the StatefulSets of components."""

    listeners: ListenerPlan
    platform: Platform
    replicas: int
    image: str
    pull_policy: str
    pull_secrets: Sequence[str]
    config: Mapping[str, str]
    jvm: Sequence[str]
    resources: Manifest
    probes: Probes
    pod: PodTemplate | None = None
    env: Sequence[Manifest] = ()
    claims: Sequence[Claim] = ()
    grace_seconds: int = 60
    downward: Mapping[str, str] = field(default_factory=dict)
    """Files in DOWNWARD_FOLDER: name to the field of the pod with the value. If empty, there is no such folder."""
    spread_over: str = ZONE
    """Label over whose values the pods are spread, unless the user sets one."""
    run_as: str | None = None
    """Component name for the start program if it differs from ``component``."""
    token_audience: str | None = None
    """Audience of the token that the pods get, of a ServiceAccount of the component alone. If None, they get none."""

    @property
    def owner(self) -> Owner:
        """Returns the custom resource that the workload belongs to."""
        return self.listeners.owner

    @property
    def component(self) -> Component:
        """Returns the component."""
        return self.listeners.component

    @property
    def name(self) -> str:
        """Returns the name of the StatefulSet and of the client Service."""
        return self.listeners.workload


def metadata(owner: Owner, name: str, component: Component | None, annotations: Manifest | None = None) -> Manifest:
    """Returns the metadata of a child: labels, and the reference with which Kubernetes deletes it together with its
    owner.

    blockOwnerDeletion is false: otherwise setting the reference would require permissions on the owner's finalizers.
    """
    meta: Manifest = {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(owner, component),
        "ownerReferences": [
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind.value,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
    if annotations:
        meta["annotations"] = dict(annotations)
    return meta


def env_value(name: str, value: str) -> Manifest:
    """Returns a plain environment variable."""
    return {"name": name, "value": value}


def conf_value(key: str, value: str) -> Manifest:
    """Returns a setting of this pod alone, which the start program applies over the ConfigMap."""
    return env_value(f"PULSAR_CONF_{key}", value)


def config_map(workload: Workload) -> Manifest:
    """Returns the ConfigMap with overrides.conf and jvm.conf."""
    data = {
        OVERRIDES_FILE: overrides_text(workload.config),
        JVM_FILE: jvm_text([*ip_arguments(workload.platform), *workload.jvm]),
    }
    name = config_map_name(workload.name, config_hash(data))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(workload.owner, name, workload.component),
        "data": data,
    }


def config_hash(data: Mapping[str, str]) -> str:
    """Returns a hash of a ConfigMap's data. In the pod template it makes a change of configuration a new revision."""
    return _hash_of(tuple(sorted(data.items())))


@lru_cache(maxsize=256)
def _hash_of(items: tuple[tuple[str, str], ...]) -> str:
    """Returns the hash. It is cached, since a pass needs it three times per component, mostly for unchanged data."""
    return digest(json.dumps(dict(items)), 16)


def service_account(owner: Owner) -> Manifest:
    """Returns the ServiceAccount that pods of an owner share. It has no permissions and no token."""
    return _account(metadata(owner, service_account_name(owner), None))


def own_account(workload: Workload) -> list[Manifest]:
    """Returns the ServiceAccount of a single component if a user gave it annotations, or if it is the component's role
    in Pulsar; otherwise none.

    The permissions that a cloud provider or Pulsar grants to it then apply to these pods only.
    """
    annotations = workload.pod.service_account_annotations if workload.pod else None
    if not annotations and workload.token_audience is None:
        return []
    return [_account(metadata(workload.owner, workload.name, workload.component, annotations))]


def _account(meta: Manifest) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False}


def _account_name(workload: Workload) -> str:
    return workload.name if own_account(workload) else service_account_name(workload.owner)


def stateful_set(workload: Workload, config_data: Mapping[str, str]) -> Manifest:
    """Returns the StatefulSet. Its immutable fields are final from the first version on."""
    owner, component = workload.owner, workload.component
    spec: Manifest = {
        "replicas": workload.replicas,
        "serviceName": workload.listeners.headless,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "revisionHistoryLimit": 5,
        "selector": {"matchLabels": selector_labels(owner, component)},
        "template": pod_template(workload, config_data),
    }
    if workload.claims:
        spec["volumeClaimTemplates"] = [_claim_template(workload, claim) for claim in workload.claims]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(owner, workload.name, component),
        "spec": spec,
    }


def pod_template(workload: Workload, config_data: Mapping[str, str]) -> Manifest:
    """Returns the labels, annotations and spec of the pods."""
    pod, selector = workload.pod or PodTemplate(), selector_labels(workload.owner, workload.component)
    spec: Manifest = {
        "serviceAccountName": _account_name(workload),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(pod, workload.grace_seconds),
        # Names are always complete. With the default ndots:5 a name is tried under every search domain first, and a
        # remote cluster's outage was seen to stick in Netty's negative cache.
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "securityContext": {
            "runAsNonRoot": True,
            **(IDS if workload.platform.pod_security is PodSecurity.FIXED else {}),
            # Without it every start walks over all files of a large volume.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": affinity(pod, selector),
        "topologySpreadConstraints": zone_spread(pod, selector, workload.spread_over),
        **init_containers(pod),
        "containers": [_container(workload, pod), *sidecars(pod)],
        "volumes": [
            {"name": "config", "configMap": {"name": config_map_name(workload.name, config_hash(config_data))}},
            *({"name": name, "emptyDir": limited(pod, name)} for name in WRITABLE),
            *_downward(workload),
            *_addresses(workload),
            *([] if workload.token_audience is None else token_volumes(workload.token_audience)),
            *(certificate_volumes(workload.owner.name) if workload.listeners.tls else []),
            *volume_entries(pod.volumes),
        ],
    }
    if workload.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in workload.pull_secrets]
    if pod.node_selector:
        spec["nodeSelector"] = dict(pod.node_selector)
    if pod.tolerations:
        spec["tolerations"] = list(pod.tolerations)
    if pod.priority_class_name:
        spec["priorityClassName"] = pod.priority_class_name
    return {
        "metadata": {
            "labels": labels(workload.owner, workload.component, pod.labels),
            "annotations": {**(pod.annotations or {}), ANNOTATION_CONFIG_HASH: config_hash(config_data)},
        },
        "spec": spec,
    }


def _container(workload: Workload, pod: PodTemplate) -> Manifest:
    probes = workload.probes
    mounts = [{"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True}]
    mounts += [{"name": name, "mountPath": path} for name, path in WRITABLE.items()]
    if workload.downward:
        mounts.append({"name": DOWNWARD, "mountPath": DOWNWARD_FOLDER, "readOnly": True})
    if workload.listeners.external:
        mounts.append({"name": ADDRESSES, "mountPath": ADDRESSES_FOLDER, "readOnly": True})
    mounts += [] if workload.token_audience is None else token_mounts()
    mounts += certificate_mounts() if workload.listeners.tls else []
    mounts += [{"name": claim.name, "mountPath": claim.path} for claim in workload.claims]
    mounts += mount_entries(pod.volume_mounts)
    # POD_NAME comes first: Kubernetes expands $(POD_NAME) only from variables defined before.
    env = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, *workload.env]
    if pod.env_from:
        # The start program refuses any other of its variables: the operator cannot see the keys of a Secret.
        env.append(env_value(OWN_VARIABLES, ",".join([each["name"] for each in env])))
    env += env_entries(pod.env)
    return {
        "name": workload.component.value,
        "image": workload.image,
        "imagePullPolicy": workload.pull_policy,
        "command": [*START, workload.run_as or workload.component.value],
        "env": env,
        **env_sources(pod.env_from),
        "ports": [{"name": name, "containerPort": port} for name, port in workload.listeners.ports.items()],
        "resources": workload.resources,
        "securityContext": dict(SECURITY),
        # The last lines of a failed start reach the pod's status, and from there the cluster's conditions.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": {
            **probes.startup,
            "periodSeconds": 5,
            "timeoutSeconds": probes.readiness_timeout,
            "failureThreshold": probes.startup_seconds // 5,
            **timings(pod.startup_probe),
        },
        "readinessProbe": {
            **probes.readiness,
            "periodSeconds": 5,
            "timeoutSeconds": probes.readiness_timeout,
            "failureThreshold": 3,
            **timings(pod.readiness_probe),
        },
        "livenessProbe": {
            **probes.liveness,
            "periodSeconds": 15,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
            **timings(pod.liveness_probe),
        },
        **pre_stop(pod),
        "volumeMounts": mounts,
    }


def _downward(workload: Workload) -> list[Manifest]:
    items = [{"path": name, "fieldRef": {"fieldPath": path}} for name, path in workload.downward.items()]
    return [{"name": DOWNWARD, "downwardAPI": {"items": items}}] if items else []


def _addresses(workload: Workload) -> list[Manifest]:
    plan = workload.listeners
    return [{"name": ADDRESSES, "configMap": {"name": plan.addresses}}] if plan.external else []


def _claim_template(workload: Workload, claim: Claim) -> Manifest:
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": claim.size}}}
    if claim.storage_class is not None:
        spec["storageClassName"] = claim.storage_class
    return {
        # No owner reference: volumes outlive the custom resource unless its reclaimPolicy says otherwise.
        "metadata": {"name": claim.name, "labels": _claim_labels(workload)},
        "spec": spec,
    }


def _claim_labels(workload: Workload) -> dict[str, str]:
    """Returns the labels of the volumes. They are immutable like the template that contains them."""
    owner = workload.owner
    return {**owner_labels(owner.kind, owner.name), **selector_labels(owner, workload.component)}
