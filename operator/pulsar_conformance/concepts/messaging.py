"""Concepts of messaging: what clients see when they produce and consume."""

from __future__ import annotations

from pulsar_conformance.concepts.logical import NOT_DECLARED, TABLE, policy
from pulsar_conformance.model import Concept

TYPES = policy("subscriptionTypesEnabled")
BY_TYPE = "Pulsar, for every client; a namespace or topic may allow some types only"

SUBSCRIPTIONS = (
    Concept("E.subscription.exclusive", "Exclusive: one consumer, others are refused", TYPES, BY_TYPE),
    Concept(
        "E.subscription.failover.partitioned",
        "Failover on partitions: each partition has one active consumer, spread by priority and name, or by a hash "
        "where the brokers say so",
        (*TYPES, "PulsarCluster: spec.broker.config[activeConsumerFailoverConsistentHashing]"),
        BY_TYPE,
    ),
    Concept(
        "E.subscription.failover.hash",
        "Failover on topics without partitions: the active consumer is chosen by a hash, so that many topics spread "
        "over the consumers",
        TYPES,
        BY_TYPE,
    ),
    Concept(
        "E.subscription.shared",
        "Shared: messages go round the consumers; those of a lost one go to the others",
        TYPES,
        BY_TYPE,
    ),
    Concept(
        "E.key_shared.autosplit",
        "Key_Shared, auto-split: the range of hashes is cut between consumers as they come",
        ("PulsarCluster: spec.broker.config[subscriptionKeySharedUseConsistentHashing]",),
        "Pulsar with the rendered settings (false)",
    ),
    Concept(
        "E.key_shared.consistent",
        "Key_Shared, consistent hashing: each consumer stands at 100 points of a ring of 65 536",
        (
            "PulsarCluster: spec.broker.config[subscriptionKeySharedUseConsistentHashing]",
            "PulsarCluster: spec.broker.config[subscriptionKeySharedConsistentHashingReplicaPoints]",
        ),
        "Pulsar with the rendered settings (true, its default)",
    ),
    Concept(
        "E.key_shared.sticky", "Key_Shared, sticky: each consumer names the ranges of hashes it takes", TYPES, BY_TYPE
    ),
    Concept(
        "E.key_shared.draining",
        "A key moves to another consumer only when its earlier messages are acknowledged; topic stats show the hashes "
        "on the move",
    ),
    Concept(
        "E.key_shared.out_of_order",
        "A consumer may allow messages out of order (allowOutOfOrderDelivery): if it joins, it gets its keys "
        "immediately",
    ),
    Concept(
        "E.key_shared.delayed",
        "Delayed messages wait for their time and go to the consumer that has their key then",
        policy("delayedDelivery.enabled"),
        TABLE,
    ),
    Concept(
        "E.key_shared.dead_letter", "A key's dead letters keep their key; the other messages of the key are delivered"
    ),
    Concept("E.key_shared.batching", "Batches by key: a batch holds messages of one key, so Key_Shared stays true"),
    Concept("E.subscription.durable", "Durable: the position outlives the consumers"),
    Concept("E.subscription.nondurable", "NonDurable: the position goes with its consumer"),
    Concept("E.subscription.list", "One consumer takes from a list of topics"),
    Concept("E.subscription.regex", "One consumer takes from all topics a pattern matches, also from later ones"),
    Concept(
        "E.receive.async", "An asynchronous receive is answered when a message comes, in the order of the requests"
    ),
    Concept("E.receive.listener", "A listener is called with each message, in order; it can be paused"),
    Concept("E.schema.version", "A message carries the version of the schema it was written with"),
    Concept("E.reader", "A reader starts where it likes and acknowledges nothing"),
)
ACKNOWLEDGEMENTS = (
    Concept("E.ack.single", "One message is acknowledged; the others come again"),
    Concept("E.ack.cumulative", "All messages up to one are acknowledged together"),
    Concept(
        "E.ack.batch_index",
        "Single messages of a batch are acknowledged, and only the others come again",
        ("PulsarCluster: spec.broker.config[acknowledgmentAtBatchIndexLevelEnabled]",),
        "Pulsar with the rendered settings; off by default",
        open="the default is off in 4.0 and on from 4.1 on (PIP-391)",
    ),
    Concept("E.nack.delay", "A negative acknowledgement brings the message again after a delay"),
    Concept("E.nack.backoff", "The delay grows with each negative acknowledgement, up to a maximum"),
    Concept(
        "E.nack.ordered",
        "On Exclusive and Failover a negative acknowledgement brings the message and all later ones again, in order",
    ),
    Concept("E.ack_timeout", "A message not acknowledged in time comes again"),
    Concept("E.ack_timeout.backoff", "That time grows with each delivery"),
    Concept("E.retry", "A message put off goes to a retry letter topic and comes again from there"),
    Concept(
        "E.retry.names",
        "Retry and dead letter topics are named after topic and subscription, or as the client declares; behind a "
        "proxy (4.0) a Java client may take the old names, which hold the subscription's name only",
    ),
    Concept("E.dead_letter", "A message delivered too often goes to a dead letter topic"),
    Concept(
        "E.dead_letter.initial",
        "The dead letter topic is made with a subscription, so nothing sent there is lost",
    ),
)
PRODUCERS = (
    Concept("E.batching", "A producer puts messages together into one entry"),
    Concept("E.chunking", "A message over the limit is cut into chunks, without batching, on persistent topics"),
    Concept(
        "E.chunking.pending",
        "A consumer keeps unfinished chunked messages for a time and up to a number, and gives up the oldest ones; the "
        "Java client (4.0.8) forgets the time of those that come after a whole chunked message",
    ),
    Concept("E.chunking.shared", "All chunks of a message go to one consumer of a Shared subscription"),
    Concept(
        "E.chunking.rate",
        "Topic stats have the rate of chunks of each producer and consumer (chunkedMessageRate)",
        ("PulsarCluster: spec.broker.config[statsUpdateFrequencyInSecs]",),
        "Pulsar with the rendered settings; once a minute by default",
    ),
    Concept("E.compression.lz4", "Payloads compressed with LZ4"),
    Concept("E.compression.zlib", "Payloads compressed with ZLIB"),
    Concept("E.compression.zstd", "Payloads compressed with ZSTD"),
    Concept("E.compression.snappy", "Payloads compressed with SNAPPY"),
    Concept(
        "E.size",
        "A message has at most 5 MiB, or what is set; frames of brokers and bookies follow",
        ("PulsarCluster: spec.broker.maxMessageSize", "PulsarTopic: spec.policies.maxMessageSize"),
        "operator: renders broker.conf `maxMessageSize`, bookie `nettyMaxFrameSizeBytes` and write cache in step",
        "e2e/tests/test_conformance_configured.py::test_promises_that_need_other_settings",
    ),
    Concept("E.producer.shared", "Shared access: many producers on one topic"),
    Concept("E.producer.exclusive", "Exclusive access: one producer, others are refused"),
    Concept("E.producer.wait", "WaitForExclusive: a producer waits until the one before it is gone"),
    Concept("E.send.sync", "A synchronous send returns when the message is stored"),
    Concept("E.send.async", "An asynchronous send calls back, in order"),
    Concept("E.routing.round_robin", "Messages without key go round the partitions"),
    Concept("E.routing.single", "Messages without key all go to one partition"),
    Concept("E.routing.custom", "A router of the client's own chooses the partition"),
    Concept("E.routing.key", "Messages with a key go where its hash (JavaString or Murmur3) points, in order"),
)
FEATURES = (
    Concept(
        "E.deduplication",
        "What a producer sends again with the same sequence id is stored once",
        (*policy("deduplication.enabled"), "PulsarCluster: spec.broker.config[brokerDeduplicationEnabled]"),
        TABLE,
    ),
    Concept(
        "E.delayed.after",
        "A message is delivered after a delay, on Shared and Key_Shared subscriptions",
        policy("delayedDelivery.enabled", "delayedDelivery.tickTimeMilliseconds"),
        TABLE,
        open="holds in 4.0.8; in 4.2.4 delayed messages stall where a namespace's tick is much shorter than the "
        "brokers' `delayedDeliveryTickTimeMillis`",
    ),
    Concept(
        "E.delayed.at",
        "A message is delivered at a time, not before it where that is strict",
        ("PulsarCluster: spec.broker.config[isDelayedDeliveryDeliverAtTimeStrict]",),
        "Pulsar with the rendered settings",
    ),
    Concept(
        "E.delayed.single",
        "A delayed message is a separate entry even if its producer batches",
    ),
    Concept(
        "E.delayed.kept",
        "Until it is acknowledged a delayed message is backlog like any other: TTL, quotas and its ledger treat it so",
        policy("messageTTLSeconds", "backlogQuotas", "retention"),
        TABLE,
    ),
    Concept(
        "E.compaction",
        "Compaction leaves the last message of each key",
        (
            *policy("compactionThreshold"),
            "PulsarCluster: spec.broker.config[brokerServiceCompactionThresholdInBytes]",
        ),
        "operator: policy table; Pulsar compacts above the threshold, or when asked over admin REST",
    ),
    Concept(
        "E.retention",
        "Retention keeps what is acknowledged",
        policy("retention"),
        TABLE,
    ),
    Concept(
        "E.retention.default",
        "A namespace without a retention policy has the brokers' default",
        (
            "PulsarCluster: spec.broker.config[defaultRetentionTimeInMinutes]",
            "PulsarCluster: spec.broker.config[defaultRetentionSizeInMB]",
        ),
        "Pulsar with the rendered settings; nothing is kept by default",
    ),
    Concept(
        "E.ttl",
        "TTL gives up what is not acknowledged in time",
        policy("messageTTLSeconds"),
        TABLE,
    ),
    Concept("E.backlog", "A backlog quota limits what is not acknowledged", policy("backlogQuotas"), TABLE),
    Concept(
        "E.nonpersistent",
        "Non-persistent topics store nothing: who is not there when a message comes does not get it",
        ("PulsarTopic: spec.persistent",),
        "operator: creates the topic; Pulsar for every client",
    ),
    Concept(
        "E.nonpersistent.types",
        "Non-persistent topics have Shared, Failover and Key_Shared subscriptions too; nothing comes again on them",
        ("PulsarTopic: spec.persistent",),
        "operator: creates the topic; Pulsar for every client",
    ),
    Concept(
        "E.geo",
        "Messages reach the other clusters of the namespace",
        ("PulsarNamespace: spec.replicationClusters", "PulsarInstance: spec.configurationStore"),
        "operator: registers every cluster with addresses the others can reach; Pulsar replicates",
        "e2e/tests/test_geo.py::test_a_cluster_is_away_and_comes_back",
    ),
    Concept(
        "E.functions",
        "Pulsar Functions and IO connectors run beside the brokers",
        (),
        "Pulsar's functions worker, which the operator renders off",
        open=f"functions workers are {NOT_DECLARED}",
    ),
    Concept(
        "E.transactions",
        "Messages and acknowledgements of several topics take effect together or not at all",
        ("PulsarCluster: spec.broker.config[transactionCoordinatorEnabled]",),
        "Pulsar with the rendered settings; the operator sets up the coordinators' entry in the configuration store",
        "e2e/tests/test_conformance_configured.py::test_promises_that_need_other_settings",
    ),
)
MESSAGING = (*SUBSCRIPTIONS, *ACKNOWLEDGEMENTS, *PRODUCERS, *FEATURES)
