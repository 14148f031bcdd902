"""Settings of the operator process; the only module that reads environment variables."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pulsar_operator.domain.dataplane.rollout.versions import Jumps
from pulsar_operator.ports import OperatorImages

PREFIX = "PULSAR_OPERATOR_"
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_.*)?)")
"""Variables that Kubernetes adds to every container for each Service of the namespace: of a Service called
pulsar-operator-x the variables PULSAR_OPERATOR_X_SERVICE_HOST, PULSAR_OPERATOR_X_PORT=tcp://..., and so on.
https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables"""
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class SettingsError(ValueError):
    """A setting is wrong; the message names variable, value and remedy."""


def _namespaces(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    for name in names:
        if not _DNS_LABEL.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid name of a Kubernetes namespace. Give names separated by commas")
    return names


def _jumps(value: Any) -> Any:
    return Jumps.parse(value) if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(BaseModel):
    """Each field is the environment variable PULSAR_OPERATOR_<FIELD IN CAPITALS>."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    watch_namespaces: Annotated[tuple[str, ...], BeforeValidator(_namespaces)] = ()
    """Namespaces to watch, separated by commas; empty = all of them."""
    namespace: str = "default"
    """Namespace of the operator itself: its Lease is there. In a pod the default is the pod's own."""
    pod_name: str = "pulsar-operator"
    """Name of the operator's pod, for the Lease and for events. The default is the host name."""
    service_account: str | None = None
    """Name of the operator's ServiceAccount, by which it identifies itself to a Pulsar that authenticates its clients.
    Without it the operator has no role there."""
    workers: Annotated[int, Field(ge=1, le=500)] = 20
    """Concurrent reconcile passes."""
    resync_seconds: Annotated[float, Field(ge=1)] = 600.0
    """Interval in seconds in which every object is reconciled, even without a change."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = "info"
    """Least severe level that is logged."""
    log_format: Annotated[Literal["json", "text"], BeforeValidator(_lower)] = "json"
    """json: one object per line; text: for people."""
    image_broker: str = OperatorImages.broker
    """Image of brokers and standalone pods; {version} is replaced by spec.version."""
    image_bookie: str = OperatorImages.bookie
    """Image of bookies, auto-recovery and ZooKeeper."""
    image_proxy: str = OperatorImages.proxy
    """Image of proxies."""
    upgrade_paths: Annotated[Jumps, BeforeValidator(_jumps)] = Jumps()
    """Jumps between versions of Pulsar besides the built-in ones, such as 4.0.8 -> 4.0.9, 4.0.6 <-> 4.0.8."""
    health_port: Port = 8080
    """Port of /healthz and /readyz; 0 = any free one."""
    metrics_port: Port = 9090
    """Port of /metrics; 0 = any free one."""
    lease_seconds: Annotated[float, Field(ge=3, le=600)] = 30.0
    """Seconds for which an operator that does not renew the Lease keeps it; it is renewed every third of that."""
    watch_silence_seconds: Annotated[float, Field(ge=1)] = 210.0
    """/healthz fails when a watch stream delivered no event and no bookmark for this long, and was not opened again
    either. A silent stream is opened again after a third of this time: the API server usually sends a bookmark about
    every 60 s, so the default is three attempts."""
    kubeconfig: Path | None = None
    """A kubeconfig file, for running outside of a pod; also the standard variable KUBECONFIG."""

    @property
    def images(self) -> OperatorImages:
        """Default images of the data plane."""
        return OperatorImages(broker=self.image_broker, bookie=self.image_bookie, proxy=self.image_proxy)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from environment variables (those of the process by default).

    Raises SettingsError naming the variable, its value and what it should be. Empty values count as not set.
    """
    env = os.environ if environ is None else environ
    given = {
        name.lower(): value
        for key, value in env.items()
        if key.startswith(PREFIX) and value.strip() and not _is_service_link(name := key.removeprefix(PREFIX), value)
    }
    given.setdefault("pod_name", socket.gethostname())
    if "namespace" not in given and SERVICE_ACCOUNT_NAMESPACE.exists():
        given["namespace"] = SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
    if "kubeconfig" not in given and env.get("KUBECONFIG"):
        given["kubeconfig"] = env["KUBECONFIG"]
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(item, given) for item in error.errors(include_url=False))) from None


def _is_service_link(name: str, value: str) -> bool:
    if name.lower() in Settings.model_fields:
        return "://" in value and name.endswith("_PORT")
    return _SERVICE_LINK.fullmatch(name) is not None


def _sentence(item: Any, given: Mapping[str, str]) -> str:
    field = str(item["loc"][0])
    variable = PREFIX + field.upper()
    if item["type"] == "extra_forbidden":
        known = ", ".join(PREFIX + name.upper() for name in sorted(Settings.model_fields))
        return f"{variable} is not a setting of this version. Remove the variable, or use one of {known}"
    problem = item["msg"].removeprefix("Value error, ")
    return f"{variable} = {given.get(field)!r} cannot be used: {problem[0].lower() + problem[1:]}"
