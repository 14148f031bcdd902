"""Decides which certificate pods get at the edge, and which connections proxies accept. Pure.

The Secret of the user is checked in every pass. If it is good, the operator's copy gets its contents. If it is bad or
does not exist, the copy stays as it is: pods that run keep their certificate, and pods that are created again start.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.tls import EdgeMode, EdgeTls
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.certificates import Certificate, check, decoded
from pulsar_operator.domain.render.child_names import Owner
from pulsar_operator.domain.render.common import Manifest, metadata
from pulsar_operator.domain.render.edge_tls import edge_secret_name
from pulsar_operator.domain.render.inputs import declared_edge
from pulsar_operator.domain.render.listeners import PROXIES, PULSAR_TLS

Json = Mapping[str, Any]


@dataclass(frozen=True)
class EdgeSecrets:
    """The Secrets as read, which no text shows."""

    given: Json | None = field(repr=False)
    """The Secret of the user; None if it does not exist."""
    copy: dict[str, Any] | None = field(repr=False)
    """The operator's copy; None if it does not exist."""
    at: datetime
    """When they were read."""
    problem: Blocker | None = None
    """Why they could not be read."""


@dataclass(frozen=True)
class EdgeCertificate:
    """The certificate at the edge."""

    secret: str
    """metadata.name of the Secret of the user."""
    used: Certificate | None
    """The certificate that pods use after this pass; None if it cannot be read, or there is none."""
    problem: Blocker | None
    """What is wrong with the Secret of the user; None if nothing is."""
    blocker: Blocker | None
    """Why pods with TLS cannot be created or changed: the operator's copy does not exist, so they would not start.
    None if it does, also if its certificate has expired: pods that are lost are created again."""
    unfit: Blocker | None = None
    """Why no pod with TLS is added: clients would refuse it, or it would not start. None if it may be added."""
    contents: Mapping[str, bytes] | None = field(default=None, repr=False, compare=False)
    """What the copy must contain; None if it stays as it is."""


def edge_of(spec: PulsarClusterSpec) -> EdgeTls | None:
    """Returns spec.tls.edge if a pod uses its certificate; None otherwise."""
    edge = spec.tls.edge if spec.tls is not None else None
    if edge is None or (edge.mode is EdgeMode.PLAIN and not any(each.tls for each in spec.listeners or ())):
        return None
    return edge


def certified(spec: PulsarClusterSpec) -> frozenset[Component]:
    """Returns the components whose pods need a certificate by the specification."""
    edge = edge_of(spec)
    if edge is None:
        return frozenset()
    brokers = {Component.BROKER} if any(each.tls for each in spec.listeners or ()) else set()
    proxies = {Component.PROXY} if edge.mode is not EdgeMode.PLAIN else set()
    return frozenset(brokers | proxies)


def edge_certificate(edge: EdgeTls, secrets: EdgeSecrets, owner: Owner, hosts: Sequence[str]) -> EdgeCertificate:
    """Returns the certificate. ``hosts`` are the host names and addresses that the operator publishes for clients."""
    namespace = owner.namespace
    name = f"{namespace}/{edge.secret_name}"
    copy = check(name, decoded(secrets.copy or {}), hosts, secrets.at)
    if secrets.problem is not None:
        problem = secrets.problem
    elif secrets.given is None:
        problem = Blocker(
            Reason.REFERENCE_NOT_FOUND,
            f"Secret {name}, which spec.tls.edge.secretName names, does not exist. Create it, or correct the name",
        )
    else:
        contents = decoded(secrets.given)
        given = check(name, contents, hosts, secrets.at)
        if given.problem is None:
            missing = Blocker(
                Reason.PENDING,
                f"Secret {namespace}/{edge_secret_name(owner.name)}, the operator's copy of Secret {name}, does not "
                "exist yet, or belongs to another owner. If it is not created soon, see condition Accepted",
            )
            blocker = missing if copy.certificate is None else None
            return EdgeCertificate(edge.secret_name, given.certificate, None, blocker, blocker, contents)
        problem = Blocker(Reason.CERTIFICATE_INVALID, given.problem)
    blocker = problem if copy.certificate is None else None
    unfit = problem if copy.problem is not None else None
    return EdgeCertificate(edge.secret_name, copy.certificate, problem, blocker, unfit)


def edge_secret(owner: Owner, contents: Mapping[str, bytes]) -> Manifest:
    """Returns the operator's copy."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(owner, edge_secret_name(owner.name), None),
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in contents.items()},
    }


def effective_edge(spec: PulsarClusterSpec, template: Json | None, pods: Iterable[Json]) -> EdgeMode:
    """Returns which connections proxies accept now. They accept both until no pod is left that clients of the declared
    mode cannot use: Required comes once every pod serves TLS, and Plain once every pod serves connections without it.

    ``template`` is the applied pod template of the proxies, from which pods may be created again; None if it does not
    exist. ``pods`` are those that are not terminating.
    """
    declared = declared_edge(spec)
    needed = PROXIES[declared].ports.keys()
    opened = [_open_ports(each) for each in (*([] if template is None else [template]), *pods)]
    if all(each >= needed for each in opened):
        return declared
    if declared is EdgeMode.PLAIN and not any(PULSAR_TLS in each for each in opened):
        return declared  # no proxy has served TLS
    return EdgeMode.PLAIN_AND_TLS


def lagging(mode: EdgeMode, pods: Iterable[Json]) -> tuple[str, ...]:
    """Returns the names of the proxies that do not listen as the mode says."""
    expected, every = PROXIES[mode].ports.keys(), PROXIES[EdgeMode.PLAIN_AND_TLS].ports.keys()
    return tuple(str(pod["metadata"]["name"]) for pod in pods if _open_ports(pod) & every != expected)


def _open_ports(pod: Json) -> frozenset[str]:
    """Returns the names of the ports of the proxy's container, of a pod or a pod template."""
    containers = (each for each in pod["spec"]["containers"] if each["name"] == Component.PROXY.value)
    return frozenset(str(port.get("name")) for each in containers for port in each.get("ports") or ())
