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
    "must be a regular expression (RE2 syntax): correct it",
)
_NAMED_GROUP = (
    "!self.contains('(?P<')",
    "must not have a named group (?P<name>...), which Java does not understand: use (...)",
)
NamespaceExpression = Annotated[
    str, Field(min_length=1, max_length=256, json_schema_extra=validations(_COMPILES, _NAMED_GROUP))
]
"""Regular expression that a whole "tenant/namespace" must match (Pulsar: String.matches)."""
_NO_PORT = (
    r"!self.matches('(^|[^?[]):([0-9.[]|\\\\d)')",
    "must be an expression for the host of a broker, without a port: Pulsar compares it with the host alone, and "
    "nothing would match",
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
                "must be a broker as `pulsar-admin brokers list` shows it, host:port, such as "
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
        f"an isolation policy cannot be called {BROKERS}: Pulsar's REST has another thing there. Set spec.name",
    ),
)


class AutoFailoverType(StrEnum):
    """How Pulsar decides that the primary brokers are not enough."""

    MIN_AVAILABLE = "MinAvailable"


class AutoFailover(ApiModel):
    """When the secondary brokers serve the namespaces as well."""

    type: AutoFailoverType = AutoFailoverType.MIN_AVAILABLE
    """MinAvailable: while fewer than minLimit primary brokers are available."""
    min_limit: Annotated[int, Field(ge=0, le=INT32_MAX)] = 1
    """Primary brokers that must be available; with 0 the secondary brokers are never used."""
    usage_threshold_percent: Annotated[int, Field(ge=0, le=100)] = 80
    """A primary broker whose load, in percent, reaches this counts as not available."""


class UnloadScope(StrEnum):
    """Which namespaces are unloaded, that is leave their brokers for a moment, when the policy is written."""

    ALL_MATCHING = "AllMatching"
    NONE = "None"
    CHANGED = "Changed"


class FailureDomain(ApiModel):
    """Brokers that fail together, such as those of a rack. An anti-affinity group is spread over them."""

    name: PulsarName
    """Name inside Pulsar."""
    brokers: Annotated[list[BrokerId], Field(min_length=1, max_length=64, json_schema_extra=_SET)]
    """Its brokers, in full: others in it are taken out. A broker is in one domain at most."""


class PulsarIsolationPolicySpec(LogicalSpec):
    """A namespace isolation policy, failure domains, or both."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("name"),
            immutable("instanceRef"),
            (
                "has(self.namespaces) == has(oldSelf.namespaces)",
                "spec.namespaces cannot be added or removed: delete the object, or create another one",
            ),
            (
                "has(self.namespaces) == has(self.primary)",
                "spec.namespaces and spec.primary must be set together: one says who, the other where",
            ),
            (
                "has(self.namespaces) || !(has(self.secondary) || has(self.autoFailover) || has(self.unloadScope))",
                "spec.secondary, spec.autoFailover and spec.unloadScope belong to an isolation policy: set "
                "spec.namespaces and spec.primary, or remove them",
            ),
            (
                "has(self.namespaces) || has(self.failureDomains)",
                "nothing is declared: set spec.namespaces and spec.primary, or spec.failureDomains, or all three",
            ),
        )
    )

    instance_ref: ObjectReference
    """The PulsarInstance it lives in."""
    name: PulsarName | None = None
    """Name of the isolation policy inside Pulsar, the same in each cluster; absent = metadata.name."""
    clusters: Annotated[list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra=_SET)] | None = None
    """Clusters it applies to, by their Pulsar name; absent = every cluster of the instance, also later ones. In a
    cluster that leaves the list it is deleted. If a name is no cluster of the instance, the whole list is refused and
    the policy stays where it is."""
    namespaces: (
        Annotated[list[NamespaceExpression], Field(min_length=1, max_length=64, json_schema_extra=_SET)] | None
    ) = None
    """Regular expressions of namespaces, tenant/namespace, such as shop/.* for all of tenant shop."""
    primary: Annotated[list[BrokerExpression], Field(min_length=1, max_length=64, json_schema_extra=_SET)] | None = None
    """Regular expressions of the hosts of brokers that serve the namespaces, such as east-broker-[01]\\..* for two
    pods. They serve no namespace outside the isolation policies: if all live brokers match, those have none. If no live
    broker matches, nor a secondary one, the namespaces cannot be used."""
    secondary: Annotated[list[BrokerExpression], Field(min_length=1, max_length=64, json_schema_extra=_SET)] | None = (
        None
    )
    """Regular expressions of the hosts of brokers that step in; see autoFailover. Absent = not managed, none in a
    policy that this object creates."""
    auto_failover: AutoFailover | None = None
    """When the secondary brokers step in; absent = not managed, MinAvailable 1 at 80 percent in a policy that this
    object creates."""
    unload_scope: UnloadScope | None = None
    """Which namespaces move at once when the policy is written: AllMatching those it is for, Changed those that it was
    or is for but not both, None moves nothing, so that it takes effect when a bundle next looks for a broker. Absent =
    not managed, and Pulsar's default."""
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
    """Failure domains of the clusters. Domains that nobody declared stay; a declared one that is removed is deleted."""


class IsolationClusterStatus(ApiModel):
    """The policy in one cluster."""

    name: str
    """Name of the cluster inside Pulsar."""
    exists: bool
    """Whether the cluster has the isolation policy."""
    brokers: int | None = None
    """Live brokers that match primary or secondary; with 0 its namespaces cannot be used there."""


class IsolationSummary(ApiModel):
    """Lists of the specification for the eye."""

    namespaces: str | None = None
    """Namespaces it is for: shop/.*, bank/pay."""
    primary: str | None = None
    """Brokers that serve them."""
    clusters: str | None = None
    """Clusters it applies to; all = every cluster of the instance."""


class PulsarIsolationPolicyStatus(LogicalStatus):
    """Observed state of a PulsarIsolationPolicy."""

    summary: IsolationSummary | None = None
    """Lists of the specification for the eye."""

    clusters: Annotated[
        list[IsolationClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """The policy in each cluster."""
