"""What breaks the checks of access modes and routing."""

from __future__ import annotations

from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, override, without

MODE = pulsar.ProducerAccessMode
SINGLE = pulsar.PartitionsRoutingMode.UseSinglePartition
ROUND = pulsar.PartitionsRoutingMode.RoundRobinDistribution


def _mode(mode: pulsar.ProducerAccessMode, instead: pulsar.ProducerAccessMode) -> Rule:
    """Producers that ask for one access mode get another."""
    return Rule(
        "client",
        "create_producer",
        lambda call, *args, **options: call(*args, **{**options, "access_mode": instead}),
        lambda *_args, **options: options.get("access_mode") == mode,
    )


def _second_key(call: Any, *args: Any, **options: Any) -> Any:
    """The second message of a key has another key to go by."""
    data = bytes(args[0])
    return call(*args, **({**options, "partition_key": options["partition_key"] + "?"} if data == b"1" else options))


MUTATIONS = (
    Mutation(
        "access_mode.shared", "exclusive", "the producers ask for Exclusive", (_mode(MODE.Shared, MODE.Exclusive),)
    ),
    Mutation(
        "access_mode.shared",
        "fencing",
        "the producers ask for ExclusiveWithFencing",
        (_mode(MODE.Shared, MODE.ExclusiveWithFencing),),
    ),
    Mutation("access_mode.exclusive", "shared", "the producers ask for Shared", (_mode(MODE.Exclusive, MODE.Shared),)),
    Mutation(
        "access_mode.exclusive",
        "fencing",
        "the producers ask for ExclusiveWithFencing",
        (_mode(MODE.Exclusive, MODE.ExclusiveWithFencing),),
    ),
    Mutation(
        "access_mode.shared_first",
        "shared",
        "the other producer asks for Shared",
        (_mode(MODE.Exclusive, MODE.Shared),),
    ),
    Mutation(
        "access_mode.wait",
        "fencing",
        "the producers take over without waiting",
        (_mode(MODE.WaitForExclusive, MODE.ExclusiveWithFencing),),
    ),
    Mutation(
        "access_mode.wait",
        "exclusive",
        "the producers do not wait but are refused",
        (_mode(MODE.WaitForExclusive, MODE.Exclusive),),
    ),
    Mutation(
        "access_mode.fencing",
        "without",
        "the second producer does not fence",
        (_mode(MODE.ExclusiveWithFencing, MODE.Exclusive),),
    ),
    Mutation(
        "access_mode.fencing",
        "shared",
        "both producers ask for Shared",
        (_mode(MODE.ExclusiveWithFencing, MODE.Shared), _mode(MODE.Exclusive, MODE.Shared)),
    ),
    Mutation(
        "routing.round_robin",
        "single",
        "the producer keeps to one partition",
        (override("client", "create_producer", message_routing_mode=SINGLE),),
    ),
    Mutation(
        "routing.round_robin",
        "keyed",
        "the messages have a key",
        (override("producer", "send", partition_key="one"),),
    ),
    Mutation(
        "routing.round_robin_batches",
        "single",
        "the producer keeps to one partition",
        (override("client", "create_producer", message_routing_mode=SINGLE),),
    ),
    Mutation(
        "routing.round_robin_batches",
        "off",
        "the producer does not batch",
        (override("client", "create_producer", batching_enabled=False),),
    ),
    Mutation(
        "routing.single",
        "round_robin",
        "the producer goes round the partitions",
        (override("client", "create_producer", message_routing_mode=ROUND),),
    ),
    Mutation("routing.single", "no_keys", "the messages have no keys", (without("producer", "send", "partition_key"),)),
    Mutation(
        "routing.custom_python",
        "without",
        "the producer has no custom router",
        (without("client", "create_producer", "message_router"),),
    ),
    Mutation(
        "routing.custom_java",
        "without",
        "the producer has no custom router",
        (without("java.client", "producer", "router"),),
    ),
    Mutation(
        "routing.custom_java",
        "first",
        "the producer has another router",
        (override("java.client", "producer", router="first"),),
    ),
    Mutation("routing.key", "no_keys", "the messages have no keys", (without("producer", "send", "partition_key"),)),
    Mutation("routing.key", "other_key", "one message has another key", (Rule("producer", "send", _second_key),)),
    Mutation(
        "routing.key_java_string",
        "murmur3",
        "the Java client hashes with Murmur3",
        (override("java.client", "producer", hashingScheme="Murmur3_32Hash"),),
    ),
    Mutation(
        "routing.key_murmur3",
        "java_string",
        "the Java client hashes with its default",
        (without("java.client", "producer", "hashingScheme"),),
    ),
    *(
        Mutation(
            f"routing.key_{name}",
            "own_hash",
            "the Python client hashes in its own way",
            (without("client", "create_producer", "message_router"),),
        )
        for name in ("java_string", "murmur3")
    ),
)
