"""Why a pod has to be replaced: the first difference between a pod and the template new pods get, as a message.

Checks are an ordered list, so that the same difference always gives the same reason. What admission adds to a pod
(tolerations, the node, default values) is not a difference; hence only fields the operator renders are compared, and
the decision itself is made by revisions (order.py), never by this comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIG_HASH, ANNOTATION_RESTART_REASON
from pulsar_operator.domain.apply import first_difference
from pulsar_operator.domain.dataplane.observed.remote_clusters import remote_changes
from pulsar_operator.domain.dataplane.observed.store_sessions import store_back

Json = Mapping[str, Any]


def replacement_reason(pod: Json, template: Json) -> str:
    """The first difference as a message; a general sentence when none of the known ones is found."""
    for check in _CHECKS:
        if words := check(pod, template):
            return words
    return "the pod template changed"


def _image(pod: Json, template: Json) -> str | None:
    old, new = _container(pod).get("image"), _container(template).get("image")
    return f"the image changed from {old} to {new}" if old != new else None


def _restart(pod: Json, template: Json) -> str | None:
    new = _annotations(template).get(ANNOTATION_RESTART_REASON)
    return (
        (f"a restart was requested: {new}") if new and new != _annotations(pod).get(ANNOTATION_RESTART_REASON) else None
    )


def _remote_clusters(pod: Json, template: Json) -> str | None:
    old, new = remote_changes(pod), remote_changes(template)
    names = [name for name in sorted(new) if old.get(name) != new[name]]
    if not names:
        return None
    whose = f"cluster {names[0]}" if len(names) == 1 else f"clusters {', '.join(names)}"
    return f"the URLs of {whose} changed, and brokers do not reconnect their existing clients"


def _store_unavailable(pod: Json, template: Json) -> str | None:
    back = store_back(template)
    if back is None or back == store_back(pod):
        return None
    return (
        f"the configuration store was unavailable until {back}, which is longer than a session lasts, so brokers "
        "that ran at that time do not notice later changes in the store"
    )


def _config(pod: Json, template: Json) -> str | None:
    old, new = (_annotations(side).get(ANNOTATION_CONFIG_HASH) for side in (pod, template))
    return f"the configuration changed (hash {old} to {new})" if old != new else None


def _resources(pod: Json, template: Json) -> str | None:
    old, new = (_container(side).get("resources") or {} for side in (pod, template))
    for kind in ("requests", "limits"):
        # Kubernetes adds a request wherever there is only a limit; what the template names is what counts.
        desired = new.get(kind) or {}
        current = {key: value for key, value in (old.get(kind) or {}).items() if key in desired or kind == "limits"}
        for name in sorted(desired | current):
            if desired.get(name) != current.get(name):
                return f"{kind}.{name} changed from {current.get(name, 'none')} to {desired.get(name, 'none')}"
    return None


def _env(pod: Json, template: Json) -> str | None:
    old, new = ({entry["name"]: entry for entry in _container(side).get("env") or ()} for side in (pod, template))
    for name in sorted(old | new):
        if old.get(name) != new.get(name):
            # Values stay out of reasons: they travel to events and status.
            return f"environment variable {name} was {_verb(name in old, name in new)}"
    return None


def _container_fields(pod: Json, template: Json) -> str | None:
    return _first_field("container ", _container(pod), _container(template), _CONTAINER_FIELDS)


def _pod_fields(pod: Json, template: Json) -> str | None:
    return _first_field("pod ", pod.get("spec") or {}, template.get("spec") or {}, _POD_FIELDS)


def _volumes(pod: Json, template: Json) -> str | None:
    # The StatefulSet controller adds the volumes of claims to the pod.
    old, new = (
        {volume["name"]: volume for volume in (side.get("spec") or {}).get("volumes") or ()} for side in (pod, template)
    )
    for name in sorted(new):
        if name not in old:
            return f"volume {name} was added"
        if first_difference(new[name], old[name]):
            return f"volume {name} changed"
    for name in sorted(old):
        if name not in new and "persistentVolumeClaim" not in old[name]:
            return f"volume {name} was removed"
    return None


def _other_containers(pod: Json, template: Json) -> str | None:
    # What a mesh adds to the pod is no difference.
    for kind in ("containers", "initContainers"):
        old, new = (
            {each["name"]: each for each in (side.get("spec") or {}).get(kind) or ()} for side in (pod, template)
        )
        for name in sorted(new):
            if name not in old:
                return f"container {name} was added"
            if new[name] != _container(template) and first_difference(new[name], old[name]):
                return f"container {name} changed"
    return None


def _mounts(pod: Json, template: Json) -> str | None:
    old, new = (
        {mount["mountPath"]: mount["name"] for mount in _container(side).get("volumeMounts") or ()}
        for side in (pod, template)
    )
    for path in sorted(new | old):
        if old.get(path) != new.get(path):
            return f"mount {path} was {_verb(path in old, path in new)}"
    return None


def _labels(pod: Json, template: Json) -> str | None:
    old, new = ((side.get("metadata") or {}).get("labels") or {} for side in (pod, template))
    for name in sorted(new):
        if old.get(name) != new[name]:
            return f"label {name} was {_verb(name in old, True)}"
    return None


def _other_annotations(pod: Json, template: Json) -> str | None:
    old, new = _annotations(pod), _annotations(template)
    for name in sorted(new):
        if old.get(name) != new[name]:
            return f"annotation {name} was {_verb(name in old, True)}"
    return None


_CONTAINER_FIELDS = (
    "command",
    "args",
    "ports",
    "envFrom",
    "imagePullPolicy",
    "securityContext",
    "startupProbe",
    "readinessProbe",
    "livenessProbe",
    "lifecycle",
    "terminationMessagePolicy",
)
_POD_FIELDS = (
    "affinity",
    "nodeSelector",
    "topologySpreadConstraints",
    "priorityClassName",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "dnsConfig",
    "imagePullSecrets",
)

_CHECKS: tuple[Callable[[Json, Json], str | None], ...] = (
    _image,
    _restart,
    _remote_clusters,
    _store_unavailable,
    _config,
    _resources,
    _env,
    _mounts,
    _volumes,
    _container_fields,
    _other_containers,
    _pod_fields,
    _labels,
    _other_annotations,
)


def _first_field(what: str, old: Json, new: Json, names: tuple[str, ...]) -> str | None:
    for name in names:
        if name in new and old.get(name) != new[name]:
            return f"{what}{name} changed"
    return None


def _verb(before: bool, after: bool) -> str:
    return "changed" if before and after else "added" if after else "removed"


def _container(side: Json) -> Json:
    containers = (side.get("spec") or {}).get("containers") or [{}]
    return dict(containers[0])


def _annotations(side: Json) -> Json:
    return dict((side.get("metadata") or {}).get("annotations") or {})
