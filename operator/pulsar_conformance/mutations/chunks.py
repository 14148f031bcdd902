"""What breaks the checks of chunked messages at the consumer."""

from __future__ import annotations

import pulsar

from pulsar_conformance.tamper import Mutation, drop, override, without

MUTATIONS = (
    Mutation(
        "chunking.expiry",
        "default",
        "the consumers have the default expiry of a minute",
        (without("java.client", "consumer", "expireTimeOfIncompleteChunkedMessageMillis"),),
    ),
    Mutation(
        "chunking.expiry",
        "eager",
        "both consumers give up after 0.1 s",
        (override("java.client", "consumer", expireTimeOfIncompleteChunkedMessageMillis=100),),
    ),
    Mutation(
        "chunking.limit",
        "default",
        "the consumers have room for ten",
        (without("client", "subscribe", "max_pending_chunked_message"),),
    ),
    Mutation(
        "chunking.limit",
        "acknowledged",
        "what is dropped is always acknowledged",
        (override("client", "subscribe", auto_ack_oldest_chunked_message_on_queue_full=True),),
    ),
    Mutation(
        "chunking.limit",
        "left",
        "what is dropped is never acknowledged",
        (without("client", "subscribe", "auto_ack_oldest_chunked_message_on_queue_full"),),
    ),
    Mutation(
        "chunking.shared",
        "failover",
        "the consumers ask for a Failover subscription",
        (override("client", "subscribe", consumer_type=pulsar.ConsumerType.Failover),),
    ),
    Mutation(
        "chunking.shared",
        "one_chunk",
        "the messages are not cut",
        (override("java.client", "producer", chunkMaxMessageSize=100_000),),
    ),
    Mutation("chunking.shared", "stays", "the consumer never closes", (drop("consumer", "close"),)),
    Mutation(
        "chunking.shared",
        "no_ack",
        "acknowledgements do not leave, so settled messages come again",
        (drop("consumer", "acknowledge"),),
    ),
    Mutation(
        "chunking.rate",
        "whole",
        "no producer cuts its messages",
        (override("java.client", "producer", chunkMaxMessageSize=100_000),),
    ),
    Mutation(
        "chunking.rate",
        "both",
        "both producers cut their messages",
        (override("java.client", "producer", chunkingEnabled=True, chunkMaxMessageSize=1_000),),
    ),
)
