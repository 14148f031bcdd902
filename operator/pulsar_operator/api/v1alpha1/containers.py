"""Sidecar and init containers of pod templates: the allow-list of their fields.

A definition has no references, and pod templates stand at six places, so the definition itself names only what every
container has; the rest is checked against these models by the operator (domain/render/containers.py).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import DNS_LABEL, ApiModel, Resources
from pulsar_operator.api.v1alpha1.images import ImageName, ImagePullPolicy
from pulsar_operator.api.v1alpha1.pods import EnvFromList, EnvList, MountList, PartName

Arguments = Annotated[list[Annotated[str, Field(max_length=8192)]], Field(max_length=64)]
Seconds = Annotated[int, Field(ge=0, le=86400)]


class ContainerPort(ApiModel):
    """A port on which a container listens."""

    name: Annotated[str, Field(max_length=15, pattern=DNS_LABEL)] | None = None
    """Name of the port. If unset, the port has no name."""
    container_port: Annotated[int, Field(ge=1, le=65535)]
    """Number of the port. It must not be a port of another container of the pod."""


class HttpGet(ApiModel):
    """A GET request to the pod. It succeeds with a status from 200 to 399."""

    path: Annotated[str, Field(max_length=1024)] = "/"
    """Path that is requested, with its query."""
    port: str | int
    """Number or name of the port that is called."""


class TcpSocket(ApiModel):
    """A connection to the pod. It succeeds if the port accepts it."""

    port: str | int
    """Number or name of the port that is called."""


class ExecAction(ApiModel):
    """A command in the container. It succeeds with exit code 0."""

    command: Annotated[Arguments, Field(min_length=1)]
    """Program and arguments that are executed without a shell."""


class ContainerProbe(ApiModel):
    """A probe of a container. Exactly one of exec, httpGet and tcpSocket must be set."""

    exec: ExecAction | None = None
    """Command that the probe executes."""
    http_get: HttpGet | None = None
    """HTTP request that the probe sends."""
    tcp_socket: TcpSocket | None = None
    """Connection that the probe opens."""
    initial_delay_seconds: Seconds | None = None
    """Seconds before the first probe. If unset, there is no delay."""
    period_seconds: Annotated[int, Field(ge=1, le=86400)] | None = None
    """Seconds between two probes. If unset, Kubernetes uses 10."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] | None = None
    """Seconds after which an unanswered probe counts as a failure. If unset, Kubernetes uses 1."""
    failure_threshold: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Consecutive failures after which the probe counts as failed. If unset, Kubernetes uses 3."""


class InitContainer(ApiModel):
    """A container that completes before the main container starts."""

    name: PartName
    """Name of the container, which is unique in the pod."""
    image: ImageName
    """Image that the container runs."""
    image_pull_policy: ImagePullPolicy | None = None
    """Image pull policy of the container. If unset, Kubernetes chooses it by the tag of the image."""
    command: Arguments | None = None
    """Program that is executed without a shell. If unset, the entry point of the image is executed."""
    args: Arguments | None = None
    """Arguments of the program. If unset, those of the image are used."""
    env: EnvList | None = None
    """Environment variables of the container. If unset, the operator sets none."""
    env_from: EnvFromList | None = None
    """Secrets and ConfigMaps whose keys become environment variables. If unset, none do."""
    resources: Resources | None = None
    """Compute resources of the container. If unset, it requests none and has no limits."""
    volume_mounts: MountList | None = None
    """Mounts of the volumes of the pod template and of the volume logs, which is the operator's own. If unset, nothing
    is mounted."""


class SidecarContainer(InitContainer):
    """A container that runs next to the main container."""

    ports: Annotated[list[ContainerPort], Field(max_length=16)] | None = None
    """Ports on which the container listens. Those of the main container are refused. If unset, none are declared."""
    readiness_probe: ContainerProbe | None = None
    """Probe without which the pod is not ready. If unset, the container counts as ready while it runs."""
    liveness_probe: ContainerProbe | None = None
    """Probe whose failure restarts the container. If unset, the container is restarted only when it ends."""
