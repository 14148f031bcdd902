"""Pod settings of users in the form of a PodSpec. Lists keep their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.v1alpha1.pods import EnvFrom, EnvVar, Volume, VolumeMount

Manifest = dict[str, Any]

RAW = "projected"
"""Volume source that is passed on unchanged."""


def env_entries(variables: Sequence[EnvVar] | None) -> list[Manifest]:
    """Returns the environment variables of a container."""
    return [
        {"name": variable.name, "valueFrom": as_kept(variable.value_from)}
        if variable.value_from
        else {"name": variable.name, "value": variable.value or ""}
        for variable in variables or ()
    ]


def env_sources(sources: Sequence[EnvFrom] | None) -> Manifest:
    """Returns envFrom of a container, if there is any."""
    return {"envFrom": [as_kept(source) for source in sources]} if sources else {}


def volume_entries(volumes: Sequence[Volume] | None) -> list[Manifest]:
    """Returns the volumes of the pod."""
    return [_volume(volume) for volume in volumes or ()]


def mount_entries(mounts: Sequence[VolumeMount] | None) -> list[Manifest]:
    """Returns the mounts of a container."""
    return [as_kept(mount) for mount in mounts or ()]


def _volume(volume: Volume) -> Manifest:
    source, given = next(
        (name, value)
        for name, value in volume.model_dump(mode="json", by_alias=True, exclude_none=True).items()
        if name != "name"
    )
    return {"name": volume.name, source: given if source == RAW else _trimmed(given)}


def as_kept(model: BaseModel) -> Manifest:
    """Returns a struct in the form in which the API server stores it: members that are unset, false, 0 or empty are
    left out, and would otherwise count as a difference."""
    return dict(_trimmed(model.model_dump(mode="json", by_alias=True, exclude_none=True)))


def twice(field: str, what: str, values: Iterable[str]) -> list[str]:
    """Returns a sentence for each value that a list contains more than once."""
    names, found = set(), []
    for value in values:
        if value in names:
            found.append(f'{field} {what} "{value}" appears twice. Remove one of them')
        names.add(value)
    return found


def _trimmed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _trimmed(member) for key, member in value.items() if member not in (None, False, 0, "", [], {})}
    if isinstance(value, list):
        return [_trimmed(member) for member in value]
    return value
