"""Concepts of the logical plane: tenants, namespaces, topics."""

from __future__ import annotations

from pulsar_conformance.model import Concept

NOT_DECLARED = "not declared in this version"


def policy(*names: str, topics: bool = True) -> tuple[str, ...]:
    """Policies of namespaces, and those of the same name of topics unless topics have none."""
    kinds = ("PulsarNamespace", "PulsarTopic") if topics else ("PulsarNamespace",)
    return tuple(f"{kind}: spec.policies.{name}" for name in names for kind in kinds)


TABLE = "operator: policy table, set over admin REST, read back, repaired"
POLICIES_REAL = "tests/standalone/test_policies_real.py::TestPoliciesReal"
ROUND_TRIP = f"{POLICIES_REAL}::test_values_survive_the_round_trip_and_the_reset"
QUOTAS = policy(
    "backlogQuotas.destinationStorage.limit",
    "backlogQuotas.destinationStorage.policy",
    "backlogQuotas.messageAge.limitSeconds",
    "backlogQuotas.messageAge.policy",
)

NAMESPACES = (
    Concept(
        "D.tenant",
        "A tenant has admin roles and the clusters it may use, and is there in all of them; its rights, quotas and "
        "isolation hold for its namespaces",
        ("PulsarTenant: spec.adminRoles", "PulsarTenant: spec.allowedClusters", "PulsarTenant: spec.namespaceDefaults"),
        "operator: roles one by one, clusters before the namespaces that need them; quotas and TTL of the defaults "
        "on each namespace, since Pulsar has none of a tenant; Pulsar enforces them",
    ),
    Concept(
        "D.namespace.permissions",
        "Roles get the right to produce to or consume from a namespace",
        (
            "PulsarNamespace: spec.permissions",
            "PulsarTopic: spec.permissions",
            "PulsarNamespace: spec.subscriptionPermissions",
        ),
        "operator: entry by entry; Pulsar, where authorization is on",
        "tests/standalone/test_entries_real.py::TestEntriesReal::test_entries_survive_and_are_taken_back_one_by_one",
    ),
    Concept(
        "D.namespace.replication",
        "A namespace names the clusters that hold it and replicate it to each other",
        ("PulsarNamespace: spec.replicationClusters",),
        "operator: policy table; data in a cluster that leaves is deleted only by confirmation",
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.retention",
        "Acknowledged messages are kept for a time and up to a size, -1 for no limit",
        policy("retention.timeMinutes", "retention.size"),
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.backlog.hold",
        "Over its backlog quota a namespace makes producers wait (producer_request_hold)",
        QUOTAS,
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.backlog.exception",
        "Over its backlog quota a namespace refuses producers (producer_exception)",
        QUOTAS,
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.backlog.eviction",
        "Over its backlog quota a namespace drops the oldest messages of slow subscriptions "
        "(consumer_backlog_eviction)",
        QUOTAS,
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.ttl",
        "Messages that are not acknowledged in time are acknowledged by the broker",
        policy("messageTTLSeconds"),
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.deduplication",
        "A namespace switches deduplication of what producers send again on or off",
        (*policy("deduplication.enabled"), "PulsarCluster: spec.broker.config[brokerDeduplicationEnabled]"),
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.delayed",
        "A namespace allows delayed delivery or not, and sets its precision",
        policy(
            "delayedDelivery.enabled", "delayedDelivery.tickTimeMilliseconds", "delayedDelivery.maxDelayMilliseconds"
        ),
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.offload",
        "A namespace sets the size above which closed ledgers are offloaded: immediately if 0, never if negative",
        policy("offload.threshold", "offload.thresholdSeconds", "offload.deletionLagMilliseconds"),
        "unsupported: the operator refuses the field, because its images have no offload driver",
        open="tiered storage is not part of this version",
    ),
    Concept(
        "D.namespace.bundles",
        "A namespace chooses its number of bundles, or their boundaries, when it is created",
        ("PulsarNamespace: spec.bundles.count", "PulsarNamespace: spec.bundles.boundaries"),
        "operator: at creation; never rewritten afterwards, splits are left alone",
    ),
    Concept(
        "D.namespace.persistence",
        "A namespace chooses ensemble, copies and acknowledgements of its topics' entries",
        policy("persistence.ensembleSize", "persistence.writeQuorum", "persistence.ackQuorum"),
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.namespace.subscription_types",
        "A namespace allows some types of subscriptions only",
        policy("subscriptionTypesEnabled"),
        TABLE,
        ROUND_TRIP,
    ),
    Concept(
        "D.resource_group",
        "The topics of the namespaces of a resource group share its rates",
        (
            "PulsarResourceGroup: spec.limits.publishRate",
            "PulsarResourceGroup: spec.limits.dispatchRate",
            *policy("resourceGroup", topics=False),
        ),
        "operator: the group, read back, repaired; Pulsar throttles producers, at each broker separately unless "
        "`resourceUsageTransportClassName` is set",
        open="Pulsar 4.0 stores the dispatch rate and throttles no consumer by it",
    ),
    Concept(
        "D.namespace.schema",
        "A namespace says which changes of a schema are compatible, and whether clients must have one",
        (
            *policy("schema.compatibilityStrategy", "schema.validationEnforced"),
            *policy("schema.allowAutoUpdate", topics=False),
        ),
        TABLE,
        ROUND_TRIP,
    ),
)
TOPICS = (
    Concept(
        "D.topic.name",
        "A topic is {persistent or non-persistent}://tenant/namespace/topic",
        ("PulsarTopic: spec.name", "PulsarTopic: spec.persistent", "PulsarTopic: spec.namespaceRef"),
        "operator: names Pulsar refuses are refused by the API server",
    ),
    Concept(
        "D.topic.auto",
        "Clients that use a topic that is not there make it, where the brokers allow it",
        (
            *policy("autoTopicCreation.enabled", "autoTopicCreation.topicType", topics=False),
            "PulsarCluster: spec.broker.config[allowAutoTopicCreation]",
        ),
        TABLE,
    ),
    Concept(
        "D.topic.default",
        "A short name means a persistent topic in public/default",
        (),
        "operator: public/default belongs to the first cluster of the instance",
    ),
    Concept(
        "D.topic.partitioned",
        "A partitioned topic is made by an administrator, with its number of partitions",
        ("PulsarTopic: spec.partitions",),
        "operator: created over admin REST, kept even when idle",
        "e2e/tests/test_quickstart.py::test_messages_through_the_proxy_on_both_topics",
    ),
    Concept(
        "D.topic.grow",
        "Partitions can be added; what is stored stays where it is",
        ("PulsarTopic: spec.partitions",),
        "operator: grows them over admin REST; the API server refuses less",
        "e2e/tests/test_quickstart.py::test_partitions_grow",
    ),
    Concept(
        "D.topic.nonpersistent.partitioned",
        "Topics that are not persistent can be partitioned as well",
        ("PulsarTopic: spec.persistent", "PulsarTopic: spec.partitions"),
        "operator: created over admin REST",
    ),
    Concept(
        "D.topic.system",
        "Brokers keep policies, transactions and load reports in system topics (__change_events ...)",
        (
            "PulsarCluster: spec.broker.config[systemTopicEnabled]",
            "PulsarCluster: spec.broker.config[topicLevelPoliciesEnabled]",
        ),
        "Pulsar, by default; the operator never deletes them",
    ),
    Concept(
        "D.topic.million",
        "An instance carries more than a million topics",
        ("PulsarTopic: spec.name",),
        "Pulsar",
        open="needs a cluster of many machines",
    ),
)
LOGICAL = (*NAMESPACES, *TOPICS)
