"""What breaks the checks of batching, chunking and compression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, override


def _one_at_a_time(call: Callable[..., Any], data: bytes, **options: Any) -> Any:
    """The send has ended before the next one begins."""
    pending = call(data, **options)
    pending.result()
    return pending


def _first_byte_changed(method: str) -> Rule:
    return Rule("producer", method, lambda call, data, *args, **options: call(b"\0" + data[1:], *args, **options))


MUTATIONS = (
    Mutation(
        "batching.one_entry",
        "off",
        "the producer does not batch",
        (override("client", "create_producer", batching_enabled=False),),
    ),
    Mutation(
        "batching.off",
        "on",
        "the producer batches",
        (override("client", "create_producer", batching_enabled=True),),
    ),
    Mutation(
        "batching.max_messages",
        "larger",
        "a batch holds twice as many messages",
        (override("client", "create_producer", batching_max_messages=10),),
    ),
    Mutation(
        "batching.max_bytes",
        "smaller",
        "a batch may hold half as many bytes",
        (override("client", "create_producer", batching_max_allowed_size_in_bytes=2_048),),
    ),
    Mutation(
        "batching.delay",
        "none",
        "the producer does not wait for a batch to fill",
        (override("client", "create_producer", batching_max_publish_delay_ms=1),),
    ),
    Mutation(
        "batching.delay",
        "endless",
        "the batch stays with the producer",
        (override("client", "create_producer", batching_max_publish_delay_ms=120_000),),
    ),
    Mutation(
        "batching.by_key",
        "default",
        "batches hold any keys",
        (override("client", "create_producer", batching_type=pulsar.BatchingType.Default),),
    ),
    Mutation(
        "chunking.whole",
        "off",
        "the producer does not chunk",
        (override("client", "create_producer", chunking_enabled=False),),
    ),
    Mutation(
        "chunking.whole",
        "changed",
        "one byte arrives changed",
        (_first_byte_changed("send"),),
    ),
    Mutation(
        "chunking.interleaved",
        "in_turn",
        "the producers send one after the other",
        (Rule("java.producer", "send_async", _one_at_a_time),),
    ),
    Mutation(
        "chunking.interleaved",
        "one_pending",
        "the consumer can put together only one chunked message at a time",
        (override("client", "subscribe", max_pending_chunked_message=1),),
    ),
    Mutation(
        "chunking.not_with_batching",
        "without",
        "the producer asks for batching alone",
        (override("client", "create_producer", chunking_enabled=False),),
    ),
    Mutation(
        "chunking.persistent_only",
        "dropped",
        "the large message never reaches the client",
        (
            Rule(
                "producer",
                "send",
                lambda _call, *_args, **_options: None,
                lambda data, **_options: len(data) > 1_000,
            ),
        ),
    ),
    *(
        Mutation(
            f"compression.{name}",
            "none",
            "the producer does not compress",
            (override("client", "create_producer", compression_type=pulsar.CompressionType.NONE),),
        )
        for name in ("lz4", "zlib", "zstd", "snappy")
    ),
    *(
        Mutation(
            f"compression.{name}",
            "other",
            "the producer compresses with another type",
            (override("client", "create_producer", compression_type=other),),
        )
        for name, other in (
            ("lz4", pulsar.CompressionType.ZLib),
            ("zlib", pulsar.CompressionType.ZSTD),
            ("zstd", pulsar.CompressionType.SNAPPY),
            ("snappy", pulsar.CompressionType.LZ4),
        )
    ),
    Mutation(
        "compression.zlib",
        "changed",
        "one byte arrives changed",
        (_first_byte_changed("send"),),
    ),
)
