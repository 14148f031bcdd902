"""PulsarIsolationPolicy: which brokers serve which namespaces, and which brokers fail together."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, ClusterName, ObjectReference, PulsarName, immutable, validations
from pulsar_operator.api.v1alpha1.logical import LogicalSpec, LogicalStatus
from pulsar_operator.api.v1alpha1.policies.values import INT32_MAX

# "matches" fails the evaluation, and so the request, for what is no expression; its words name what is wrong. CEL reads
# RE2 syntax, which Java's own understands, but for named groups.
_COMPILES = (
    "''.matches(self) || !''.matches(self)",
    "must be a regular expression in RE2 syntax",
)
_NAMED_GROUP = (
    "!self.contains('(?P<')",
    "must not have a named group (?P<name>...), which Java does not support. Use (...) instead",
)
NamespaceExpression = Annotated[
    str, Field(min_length=1, max_length=256, json_schema_extra=validations(_COMPILES, _NAMED_GROUP))
]
"""Regular expression that a whole "tenant/namespace" must match (Pulsar: String.matches)."""
_NO_PORT = (
    r"!self.matches('(^|[^?[]):([0-9.[]|\\\\d)')",
    "must be an expression for the host name of a broker without a port, because Pulsar compares it with the "
    "host name alone",
)
BrokerExpression = Annotated[
    str, Field(min_length=1, max_length=256, json_schema_extra=validations(_COMPILES, _NAMED_GROUP, _NO_PORT))
]
"""Regular expression that a broker's whole host, without port, must match."""
BrokerId = Annotated[
    str,
    Field(
        min_length=3,
        max_length=260,
        json_schema_extra=validations(
            (
                "self.matches('^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?:[0-9]{1,5}$')",
                "must be a broker id (host:port) as shown by `pulsar-admin brokers list`, such as "
                "east-broker-0.east-broker-headless.pulsar.svc.cluster.local:8080",
            )
        ),
    ),
]
"""A broker by its id, host:port."""
_SET = {"x-kubernetes-list-type": "set"}
BROKERS = "brokers"
"""The name that Pulsar's REST keeps for the list of brokers with policies."""
ISOLATION_RULES = (
    (
        f"(has(self.spec.name) ? self.spec.name : self.metadata.name) != '{BROKERS}'",
        f"An isolation policy cannot have the name {BROKERS}, because Pulsar's REST API uses this path for "
        "another resource. Set spec.name to another name",
    ),
)


class AutoFailoverType(StrEnum):
    """Criterion by which the primary brokers are insufficient."""

    MIN_AVAILABLE = "MinAvailable"


class AutoFailover(ApiModel):
    """Criterion by which the secondary brokers also serve the namespaces."""

    type: AutoFailoverType = AutoFailoverType.MIN_AVAILABLE
    """Criterion of the failover. MinAvailable applies while fewer than minLimit primary brokers are available."""
    min_limit: Annotated[int, Field(ge=0, le=INT32_MAX)] = 1
    """Number of primary brokers that must be available. With 0, the secondary brokers are never used."""
    usage_threshold_percent: Annotated[int, Field(ge=0, le=100)] = 80
    """Load in percent at which a primary broker counts as unavailable."""


class UnloadScope(StrEnum):
    """Namespaces that are unloaded when the policy is written."""

    ALL_MATCHING = "AllMatching"
    NONE = "None"
    CHANGED = "Changed"


class FailureDomain(ApiModel):
    """A failure domain: brokers that may fail together. Namespaces of an anti-affinity group are spread over the
    domains."""

    name: PulsarName
    """Name of the failure domain in Pulsar, which is unique in the list."""
    brokers: Annotated[list[BrokerId], Field(min_length=1, max_length=64, json_schema_extra=_SET)]
    """All brokers of the domain. Other brokers are removed from it. A broker is in at most one domain."""


class PulsarIsolationPolicySpec(LogicalSpec):
    """A namespace isolation policy, failure domains, or both."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("name"),
            immutable("instanceRef"),
            (
                "has(self.namespaces) == has(oldSelf.namespaces)",
                "spec.namespaces cannot be added or removed. Delete the object, or create another one",
            ),
            (
                "has(self.namespaces) == has(self.primary)",
                "spec.namespaces and spec.primary must be set together",
            ),
            (
                "has(self.namespaces) || !(has(self.secondary) || has(self.autoFailover) || has(self.unloadScope))",
                "spec.secondary, spec.autoFailover and spec.unloadScope require spec.namespaces and "
                "spec.primary. Set both, or remove these fields",
            ),
            (
                "has(self.namespaces) || has(self.failureDomains)",
                "The object declares nothing. Set spec.namespaces and spec.primary, or spec.failureDomains, or "
                "all three",
            ),
        )
    )

    instance_ref: ObjectReference
    """PulsarInstance that the policy belongs to."""
    name: PulsarName | None = None
    """Name of the isolation policy in Pulsar, which is the same in each cluster. If unset, metadata.name is used."""
    clusters: Annotated[list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra=_SET)] | None = None
    """Clusters that the policy applies to, by their names in Pulsar. The policy is deleted in a cluster that is removed
    from the list. If the list contains a name that is not a cluster of the instance, the whole list is refused and the
    policy stays where it is. If unset, the policy applies to every cluster of the instance, including those that are
    added later."""
    namespaces: (
        Annotated[list[NamespaceExpression], Field(min_length=1, max_length=64, json_schema_extra=_SET)] | None
    ) = None
    """Regular expressions that match tenant/namespace, such as shop/.* for all namespaces of tenant shop. Required with
    primary, and must not be set without primary. If unset, this object declares only failure domains."""
    primary: Annotated[list[BrokerExpression], Field(min_length=1, max_length=64, json_schema_extra=_SET)] | None = None
    """Regular expressions that match the hosts of the brokers that serve the namespaces, such as east-broker-[01]\\..*
    for two pods. The brokers that match serve no other namespaces. If all live brokers match, namespaces without an
    isolation policy have no broker. If no live broker matches primary or secondary, the namespaces cannot be used.
    Required with namespaces, and must not be set without namespaces."""
    secondary: Annotated[list[BrokerExpression], Field(min_length=1, max_length=64, json_schema_extra=_SET)] | None = (
        None
    )
    """Regular expressions that match the hosts of the brokers that also serve the namespaces according to autoFailover.
    If unset, the list is not managed, and a policy that this object creates has none."""
    auto_failover: AutoFailover | None = None
    """Criterion by which the secondary brokers are used. If unset, the criterion is not managed, and a policy that this
    object creates has MinAvailable with minLimit 1 and usageThresholdPercent 80."""
    unload_scope: UnloadScope | None = None
    """Namespaces that are unloaded when the policy is written, so that it takes effect immediately. AllMatching unloads
    all namespaces that the policy matches. Changed unloads only namespaces that the policy begins or ceases to match.
    With None, the policy takes effect when a bundle is next assigned. If unset, this setting is not managed, and
    Pulsar's default applies."""
    failure_domains: (
        Annotated[
            list[FailureDomain],
            Field(
                min_length=1,
                max_length=64,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            ),
        ]
        | None
    ) = None
    """Failure domains of the clusters. A declared domain that is removed is deleted; those of other writers stay. If
    unset, none are declared."""


class IsolationClusterStatus(ApiModel):
    """The policy in one cluster."""

    name: str
    """Name of the cluster in Pulsar."""
    exists: bool
    """Whether the isolation policy exists in the cluster."""
    brokers: int | None = None
    """Number of live brokers that primary or secondary matches. With 0, the namespaces cannot be used in the cluster.
    """


class IsolationSummary(ApiModel):
    """Summary of the spec for printer columns."""

    namespaces: str | None = None
    """Namespaces that the policy matches, such as shop/.*, bank/pay."""
    primary: str | None = None
    """Brokers that serve the namespaces."""
    clusters: str | None = None
    """Clusters that the policy applies to. The value all means every cluster of the instance."""


class PulsarIsolationPolicyStatus(LogicalStatus):
    """Observed state of a PulsarIsolationPolicy."""

    summary: IsolationSummary | None = None
    """Summary of the spec for printer columns."""

    clusters: Annotated[
        list[IsolationClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """State of the policy in each cluster."""
