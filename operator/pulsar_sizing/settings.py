"""Settings of ``collect``, ``expire`` and ``serve``; the only module here that reads environment variables.

Each field is an option ``--field-name`` and the variable PULSAR_SIZING_<FIELD NAME>; the option wins.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from pulsar_sizing.place import S3, Addressing

PREFIX = "PULSAR_SIZING_"
_NAME = re.compile(r"[-=:.\w]+", re.ASCII)
"""Pulsar's rule for names of clusters (class NamedEntity); an instance is named like a Kubernetes object."""


class SettingsError(ValueError):
    """A setting is wrong; the message names option, variable, value and remedy."""


def _several(value: Any) -> Any:
    items = value.split(",") if isinstance(value, str) else value
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Several = Annotated[tuple[str, ...], BeforeValidator(_several)]
Positive = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseModel):
    """What the three commands need; see the descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instance: Annotated[str, Field(pattern=rf"^{_NAME.pattern}$", description="name of the Pulsar instance")]
    root: Annotated[
        str,
        Field(min_length=1, description="folder or URL of the store: /data, s3://bucket/folder, gs://bucket/folder"),
    ]
    s3_endpoint: Annotated[
        str | None, Field(description="S3-compatible server of an s3:// root, http://host:port; none = AWS")
    ] = None
    s3_region: Annotated[
        str | None,
        Field(
            description="region that requests to it are signed for; none = AWS_REGION, else that of the bucket on AWS, "
            "us-east-1 elsewhere"
        ),
    ] = None
    s3_addressing: Annotated[
        Addressing,
        BeforeValidator(_lower),
        Field(description="bucket in the path or the host name of a URL; auto = in the path if there is an endpoint"),
    ] = "auto"
    cluster: Annotated[
        Several,
        Field(
            description="cluster to sample: NAME with --admin-url, or NAME=ADMIN-URL; may be repeated (the variable: "
            "separated by commas), the same name again gives a further URL to try"
        ),
    ] = ()
    admin_url: Annotated[str | None, Field(description="admin URL of a cluster given by name alone")] = None
    broker_url: Annotated[
        str | None,
        Field(
            description="web address of a broker, with {broker} (host:port), {host}, {port}, {cluster}; default: the "
            "admin URL's scheme and {broker}; needed where brokers listen with and without TLS (https://{host}:8443)"
        ),
    ] = None
    token_file: Annotated[
        str | None,
        Field(description="file with a superuser's bearer token, read in every round; {cluster} is replaced"),
    ] = None
    token_host: Annotated[
        Several,
        Field(
            description="host that the token is for, or .SUFFIX of hosts; may be repeated (the variable: separated by "
            "commas); {cluster} is replaced; none = every broker that a cluster lists"
        ),
    ] = ()
    ca_file: Annotated[
        str | None, Field(description="file with the CA certificates of the servers; {cluster} is replaced")
    ] = None
    interval: Annotated[
        float, Field(ge=1, le=3600, description="seconds between rounds; brokers make statistics every 60")
    ] = 60.0
    deadline: Annotated[Positive, Field(description="seconds for one broker's answer, to its last byte")] = 30.0
    concurrency: Annotated[int, Field(ge=1, le=64, description="brokers of a cluster asked at the same time")] = 4
    listen: Annotated[
        str, Field(description="host:port of /v1, /healthz and /metrics; no host = every address, by IPv4 and IPv6")
    ] = ":8080"
    retention_days: Annotated[int, Field(ge=1, le=3650, description="days of traffic that are kept besides today")] = 14
    upkeep_seconds: Annotated[Positive, Field(description="seconds between two looks for days to delete")] = 300.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], BeforeValidator(_lower), Field(description="least severe level")
    ] = "info"
    log_format: Annotated[
        Literal["json", "text"], BeforeValidator(_lower), Field(description="json, or text for people")
    ] = "json"

    @model_validator(mode="after")
    def _check(self) -> Settings:
        self.clusters()
        self.address()
        for template in (self.broker_url, self.token_file, self.ca_file, *self.token_host):
            unknown = set(re.findall(r"\{(\w*)\}", template or "")) - {"broker", "host", "port", "cluster"}
            if unknown:
                raise ValueError(
                    f"{template!r} holds {{{unknown.pop()}}}; known are {{broker}}, {{host}}, {{port}}, {{cluster}}"
                )
        if self.broker_url is not None:
            _http(self.broker_url)
        return self

    def clusters(self) -> dict[str, tuple[str, ...]]:
        """Admin URLs by cluster. Raises ValueError."""
        found: dict[str, list[str]] = {}
        for item in self.cluster:
            name, mark, url = item.partition("=http")
            url = mark[1:] + url if mark else self.admin_url or ""
            if not _NAME.fullmatch(name):
                raise ValueError(f"cluster {item!r}: {name!r} is no cluster name; give NAME or NAME=http://host:port")
            if not url:
                raise ValueError(f"cluster {item!r} has no admin URL: give {name}=http://host:port, or an admin URL")
            _http(url)
            found.setdefault(name, []).append(url)
        return {name: tuple(dict.fromkeys(urls)) for name, urls in found.items()}

    def address(self) -> tuple[str | None, int]:
        """Host (None if every address) and port to listen on. Raises ValueError."""
        host, mark, port = self.listen.rpartition(":")
        if not mark or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError(f"listen is {self.listen!r}: give host:port, such as 127.0.0.1:8080, or :8080")
        return host.strip("[]") or None, int(port)

    @property
    def s3(self) -> S3:
        """How the server of an s3:// root is reached."""
        return S3(self.s3_endpoint, self.s3_region, self.s3_addressing)

    def file(self, template: str | None, cluster: str) -> Path | None:
        """A file of a cluster by its template."""
        return Path(template.replace("{cluster}", cluster)) if template else None


def _http(url: str) -> None:
    parts = urlsplit(url.replace("{port}", "80"))
    if parts.scheme not in {"http", "https"} or not parts.netloc or "@" in parts.netloc:
        raise ValueError(
            f"{parts.scheme}://... is no URL of Pulsar's web service: give http://host:port or https://host:port"
        )


def s3_region(env: Mapping[str, str]) -> str | None:
    """The region that the variables of AWS's SDKs name; None without one."""
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None


def add_arguments(parser: argparse.ArgumentParser, only: Sequence[str] = ()) -> None:
    """The options of the settings, or of the named ones."""
    for name, field in Settings.model_fields.items():
        if only and name not in only:
            continue
        default = "" if field.is_required() or field.default in (None, ()) else f" (default {field.default})"
        needed = " (needed)" if field.is_required() else ""
        parser.add_argument(
            "--" + name.replace("_", "-"),
            action="append" if name in SEVERAL else "store",
            choices=_choices(field.annotation),
            metavar=None if _choices(field.annotation) else name.rpartition("_")[2].upper(),
            help=f"{field.description}{default}{needed}".replace("%", "%%"),
        )


SEVERAL = ("cluster", "token_host")
"""Settings with several values."""


def _choices(annotation: Any) -> tuple[str, ...] | None:
    values = get_args(annotation)
    return values if values and all(isinstance(v, str) for v in values) else None


def load(options: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from options, over environment variables (those of the process by default), over defaults.

    Empty variables count as not set. Other variables with our prefix are another command's, or Kubernetes' own for a
    Service of such a name. Raises SettingsError.
    """
    env = os.environ if environ is None else environ
    given: dict[str, Any] = {}
    for name in Settings.model_fields:
        option, value = getattr(options, name, None), env.get(PREFIX + name.upper(), "")
        if option is not None:
            given[name] = option
        elif value.strip():
            given[name] = value.strip()
    if "s3_region" not in given and (region := s3_region(env)):
        given["s3_region"] = region
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(item, given) for item in error.errors(include_url=False))) from None


def _sentence(item: Any, given: Mapping[str, Any]) -> str:
    problem: str = item["msg"].removeprefix("Value error, ")
    if not item["loc"]:
        return problem
    field = str(item["loc"][0])
    where = f"--{field.replace('_', '-')} ({PREFIX}{field.upper()})"
    if item["type"] == "missing":
        return f"{where} is needed: {Settings.model_fields[field].description}"
    return f"{where} = {given.get(field)!r} cannot be used: {problem[0].lower() + problem[1:]}"
