"""Manifests of the objects of an instance besides tenants: resource groups, isolation policies, failure domains."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.isolation_policy import BROKERS, PulsarIsolationPolicySpec
from pulsar_operator.api.v1alpha1.resource_group import PulsarResourceGroupSpec
from pulsar_operator.domain.export.manifests import Entry, Settings, manifest_of, not_exported
from pulsar_operator.domain.export.object_names import object_name
from pulsar_operator.domain.export.policies import SHOWN, laid_over, plain, shown
from pulsar_operator.domain.export.rules import problem_of
from pulsar_operator.domain.expressions import is_re2
from pulsar_operator.domain.policies import Undecodable
from pulsar_operator.domain.policies.instance_rows import ISOLATION_FIELDS, RESOURCE_GROUP_LIMITS

_NOT_RE2 = re.compile(r"\(\?(?:[=!>]|<[=!]|P?<[^=!])|\\[1-9]|[*+?}]\+")
"""Java's syntax that API servers (RE2) or the CRD refuse: lookaround, possessive and atomic groups, back references,
named groups."""
_PORT = re.compile(r"(^|[^?\[]):([0-9.\[]|\\d)")
_BROKER_ID = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?:[0-9]{1,5}")


def export_group(settings: Settings, name: str, live: Mapping[str, Any]) -> Entry:
    """Returns a resource group from the answer of GET resourcegroups/name."""
    about, spec = f"resource group {name}", _named(settings, name)
    problem = problem_of(PulsarResourceGroupSpec, spec)
    if problem is not None:
        return not_exported(Kind.RESOURCE_GROUP, about, problem)
    values = [(row, row.read(live)) for row in RESOURCE_GROUP_LIMITS]
    whole, refused = laid_over(
        PulsarResourceGroupSpec, spec, [(row, value) for row, value in values if value is not None]
    )
    return manifest_of(
        settings, Kind.RESOURCE_GROUP, about, object_name(name), whole, [(text, False) for text in refused]
    )


def export_isolation(settings: Settings, name: str, live: Mapping[str, Any]) -> Entry:
    """Returns an isolation policy of the cluster that answers. It is one value, so it is exported completely or not at
    all."""
    about = f"isolation policy {name} of cluster {settings.cluster}"
    spec: dict[str, Any] = {**_named(settings, name), "clusters": [settings.cluster]}
    for row in ISOLATION_FIELDS:
        value = row.read(live)
        if isinstance(value, Undecodable):
            return _cannot(about, f"{row.field} is {value.raw[:SHOWN]} in Pulsar, which the field cannot express")
        if row.is_set(value):
            spec[row.field] = plain(value)
    problem = "Pulsar's REST API uses the name of the policy for another resource" if name == BROKERS else None
    problem = problem or problem_of(PulsarIsolationPolicySpec, spec) or _odd(spec)
    if problem is not None:
        return _cannot(about, problem)
    return manifest_of(settings, Kind.ISOLATION_POLICY, about, object_name(name), spec, [])


def _cannot(about: str, reason: str) -> Entry:
    return not_exported(Kind.ISOLATION_POLICY, about, reason)


def _odd(spec: Mapping[str, Any]) -> str | None:
    """Returns why an API server would refuse an expression, as a message. None if it admits all of them."""
    for field in ("namespaces", "primary", "secondary"):
        for expression in spec.get(field) or ():
            if _NOT_RE2.search(expression) is not None or not is_re2(expression):
                return f"{field}: {shown(expression)} is not an expression of RE2"
            if field != "namespaces" and _PORT.search(expression):
                return f"{field}: {shown(expression)} contains a port, so it matches no broker"
    if not (spec.get("namespaces") and spec.get("primary")):
        return "the policy has no namespaces, or no primary brokers"
    return None


def export_domains(settings: Settings, live: Mapping[str, Any]) -> Entry | None:
    """Returns the failure domains of the cluster that answers in one object; None if there are none."""
    about, name = f"failure domains of cluster {settings.cluster}", f"failure-domains.{settings.cluster}"
    notes: list[str] = []
    listed: list[dict[str, Any]] = []
    spec: dict[str, Any] = {**_named(settings, name), "clusters": [settings.cluster]}
    for domain, found in sorted(live.items()):
        brokers = sorted(found.get("brokers") or ())
        strange = [broker for broker in brokers if not _BROKER_ID.fullmatch(broker)]
        one = {"name": domain, "brokers": brokers}
        problem = problem_of(PulsarIsolationPolicySpec, {**spec, "failureDomains": [*listed, one]})
        if strange:
            problem = f"{', '.join(map(shown, strange))} is not a broker id (host:port)"
        if problem is None:
            listed.append(one)
        else:
            notes.append(f"failureDomains[{shown(domain)}]: {problem}")
    if not listed:
        return not_exported(Kind.ISOLATION_POLICY, about, "; ".join(notes)) if notes else None
    spec["failureDomains"] = listed
    return manifest_of(
        settings, Kind.ISOLATION_POLICY, about, object_name(name), spec, [(text, False) for text in notes]
    )


def _named(settings: Settings, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"instanceRef": {"name": settings.instance}}
    return spec if object_name(name) == name else {**spec, "name": name}
