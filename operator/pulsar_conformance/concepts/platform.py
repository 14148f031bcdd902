"""Concepts of the platform: instances and clusters, balancing, storage."""

from __future__ import annotations

from pulsar_conformance.concepts.logical import policy
from pulsar_conformance.model import Concept

BALANCER = (
    "PulsarCluster: spec.loadBalancing.manager",
    "PulsarCluster: spec.broker.config[loadBalancerSheddingEnabled]",
    "PulsarCluster: spec.broker.config[loadBalancerBrokerThresholdShedderPercentage]",
)
OVERLOADED = (
    "PulsarCluster: spec.broker.config[loadBalancerLoadSheddingStrategy]",
    "PulsarCluster: spec.broker.config[loadBalancerBrokerOverloadedThresholdPercentage]",
)
"""Class OverloadShedder alone reads this threshold; Pulsar's default is class ThresholdShedder."""
DISTRIBUTED = "e2e/tests/test_distributed.py::test_messages_survive_the_loss_of_one_of_each"
REBALANCE = "e2e/tests/test_brokers.py::test_moves_and_splits_even_out_a_hot_broker"
EXAMPLE = "e2e/tests/test_balance.py::test_the_worked_example_is_given_to_pulsar_and_to_the_operator"
SEVERAL = "e2e/tests/test_balance.py::test_promises_that_need_several_brokers"
QUICKSTART = "e2e/tests/test_quickstart.py::test_every_object_is_ready_with_its_columns"

INSTANCE = (
    Concept(
        "A.instance",
        "An instance is one or more clusters managed as one unit; only clusters of the same instance replicate to "
        "each other",
        ("PulsarInstance: spec.configurationStore", "PulsarCluster: spec.instanceRef"),
        "operator: writes each cluster into the configuration store of its instance and nowhere else",
        "tests/integration/metadata/test_bootstrap_zookeeper.py::"
        "test_a_second_cluster_never_changes_replication_clusters",
    ),
    Concept(
        "A.configstore",
        "The configuration store is one ZooKeeper ensemble for the whole instance: tenants, namespaces, clusters, "
        "partitioned topics, policies. It is a separate ensemble, or a member cluster's",
        (
            "PulsarInstance: spec.configurationStore.managed.replicas",
            "PulsarInstance: spec.configurationStore.cluster.name",
            "PulsarInstance: spec.configurationStore.external.servers",
        ),
        "operator: deploys the ensemble and renders `configurationMetadataStoreUrl` of brokers and proxies",
        DISTRIBUTED,
    ),
    Concept(
        "A.configstore.outage",
        "While the configuration store is unavailable, clusters continue to serve topics in use and to replicate them "
        "to each other",
        ("PulsarInstance: spec.configurationStore.managed",),
        "Pulsar: brokers serve from what they know; the operator restarts no broker for it (liveness is a TCP port)",
    ),
    Concept(
        "A.cluster",
        "A cluster has its own metadata store, one or more brokers and bookies, and optional proxies",
        (
            "PulsarCluster: spec.metadataStore",
            "PulsarCluster: spec.bookkeeper.replicas",
            "PulsarCluster: spec.broker.replicas",
            "PulsarCluster: spec.proxy.replicas",
        ),
        "operator: StatefulSets, Services and configuration of each component, in the order they need each other",
        QUICKSTART,
    ),
    Concept(
        "A.bookkeeper.metadata",
        "BookKeeper keeps its metadata in the cluster's metadata store, or in a separate ensemble",
        ("PulsarCluster: spec.metadataStore",),
        "operator: renders `metadataServiceUri` of the bookies; the brokers derive theirs from the same store",
        DISTRIBUTED,
        open="a separate ensemble for BookKeeper is not supported in this version",
    ),
    Concept(
        "A.scale",
        "Brokers, bookies and proxies each scale automatically with demand",
        (
            "PulsarCluster: spec.broker.autoscaling",
            "PulsarCluster: spec.bookkeeper.autoscaling",
            "PulsarCluster: spec.proxy.autoscaling",
        ),
        "operator: by measured load of brokers and proxies and by the disks of bookies, or by `replicas`; brokers hand "
        "over their bundles first, and a bookie leaves once its ledgers are copied",
        "e2e/tests/test_autoscaling.py::test_brokers_follow_the_load",
    ),
    Concept(
        "A.broker",
        "A broker is an HTTP server for admin REST and look-ups and a TCP dispatcher for messages",
        ("PulsarCluster: spec.broker", "PulsarCluster: spec.broker.config"),
        "operator: ports 8080 and 6650, `advertisedAddress` is the pod's own name",
        "e2e/tests/test_quickstart.py::test_deleted_broker_pod_comes_back_and_serves",
    ),
    Concept(
        "A.broker.reads",
        "Consumers at the tail are served from the broker's cache, those that catch up from bookies",
        ("PulsarCluster: spec.broker.config[managedLedgerCacheSizeMB]", "PulsarCluster: spec.broker.jvm.directMemory"),
        "Pulsar; the operator sizes direct memory, of which the cache is a part",
    ),
    Concept(
        "A.proxy",
        "A proxy routes by topic, needs the two stores' addresses only, and is the way in for "
        "clients that cannot reach brokers; several stand behind one balancer",
        ("PulsarCluster: spec.proxy.replicas", "PulsarCluster: spec.proxy.service.type"),
        "operator: Service in front of the proxies; `brokerProxyAllowedHostNames` lets them reach brokers alone",
        "e2e/tests/test_quickstart.py::test_messages_through_the_proxy_on_both_topics",
    ),
    Concept(
        "A.standalone",
        "Standalone: metadata, bookie and broker in one process, for development",
        ("PulsarCluster: spec.mode", "PulsarCluster: spec.standalone.storage"),
        "operator: one pod with one volume and a stable address",
        "e2e/tests/test_bad_input.py::test_standalone_is_repaired_and_keeps_messages",
    ),
    Concept(
        "A.stats",
        "Every topic shows its producers, subscriptions, backlog and rates over admin REST on port 8080",
        (),
        "Pulsar, for every client; the operator's Services and proxies pass admin REST on",
    ),
)
BUNDLES = (
    Concept(
        "B.lookup",
        "A topic's name is hashed, the hash falls into a bundle, the bundle belongs to one broker; only owners of "
        "bundles are stored",
        (),
        "Pulsar, for every client",
    ),
    Concept(
        "B.bundles.default",
        "A new namespace has as many bundles as it asks for, else the brokers' default (4); best a multiple of the "
        "brokers",
        (
            "PulsarNamespace: spec.bundles.count",
            "PulsarNamespace: spec.bundles.boundaries",
            "PulsarNamespace: spec.bundles.sizing",
            "PulsarCluster: spec.broker.config[defaultNumberOfNamespaceBundles]",
        ),
        "operator: at creation of the namespace; boundaries that are missing are drift, splits that add some are not",
    ),
    Concept(
        "B.split",
        "A bundle over its limit of topics, sessions, messages or bandwidth is cut in two, and one half moves to "
        "another broker",
        (
            "PulsarCluster: spec.broker.config[loadBalancerAutoBundleSplitEnabled]",
            "PulsarCluster: spec.broker.config[loadBalancerNamespaceBundleMaxTopics]",
            "PulsarCluster: spec.broker.config[loadBalancerNamespaceBundleMaxSessions]",
            "PulsarCluster: spec.broker.config[loadBalancerNamespaceBundleMaxMsgRate]",
            "PulsarCluster: spec.broker.config[loadBalancerNamespaceBundleMaxBandwidthMbytes]",
        ),
        "Pulsar's load manager with the rendered limits; or the operator, for a PulsarRebalance",
        REBALANCE,
    ),
    Concept(
        "B.shed",
        "A broker over its threshold of CPU, network or memory gives bundles, as they are, to others",
        (*BALANCER, *OVERLOADED),
        "Pulsar's load manager with the rendered thresholds; `spec.loadBalancing.manager` chooses it",
        SEVERAL,
        open="with Pulsar's defaults a small cluster never sheds: its class ThresholdShedder wants 10 MB/s to move",
    ),
    Concept(
        "B.isolation",
        "A namespace can be kept to primary brokers, which serve no other one; secondary brokers step in when too few "
        "of them are there",
        (
            "PulsarIsolationPolicy: spec.namespaces",
            "PulsarIsolationPolicy: spec.primary",
            "PulsarIsolationPolicy: spec.secondary",
            "PulsarIsolationPolicy: spec.autoFailover",
        ),
        "operator: the policy in each cluster, read back, repaired; Pulsar's load manager",
    ),
    Concept(
        "B.example",
        "Three brokers with 20 bundles each, the hot bundles on one of them: moving bundles evens it out, cutting "
        "them alone leaves the broker with half of the load",
        (*BALANCER, "PulsarRebalance: spec.mode", "PulsarCluster: spec.loadBalancing.driver"),
        "the operator, for a PulsarRebalance or with driver Operator; else Pulsar's load manager",
        EXAMPLE,
    ),
)
STORAGE = (
    Concept(
        "C.ledger.rollover",
        "A topic is a list of ledgers; a new one starts after 50 000 entries, or the size or time that is set",
        (
            "PulsarCluster: spec.broker.config[managedLedgerMaxEntriesPerLedger]",
            "PulsarCluster: spec.broker.config[managedLedgerMinLedgerRolloverTimeMinutes]",
            "PulsarCluster: spec.broker.config[managedLedgerMaxLedgerRolloverTimeMinutes]",
        ),
        "Pulsar with the rendered limits",
    ),
    Concept(
        "C.ledger.delete",
        "Data is given up a whole ledger at a time, once all of it is consumed and past retention",
        policy("retention"),
        "Pulsar, for every client",
    ),
    Concept(
        "C.ledger.fencing",
        "A ledger has one writer and is read-only once closed; a broker that takes a topic over fences the old one",
        (),
        "BookKeeper; the operator never runs two pods of one identity",
    ),
    Concept(
        "C.quorum",
        "Ensemble size, number of copies of each entry and of awaited acknowledgements; journal and ledgers on "
        "separate disks",
        (
            "PulsarCluster: spec.bookkeeper.ensemble.ensembleSize",
            "PulsarCluster: spec.bookkeeper.ensemble.writeQuorum",
            "PulsarCluster: spec.bookkeeper.ensemble.ackQuorum",
            "PulsarCluster: spec.bookkeeper.journal",
            "PulsarCluster: spec.bookkeeper.ledgers",
            "PulsarCluster: spec.bookkeeper.config[journalMaxSizeMB]",
        ),
        "operator: renders `managedLedgerDefaultEnsembleSize`, `WriteQuorum`, `AckQuorum` to fit the bookies",
        "e2e/tests/test_distributed.py::test_quorums_fit_the_bookies",
    ),
    Concept(
        "C.cursor",
        "The position of a subscription is kept in BookKeeper too, in its own ledger",
        ("PulsarCluster: spec.bookkeeper.ensemble",),
        "Pulsar, for every client",
    ),
    Concept(
        "C.znodes",
        "Pulsar's and BookKeeper's metadata have their known places in ZooKeeper (/admin, /ledgers, /managed-ledgers, "
        "/namespace ...)",
        ("PulsarCluster: spec.metadataStore.external.chroot",),
        "operator: sets up an empty store as Pulsar's own tool would, and never one that ever held data",
        "tests/integration/metadata/test_bootstrap_zookeeper.py::"
        "test_the_tree_is_that_of_pulsars_own_tool_but_for_named_differences",
    ),
    Concept(
        "C.cas",
        "A metadata write names the version that was read: of two concurrent writers one succeeds",
        (),
        "ZooKeeper; the operator writes znodes with the version it read",
        "tests/integration/contract/test_zookeeper_contract.py::test_set_is_compare_and_set",
    ),
    Concept(
        "C.offload",
        "Closed ledgers move to object storage once a namespace is over its threshold, then leave the bookies and "
        "stay readable",
        policy("offload.driver", "offload.bucket", "offload.region", "offload.s3Role", "offload.s3RoleSessionName"),
        "unsupported: the operator refuses the field, because its images have no offload driver",
        open="tiered storage is not part of this version",
    ),
)
PLATFORM = (*INSTANCE, *BUNDLES, *STORAGE)
