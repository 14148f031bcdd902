"""Sidecar and init containers of users: validated against their allow-list and rendered with the operator's security
context."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.containers import ContainerProbe, InitContainer, SidecarContainer
from pulsar_operator.api.v1alpha1.pods import ContainerEntry, PodTemplate
from pulsar_operator.domain.render.mounts import other_mount_problems
from pulsar_operator.domain.render.pod_extras import (
    Manifest,
    as_kept,
    env_entries,
    env_sources,
    mount_entries,
    twice,
)

SHARED = "logs"
"""The operator's volume that other containers may mount, to ship its files."""
HANDLERS = ("exec", "httpGet", "tcpSocket")

SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}
"""Security context of every container, with which pods pass Pod Security Standard restricted. User and group are those
of the pod."""


def init_containers(pod: PodTemplate) -> Manifest:
    """Returns initContainers of a PodSpec, if there are any. Raises ValueError for problems that container_problems
    reports."""
    found = [_container(_read(InitContainer, entry)) for entry in pod.init_containers or ()]
    return {"initContainers": found} if found else {}


def sidecars(pod: PodTemplate) -> list[Manifest]:
    """Returns the containers after the main one. Raises ValueError for problems that container_problems reports."""
    return [_container(_read(SidecarContainer, entry)) for entry in pod.sidecars or ()]


def container_problems(field: str, pod: PodTemplate, ports: Mapping[str, int]) -> list[str]:
    """Returns why containers are refused. ``field`` is the path of the pod template, ``ports`` are those of the main
    container."""
    volumes = {volume.name for volume in pod.volumes or ()} | {SHARED}
    found, names = [], []
    listed: tuple[tuple[str, type[InitContainer], Sequence[ContainerEntry]], ...] = (
        ("sidecars", SidecarContainer, pod.sidecars or ()),
        ("initContainers", InitContainer, pod.init_containers or ()),
    )
    for where, model, entries in listed:
        for entry in entries:
            here = f'{field}.{where} "{entry.name}"'
            names.append(entry.name)
            try:
                container = _read(model, entry)
            except ValidationError as error:
                found += _schema_problems(here, error, model)
                continue
            if entry.name in {*Component}:
                found.append(f"{here} has the name of a container of the operator. Choose another name")
            found += _env_and_mounts(here, container, volumes)
            if isinstance(container, SidecarContainer):
                found += _port_problems(here, container, ports)
                found += _probe_problems(here, container)
    return [*found, *twice(f"{field}.sidecars and initContainers", "name", names)]


def _read(model: type[InitContainer], entry: ContainerEntry) -> Any:
    return model.model_validate(entry.model_dump(mode="json", by_alias=True), extra="forbid")


def _schema_problems(here: str, error: ValidationError, model: type[InitContainer]) -> list[str]:
    allowed = ", ".join(str(info.alias) for info in model.model_fields.values())
    found = []
    for one in error.errors(include_input=False, include_url=False):
        place = ".".join(str(step) for step in one["loc"])
        unknown = one["type"] == "extra_forbidden"
        if unknown and len(one["loc"]) == 1:
            found.append(f"{here} has field {place}, which is not allowed. Use only the fields {allowed}")
        else:
            found.append(f"{here} has an invalid field {place}: {one['msg']}")
    return found


def _env_and_mounts(here: str, container: InitContainer, volumes: Collection[str]) -> list[str]:
    found = [
        f'{here} env name "{variable.name}" must have value, or exactly one of the sources in valueFrom'
        for variable in container.env or ()
        if variable.value_from and (variable.value or len(as_kept(variable.value_from)) != 1)
    ]
    if any((source.secret_ref is None) == (source.config_map_ref is None) for source in container.env_from or ()):
        found.append(f"{here} envFrom must have exactly one of secretRef and configMapRef in each entry")
    found += other_mount_problems(here, container.volume_mounts or (), volumes)
    return [*found, *twice(here, "env name", [variable.name for variable in container.env or ()])]


def _port_problems(here: str, container: SidecarContainer, ports: Mapping[str, int]) -> list[str]:
    own = {str(number) for number in ports.values()} | set(ports)
    given = [word for port in container.ports or () for word in (port.name, str(port.container_port)) if word]
    found = [
        (f'{here} port "{word}" is used by the main container. Choose another port') for word in given if word in own
    ]
    return [*found, *twice(here, "port", given)]


def _probe_problems(here: str, container: SidecarContainer) -> list[str]:
    found = []
    for name, probe in (("readinessProbe", container.readiness_probe), ("livenessProbe", container.liveness_probe)):
        if probe is not None and len(_handlers(probe)) != 1:
            found.append(f"{here} {name} must have exactly one of {', '.join(HANDLERS)}")
    return found


def _handlers(probe: ContainerProbe) -> list[str]:
    return [name for name in HANDLERS if name in as_kept(probe)]


def _container(container: InitContainer) -> Manifest:
    out = {
        **as_kept(container),
        # The last lines of a failed start reach the pod's status, as those of the main container; conditions leave them
        # out (domain/dataplane/objects/pods.py).
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": SECURITY,
    }
    if container.env:
        out["env"] = env_entries(container.env)
    if container.volume_mounts:
        out["volumeMounts"] = mount_entries(container.volume_mounts)
    if container.resources:
        given = {"requests": container.resources.requests, "limits": container.resources.limits}
        out["resources"] = {key: {k: str(v) for k, v in value.items()} for key, value in given.items() if value}
    return {**out, **env_sources(container.env_from)}
