"""Builds the manifests of tenants, namespaces and topics, each validated as an API server would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.api.v1alpha1.policies import PolicyScope
from pulsar_operator.api.v1alpha1.tenant import PulsarTenantSpec
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.domain.export.object_names import object_name
from pulsar_operator.domain.export.parts import (
    SUBSCRIPTIONS,
    durable_subscriptions,
    with_schema,
    with_subscriptions,
)
from pulsar_operator.domain.export.policies import Found, Note, laid_over, read_policies, shown, unmanaged, with_lists
from pulsar_operator.domain.export.rules import problem_of
from pulsar_operator.domain.logical.clusters import clusters_of
from pulsar_operator.domain.logical.pulsar_names import system_topic_problem, topic_name, topic_name_problem
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, TOPIC_POLICIES, Unreadable, declared_in
from pulsar_operator.domain.policies.entry_rows import NAMESPACE_ENTRIES, TOPIC_ENTRIES

MAX_ROLES = 256
MAX_BUNDLES = 1024


@dataclass(frozen=True)
class Settings:
    """What manifests refer to besides each other."""

    instance: str
    """metadata.name of the PulsarInstance."""
    cluster: str
    """Name in Pulsar of the cluster that answers."""
    namespace: str | None = None
    """Kubernetes namespace of the objects; None if the manifests have none."""
    system: bool = False
    """Whether objects that Pulsar functions created for themselves are exported."""


@dataclass(frozen=True)
class Entry:
    """One exported object of Pulsar."""

    kind: Kind
    about: str
    """The object in Pulsar, as a message."""
    manifest: dict[str, Any] | None
    """None if it cannot be expressed; the notes have the reason."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class NamespaceAnswers:
    """The answers about a namespace."""

    live: Mapping[str, Any]
    """Answer of GET namespace."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Answers by field of the policies with their own GET; Unreadable if it was refused."""
    even_bundles: bool = False
    """Whether there are at most MAX_BUNDLES bundles, all of the same width."""


@dataclass(frozen=True)
class TopicAnswers:
    """The answers about a topic."""

    persistent: bool
    partitions: int
    """Number of partitions; 0 for a topic without partitions."""
    lists: Mapping[str, Any] = field(default_factory=dict)
    """Answers from which each list is read, by field; Unreadable if it was refused."""
    policies: Mapping[str, Any] = field(default_factory=dict)
    """Answers by field; Unreadable if it was refused. Empty if none was read."""
    subscriptions: Any = None
    """Answer of ``GET .../stats`` or ``.../partitioned-stats``; Unreadable if it was refused, None if not read."""
    rates: Mapping[str, Any] = field(default_factory=dict)
    """Own dispatch rates by subscription; None if there is none, Unreadable if it was refused."""
    schema: Any = None
    """Answer of ``GET .../schema``; Unreadable if it was refused, None if there is none, or if not read."""


def manifest_of(
    settings: Settings, kind: Kind, about: str, name: str, spec: Mapping[str, Any], notes: Iterable[tuple[str, bool]]
) -> Entry:
    """Returns an exported object. ``notes`` are pairs of a text and whether it could not be read."""
    metadata = {"name": name} | ({"namespace": settings.namespace} if settings.namespace else {})
    manifest = {"apiVersion": API_VERSION, "kind": kind.value, "metadata": metadata, "spec": dict(spec)}
    return Entry(kind, about, manifest, tuple(Note(about, text, failed) for text, failed in notes))


def not_exported(kind: Kind, about: str, reason: str, *, failed: bool = False) -> Entry:
    """Returns an object that is not exported, with the reason."""
    return Entry(kind, about, None, (Note(about, reason, failed),))


def _named(name: str, pulsar_name: str) -> dict[str, Any]:
    return {} if name == pulsar_name else {"name": pulsar_name}


def export_tenant(settings: Settings, tenant: str, live: Mapping[str, Any]) -> Entry:
    """Returns a tenant from the answer of GET tenant."""
    about, name = f"tenant {tenant}", object_name(tenant)
    notes: list[str] = []
    spec: dict[str, Any] = {"instanceRef": {"name": settings.instance}, **_named(name, tenant)}
    problem = problem_of(PulsarTenantSpec, spec)
    if problem is not None:
        return not_exported(Kind.TENANT, about, problem)
    roles: list[str] = []
    for role in sorted(set(live.get("adminRoles") or ())):
        problem = problem_of(PulsarTenantSpec, {**spec, "adminRoles": [role]})
        if problem is None and len(roles) < MAX_ROLES:
            roles.append(role)
        else:
            notes.append(
                f"admin role {shown(role)} is not exported: {problem or f'the field takes at most {MAX_ROLES} roles'}"
            )
    clusters = sorted(set(live.get("allowedClusters") or ()))
    if roles:
        spec["adminRoles"] = roles
    if clusters:
        spec["allowedClusters"] = clusters
    else:
        notes.append(
            "allowedClusters is empty in Pulsar, which the field cannot express. If the manifest is applied, the "
            "tenant may use every cluster"
        )
    problem = problem_of(PulsarTenantSpec, spec)
    if problem is not None:
        return not_exported(Kind.TENANT, about, problem)
    return manifest_of(settings, Kind.TENANT, about, name, spec, [(text, False) for text in notes])


def _bundles(answers: NamespaceAnswers) -> dict[str, Any] | None:
    boundaries = list((answers.live.get("bundles") or {}).get("boundaries") or ())
    if len(boundaries) < 2:
        return None
    return {"count": len(boundaries) - 1} if answers.even_bundles else {"boundaries": boundaries}


def export_namespace(settings: Settings, tenant: str, namespace: str, answers: NamespaceAnswers) -> Entry:
    """Returns a namespace with the policies that are set on it."""
    about, name, live = f"namespace {tenant}/{namespace}", object_name(tenant, namespace), answers.live
    spec: dict[str, Any] = {"tenantRef": {"name": object_name(tenant)}, **_named(name, namespace)}
    problem = problem_of(PulsarNamespaceSpec, spec)
    if problem is not None:
        return not_exported(Kind.NAMESPACE, about, problem)
    if live.get("deleted"):
        return not_exported(Kind.NAMESPACE, about, "Pulsar is deleting the namespace")
    notes: list[tuple[str, bool]] = []
    bundles = _bundles(answers)
    if bundles is not None:
        problem = problem_of(PulsarNamespaceSpec, {**spec, "bundles": bundles})
        if problem is None:
            spec["bundles"] = bundles
        else:
            notes.append((f"bundles: {problem}", False))
    holders = clusters_of(live) or [settings.cluster]
    ordered = sorted(holders, key=lambda cluster: (cluster != settings.cluster, cluster))
    sources = {row.field: live for row in NAMESPACE_POLICIES if not row.own_get}
    found = read_policies(NAMESPACE_POLICIES, {**sources, **answers.own}, ordered)
    spec, refused = laid_over(PulsarNamespaceSpec, spec, found.values)
    spec, odd = with_lists(PulsarNamespaceSpec, spec, [(row, row.read(live)) for row in NAMESPACE_ENTRIES])
    rest = unmanaged(live, NAMESPACE_POLICIES, NAMESPACE_ENTRIES)
    notes += [*found.notes, *((text, False) for text in (*refused, *odd, *rest))]
    others = [cluster for cluster in holders if cluster != settings.cluster]
    if others:
        text = (
            f"the namespace is also in {', '.join(others)}. Settings that each cluster stores separately (topics "
            "without partitions, local topic policies, bookie affinity, anti-affinity) were read only in "
            f"{settings.cluster}"
        )
        notes.append((text, False))
    return manifest_of(settings, Kind.NAMESPACE, about, name, spec, notes)


def export_topic(settings: Settings, tenant: str, namespace: str, topic: str, answers: TopicAnswers) -> Entry:
    """Returns a topic with the policies that are set on it."""
    persistent = answers.persistent
    about = f"topic {topic_name(persistent, tenant, namespace, topic)}"
    name = object_name(tenant, namespace, topic, persistent=persistent)
    spec: dict[str, Any] = {"namespaceRef": {"name": object_name(tenant, namespace)}, **_named(name, topic)}
    if not persistent:
        spec["persistent"] = False
    if answers.partitions:
        spec["partitions"] = answers.partitions
    problem = system_topic_problem(tenant, namespace, topic) or topic_name_problem(topic)
    problem = problem or problem_of(PulsarTopicSpec, spec)
    if problem is not None:
        return not_exported(Kind.TOPIC, about, problem)
    notes: list[tuple[str, bool]] = []
    found = read_policies(TOPIC_POLICIES, answers.policies, [settings.cluster])
    scope = _scope(found)
    if scope is not PolicyScope.LOCAL:
        spec["policyScope"] = scope.value
    own = [(row, value) for row, value in found.values if declared_in(row, scope)]
    spec, refused = laid_over(PulsarTopicSpec, spec, own)
    full, lists = topic_name(persistent, tenant, namespace, topic), []
    for each in TOPIC_ENTRIES:
        answer = answers.lists.get(each.field)
        if isinstance(answer, Unreadable):
            notes.append((f"{each.field} could not be read: {answer.message}", True))
        else:
            lists.append((each, each.read(answer, full)))
    spec, odd = with_lists(PulsarTopicSpec, spec, lists)
    spec, parts = _with_parts(settings, spec, answers)
    notes += [*found.notes, *((text, False) for text in (*refused, *odd)), *parts]
    for row, value in found.values:
        if not declared_in(row, scope):
            text = (
                f"{row.path}: the global value {shown(row.encode(value))} is not exported, because a PulsarTopic sets "
                "policies in one scope only"
            )
            notes.append((text, False))
    return manifest_of(settings, Kind.TOPIC, about, name, spec, notes)


def _with_parts(
    settings: Settings, spec: Mapping[str, Any], answers: TopicAnswers
) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
    """Returns the specification with subscriptions and schema, and the notes about them."""
    out, notes = dict(spec), list[tuple[str, bool]]()
    if isinstance(answers.subscriptions, Unreadable):
        notes.append((f"{SUBSCRIPTIONS} could not be read: {answers.subscriptions.message}", True))
    elif answers.subscriptions is not None:
        live = durable_subscriptions(answers.subscriptions, partitioned=answers.partitions > 0)
        out, notes = with_subscriptions(out, live, answers.rates, system=settings.system)
    out, schema_notes = with_schema(out, answers.schema)
    return out, [*notes, *schema_notes]


def _scope(found: Found) -> PolicyScope:
    """Returns Global if every policy with a scope is global, otherwise Local, since local policies take precedence in
    Pulsar."""
    scopes = {
        scope
        for row, _ in found.values
        for scope in PolicyScope
        if declared_in(row, scope) and not all(declared_in(row, each) for each in PolicyScope)
    }
    return PolicyScope.GLOBAL if scopes == {PolicyScope.GLOBAL} else PolicyScope.LOCAL
