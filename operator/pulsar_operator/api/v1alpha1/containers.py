"""Sidecar and init containers of pod templates: the allow-list of their fields.

A definition has no references, and pod templates stand at six places, so the definition itself names only what every
container has; the rest is checked against these models by the operator (domain/render/container_checks.py).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import DNS_LABEL, ApiModel, Resources
from pulsar_operator.api.v1alpha1.images import ImageName, ImagePullPolicy
from pulsar_operator.api.v1alpha1.pods import EnvFromList, EnvList, MountList, PartName

Words = Annotated[list[Annotated[str, Field(max_length=8192)]], Field(max_length=64)]
Seconds = Annotated[int, Field(ge=0, le=86400)]


class ContainerPort(ApiModel):
    """A port a container listens on."""

    name: Annotated[str, Field(max_length=15, pattern=DNS_LABEL)] | None = None
    """Name of the port."""
    container_port: Annotated[int, Field(ge=1, le=65535)]
    """Number of the port; the containers of a pod share all of them."""


class HttpGet(ApiModel):
    """A GET of the pod itself that answers 200 to 399."""

    path: Annotated[str, Field(max_length=1024)] = "/"
    """Path with query."""
    port: str | int
    """Number or name of the port."""


class TcpSocket(ApiModel):
    """A connection to the pod itself."""

    port: str | int
    """Number or name of the port."""


class ExecAction(ApiModel):
    """A command that ends with 0."""

    command: Annotated[Words, Field(min_length=1)]
    """Program and arguments; no shell."""


class ContainerProbe(ApiModel):
    """How Kubernetes asks a container; exactly one of exec, httpGet and tcpSocket."""

    exec: ExecAction | None = None
    """A command."""
    http_get: HttpGet | None = None
    """An HTTP request."""
    tcp_socket: TcpSocket | None = None
    """A connection."""
    initial_delay_seconds: Seconds | None = None
    """Seconds before the first probe."""
    period_seconds: Annotated[int, Field(ge=1, le=86400)] | None = None
    """Seconds from one probe to the next; Kubernetes' default is 10."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] | None = None
    """Seconds an answer may take; Kubernetes' default is 1."""
    failure_threshold: Annotated[int, Field(ge=1, le=10000)] | None = None
    """So many failures in a row count; Kubernetes' default is 3."""


class InitContainer(ApiModel):
    """A container that runs to its end before the main one starts."""

    name: PartName
    """Name, unlike that of any other container of the pod."""
    image: ImageName
    """Image."""
    image_pull_policy: ImagePullPolicy | None = None
    """Pull policy; absent = Kubernetes' default."""
    command: Words | None = None
    """Program; absent = the image's entry point."""
    args: Words | None = None
    """Arguments."""
    env: EnvList | None = None
    """Environment variables."""
    env_from: EnvFromList | None = None
    """Secrets and ConfigMaps all of whose keys become environment variables."""
    resources: Resources | None = None
    """Compute resources."""
    volume_mounts: MountList | None = None
    """Where it sees volumes of the pod template, or the operator's volume logs."""


class SidecarContainer(InitContainer):
    """A container that runs beside the main one."""

    ports: Annotated[list[ContainerPort], Field(max_length=16)] | None = None
    """Ports; none of the main container's."""
    readiness_probe: ContainerProbe | None = None
    """While it fails, the pod is not ready."""
    liveness_probe: ContainerProbe | None = None
    """While it fails, the container is restarted."""
