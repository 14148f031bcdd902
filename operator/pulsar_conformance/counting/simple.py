"""Publish some, consume some: for tests that only need a few messages to be there again later."""

from __future__ import annotations

import pulsar


def client(
    service_url: str, *, authentication: pulsar.Authentication | None = None, trust_certs: str | None = None
) -> pulsar.Client:
    """A client with bounded waits and quiet logs; ``trust_certs`` is a file, for pulsar+ssl. It verifies host names."""
    return pulsar.Client(
        service_url,
        authentication=authentication,
        tls_trust_certs_file_path=trust_certs,
        tls_validate_hostname=True,
        operation_timeout_seconds=30,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def publish(service_url: str, topic: str, count: int, *, prefix: str) -> list[str]:
    """Publish ``count`` messages ``<prefix>-<n>``, each acknowledged by the broker, and return them."""
    texts = [f"{prefix}-{i}" for i in range(count)]
    with_client = client(service_url)
    try:
        producer = with_client.create_producer(topic, send_timeout_millis=30_000)
        for text in texts:
            producer.send(text.encode())
        return texts
    finally:
        with_client.close()


def subscribe(service_url: str, topic: str, subscription: str) -> None:
    """Create a durable subscription at the end of the topic and leave: it then holds exactly what is published next."""
    with_client = client(service_url)
    try:
        with_client.subscribe(topic, subscription, initial_position=pulsar.InitialPosition.Latest).close()
    finally:
        with_client.close()


def consume(service_url: str, topic: str, subscription: str, count: int) -> list[str]:
    """Receive and acknowledge ``count`` messages, at most 30 s for each."""
    with_client = client(service_url)
    try:
        consumer = with_client.subscribe(
            topic,
            subscription,
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        out = []
        for _ in range(count):
            message = consumer.receive(timeout_millis=30_000)
            consumer.acknowledge(message)
            out.append(message.data().decode())
        consumer.close()
        return out
    finally:
        with_client.close()
