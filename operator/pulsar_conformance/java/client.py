"""The Java client of Pulsar, for what only that client has: one warm process, used from many threads.

Settings given as ``conf`` are the fields of the Java client's ClientConfigurationData, ProducerConfigurationData and
ConsumerConfigurationData (what ``loadConf`` takes), such as ``accessMode``, ``retryEnable`` or ``ackTimeoutMillis``; a
name that is none of them raises JavaError with type RequestException.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypedDict, Unpack, overload

from pulsar_conformance.credentials import Access
from pulsar_conformance.java.protocol import Connection, JavaError, JavaMessage, JavaPending, JavaProcessDied, Pipes

__all__ = [
    "JavaClient",
    "JavaConsumer",
    "JavaError",
    "JavaMessage",
    "JavaPending",
    "JavaProcess",
    "JavaProcessDied",
    "JavaProducer",
    "JavaTransaction",
]

MAIN = "io.pulsaroperator.conformance.Main"
JVM_OPTIONS = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxDirectMemorySize=1g",
    # What Netty needs to free its buffers itself; bin/pulsar-client gives the same.
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
)
START_LIMIT = 60.0
OPERATION_LIMIT = 20.0
#: How much longer an operation may take than the client's own time limit, so that the client's error comes first.
MARGIN = 5.0
#: A producer that waits for its turn may do so for long.
WAITING_LIMIT = 600.0


class JavaProcess:
    """The process with the Java client; a context manager that ends it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    def start(cls, classpath: Path | str, java: str = "java") -> JavaProcess:
        """Start it and wait until it answers. classpath is the folder of jars that ``e2e.kind`` builds.

        Raises FileNotFoundError when there is no program or nothing was built, JavaProcessDied when it does not start.
        """
        folder = Path(classpath)
        if not any(folder.glob("*.jar")):
            raise FileNotFoundError(f"{folder} holds no jars: build them with python -m e2e.kind java-client")
        process = subprocess.Popen(
            [java, *JVM_OPTIONS, "-cp", str(folder / "*"), MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        connection = Connection(_pipes(process))
        try:
            connection.wait_ready(START_LIMIT)
        except BaseException:
            connection.close(0.0)
            raise
        return cls(connection)

    def client(self, service_url: str, *, access: Access | None = None, **conf: object) -> JavaClient:
        """A client; conf as in the module's text, such as ``enableTransaction=True``. Operations end after 20 s.

        Without transactions it is ready immediately, whether or not anything answers at the URL.
        """
        limit = _seconds(conf.get("operationTimeoutMs"), OPERATION_LIMIT)
        token = access.token if access is not None else None
        if access is not None:
            conf = {"tlsHostnameVerificationEnable": True, **conf}
        if access is not None and access.ca_file is not None:
            conf = {"tlsTrustCertsFilePath": str(access.ca_file), **conf}
        try:
            made = self._connection.call(
                "client.create",
                limit + MARGIN,
                service_url=service_url,
                token=token.text or None if token is not None else None,
                token_file=str(token.file) if token is not None and token.file is not None else None,
                conf=conf,
            )
        except JavaError as error:
            if error.type == "OperationTimeoutException" and conf.get("enableTransaction"):
                # The broker's refusal never reaches the caller of the client's builder: it tries again without end.
                hint = "no transaction coordinator took it on: is transactionCoordinatorEnabled true at the brokers?"
                raise JavaError(error.type, f"{error.message}; {hint}") from error
            raise
        return JavaClient(self._connection, made["handle"], limit)

    def now_ms(self) -> int:
        """The process's clock, in milliseconds since 1970."""
        return int(self._connection.call("ping")["now_ms"])

    def close(self) -> None:
        """End the process; it closes its clients first."""
        self._connection.close()

    def __enter__(self) -> JavaProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class _Handle:
    connection: Connection = field(repr=False)
    name: str
    #: Seconds that one operation may take by the client's own settings.
    limit: float

    def _call(self, op: str, **arguments: object) -> dict[str, Any]:
        return self.connection.call(op, self.limit + MARGIN, handle=self.name, **arguments)


@dataclass(frozen=True)
class JavaClient(_Handle):
    """A PulsarClient."""

    @overload
    def producer(
        self,
        topic: str,
        *,
        wait: Literal[True] = True,
        router: str | None = None,
        key_based_batching: bool = False,
        **conf: object,
    ) -> JavaProducer: ...

    @overload
    def producer(
        self,
        topic: str,
        *,
        wait: Literal[False],
        router: str | None = None,
        key_based_batching: bool = False,
        **conf: object,
    ) -> JavaPending[JavaProducer]: ...

    def producer(
        self,
        topic: str,
        *,
        wait: bool = True,
        router: str | None = None,
        key_based_batching: bool = False,
        **conf: object,
    ) -> JavaProducer | JavaPending[JavaProducer]:
        """A producer, once the broker has accepted it; with wait=False immediately, as pending.

        router "first" or "last" sends everything to the lowest or highest partition. A pending one (accessMode
        WaitForExclusive) may wait for ten minutes; it has a separate connection, since the client gives up waiting only
        by closing that. The broker keeps a cancelled one in its queue (waitingPublishers in the topic's stats) and
        gives it the topic for a moment when its turn comes: until then another producer may be refused.
        """
        send_limit = _seconds(conf.get("sendTimeoutMs"), OPERATION_LIMIT)
        pending = self.connection.begin(
            "producer.create",
            2 * self.limit + MARGIN if wait else WAITING_LIMIT,
            client=self.name,
            topic=topic,
            router=router,
            key_based_batching=key_based_batching,
            own_client=not wait,
            conf=conf,
        )
        made = JavaPending(
            pending, lambda reply: JavaProducer(self.connection, reply["handle"], self.limit, send_limit)
        )
        return made.result() if wait else made

    def consumer(
        self,
        topics: str | Sequence[str],
        subscription: str,
        *,
        type: str = "Exclusive",  # noqa: A002 - Pulsar's own word
        mode: str = "Durable",
        pattern: str | None = None,
        dead_letter: Mapping[str, object] | None = None,
        nack_backoff: Mapping[str, float] | None = None,
        ack_timeout_backoff: Mapping[str, float] | None = None,
        sticky_ranges: Sequence[tuple[int, int]] | None = None,
        allow_out_of_order: bool = False,
        initial_position: str = "Latest",
        **conf: object,
    ) -> JavaConsumer:
        """A consumer, once the broker has accepted it.

        With pattern (a regular expression of whole topic names) topics is empty. dead_letter: max_redeliver_count,
        dead_letter_topic, retry_letter_topic, initial_subscription_name. A back-off: min_delay_ms, max_delay_ms,
        multiplier; that of the ack timeout comes on top of ``ackTimeoutMillis``, which it needs. sticky_ranges: hash
        ranges within 0 to 65535, both ends included.

        Retry letters need ``retryEnable=True`` too. Their topic is TOPIC-SUBSCRIPTION-RETRY and that of dead letters
        TOPIC-SUBSCRIPTION-DLQ, but SUBSCRIPTION-RETRY and SUBSCRIPTION-DLQ where the client finds a topic with such an
        old name (ConsumerBuilderImpl.subscribeAsync). Pulsar's proxy (4.0) answers the first such question of a
        connection as if the topic were there, so name both topics where the name matters (check retry.default_names).
        """
        made = self.connection.call(
            "consumer.create",
            2 * self.limit + MARGIN,
            client=self.name,
            topics=[topics] if isinstance(topics, str) and topics else list(topics),
            subscription=subscription,
            type=type,
            mode=mode,
            pattern=pattern,
            dead_letter=dead_letter,
            nack_backoff=nack_backoff,
            ack_timeout_backoff=ack_timeout_backoff,
            sticky_ranges=sticky_ranges,
            allow_out_of_order=allow_out_of_order,
            initial_position=initial_position,
            conf=conf,
        )
        return JavaConsumer(self.connection, made["handle"], self.limit)

    def transaction(self, timeout_ms: int = 30000) -> JavaTransaction:
        """Begins a transaction, which the broker aborts after this time; the client needs
        ``enableTransaction=True``."""
        made = self.connection.call("transaction.begin", self.limit + MARGIN, client=self.name, timeout_ms=timeout_ms)
        return JavaTransaction(self.connection, made["handle"], self.limit)

    def close(self) -> None:
        """Close it and its producers and consumers."""
        self._call("client.close")


@dataclass(frozen=True)
class JavaTransaction(_Handle):
    """A transaction."""

    def commit(self) -> None:
        """Commit it, with every send begun before this call; JavaError when it was aborted or timed out."""
        self._call("transaction.commit")

    def abort(self) -> None:
        """Abort it."""
        self._call("transaction.abort")

    @property
    def state(self) -> str:
        """What the client thinks of it: OPEN, COMMITTING, ABORTING, COMMITTED, ABORTED, ERROR or TIME_OUT."""
        return str(self._call("transaction.state")["state"])

    @property
    def id(self) -> str:
        """Its number, as the broker's admin API writes it: (most significant bits,least significant bits)."""
        return str(self._call("transaction.id")["id"])


class SendOptions(TypedDict, total=False):
    """What a message may have beside its data; event_time in milliseconds since 1970."""

    key: str | None
    ordering_key: str | None
    properties: Mapping[str, str] | None
    event_time: int | None
    sequence_id: int | None
    deliver_after_ms: int | None
    transaction: JavaTransaction | None


@dataclass(frozen=True)
class JavaProducer(_Handle):
    """A producer."""

    #: Seconds after which the client gives a message up; without a time limit (0) the process still waits no longer
    #: than WAITING_LIMIT.
    send_limit: float

    def send(self, data: bytes, **options: Unpack[SendOptions]) -> str:
        """Send a message and wait for the broker; its id, as JavaMessage has it."""
        return self.send_async(data, **options).result()

    def send_async(self, data: bytes, **options: Unpack[SendOptions]) -> JavaPending[str]:
        """Begin to send a message; those of one thread keep their order. Its result is the message's id."""
        transaction = options.pop("transaction", None)
        pending = self.connection.begin(
            "producer.send",
            self.send_limit + MARGIN if self.send_limit else WAITING_LIMIT,
            handle=self.name,
            data=base64.b64encode(data).decode(),
            transaction=transaction.name if transaction else None,
            **options,
        )
        return JavaPending(pending, lambda reply: str(reply["message_id"]))

    def flush(self) -> None:
        """Send what waits for its batch to fill, and wait until the broker has all messages so far."""
        self._call("producer.flush")

    def last_sequence_id(self) -> int:
        """The sequence id of the last message that the broker has, before that the producer's first one minus 1."""
        return int(self._call("producer.last_sequence_id")["sequence_id"])

    def connected(self) -> bool:
        """Whether the client thinks that it is connected to a broker."""
        return bool(self._call("producer.connected")["connected"])

    def close(self) -> None:
        """Close it."""
        self._call("producer.close")


@dataclass(frozen=True)
class JavaConsumer(_Handle):
    """A consumer. Acknowledgements wait for the broker only with ``ackReceiptEnabled=True``."""

    def receive(self, timeout_ms: int) -> JavaMessage | None:
        """Returns the next message, or None if there is none within this time."""
        reply = self.connection.call(
            "consumer.receive", timeout_ms / 1000 + MARGIN, handle=self.name, timeout_ms=timeout_ms
        )
        return JavaMessage.of(reply["message"]) if "message" in reply else None

    def ack(self, message: JavaMessage, *, transaction: JavaTransaction | None = None) -> None:
        """Acknowledge one message."""
        self._call("consumer.ack", message=message.handle, transaction=transaction.name if transaction else None)

    def ack_cumulative(self, message: JavaMessage) -> None:
        """Acknowledge this message and all before it."""
        self._call("consumer.ack_cumulative", message=message.handle)

    def nack(self, message: JavaMessage) -> None:
        """Ask for the message again, after the time that nack_backoff or negativeAckRedeliveryDelayMicros says."""
        self._call("consumer.nack", message=message.handle)

    def reconsume_later(self, message: JavaMessage, delay_ms: int, properties: Mapping[str, str] | None = None) -> None:
        """Send the message to the retry letter topic, to be delivered after the delay, and acknowledge it."""
        self._call("consumer.reconsume_later", message=message.handle, delay_ms=delay_ms, properties=properties)

    def redeliver_unacknowledged(self) -> None:
        """Ask for all messages again that this consumer has and did not acknowledge."""
        self._call("consumer.redeliver_unacknowledged")

    def seek(self, position: str | int | JavaMessage) -> None:
        """Move the subscription: "earliest", "latest", a message, a message id as text, or a publish time in ms.

        An id as text holds no topic, so it does for a consumer of one topic without partitions only.
        """
        if isinstance(position, JavaMessage):
            self._call("consumer.seek", message=position.handle)
        elif isinstance(position, int):
            self._call("consumer.seek", timestamp_ms=position)
        else:
            self._call("consumer.seek", position=position)

    def pause(self) -> None:
        """Asks the broker for no further messages; received ones are still delivered."""
        self._call("consumer.pause")

    def resume(self) -> None:
        """Continues after pause."""
        self._call("consumer.resume")

    def connected(self) -> bool:
        """Whether the client thinks that it is connected to a broker."""
        return bool(self._call("consumer.connected")["connected"])

    def unsubscribe(self) -> None:
        """Removes the subscription; the consumer cannot be used after that."""
        self._call("consumer.unsubscribe")

    def close(self) -> None:
        """Close it; the subscription stays when it is durable."""
        self._call("consumer.close")


def _seconds(milliseconds: object, otherwise: float) -> float:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else otherwise


def _pipes(process: subprocess.Popen[bytes]) -> Pipes:
    assert process.stdin and process.stdout and process.stderr  # all three were asked for

    def wait(seconds: float) -> int:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"the process {process.pid} still runs after {seconds:g} s") from error

    return Pipes(process.stdin, process.stdout, process.stderr, wait, process.kill)
