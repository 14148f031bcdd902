"""The counting producer, consumer and run on the official Python client, in separate threads."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import pulsar

from pulsar_conformance.counting import message, simple
from pulsar_conformance.counting.ledger import Ledger
from pulsar_conformance.counting.message import Stamp
from pulsar_conformance.counting.report import Progress, Report

TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
_TICK = 0.002
_POLL_MILLIS = 200
_ALL_PARTITIONS = 1_000_000


class CountingError(RuntimeError):
    """The run could not begin; the message says what was tried, how far it came and what to check."""


class CountingProducer:
    """Publishes numbered messages at a bounded rate and reports the outcome of each to the ledger.

    The callback of ``send_async`` is called once for each message. Ok: the broker has stored it. Anything else: it may
    or may not be stored. A send timeout fails everything the client still holds, also what was sent a moment ago, and
    what the client holds at a reconnect it sends again (pulsar-client-cpp, lib/ProducerImpl.cc: handleSendTimeout,
    resendMessages). Nothing is retried here.

    ``rate`` is messages/s, ``window`` the most messages without an answer; the producer waits while it is full and does
    not catch up afterwards.
    """

    def __init__(
        self,
        producer: Any,
        ledger: Ledger,
        *,
        index: int = 0,
        rate: float = 200,
        keys: int = 16,
        size: int = 0,
        window: int = 1000,
    ) -> None:
        self._producer = producer
        self._ledger = ledger
        self._index = index
        self._rate = rate
        self._keys = keys
        self._size = size
        self._window = threading.Semaphore(window)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"counting-producer-{index}", daemon=True)

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def stop(self) -> None:
        """End publishing; answers still come in."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            self._publish()
        except Exception as error:
            self._ledger.note_error(f"producer thread ended: {type(error).__name__}: {error}")

    def _publish(self) -> None:
        due = time.monotonic()
        key = 0
        while not self._stop.is_set():
            now = time.monotonic()
            if now < due:
                self._stop.wait(max(due - now, _TICK))
                continue
            if not self._window.acquire(timeout=0.2):
                continue
            self._send(key)
            key = (key + 1) % self._keys
            due = max(due + 1 / self._rate, now - 0.1)

    def _send(self, key: int) -> None:
        stamp = self._ledger.sent(self._index, key)

        def answer(reason: str | None) -> None:
            self._window.release()
            if reason is None:
                self._ledger.confirmed(stamp)
            else:
                self._ledger.failed(stamp, reason)

        def callback(result: Any, _: object) -> None:
            # An exception that leaves a callback ends the process.
            try:
                answer(None if result == pulsar.Result.Ok else result.name)
            except Exception as error:
                self._ledger.note_error(f"send callback: {type(error).__name__}")

        try:
            self._producer.send_async(message.encode(stamp, self._size), callback, partition_key=f"key-{key}")
        except pulsar.PulsarException as error:
            answer(type(error).__name__)


class CountingConsumer:
    """Receives, reports to the ledger and acknowledges, one message at a time.

    An acknowledgement is handed to the client, which groups them; one that is lost with a connection shows as a
    duplicate. ``take`` is what a test overrides to lose or delay messages.
    """

    def __init__(self, consumer: Any, ledger: Ledger, *, index: int = 0) -> None:
        self._consumer = consumer
        self._ledger = ledger
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"counting-consumer-{index}", daemon=True)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    def stop(self) -> None:
        """End receiving; what the client has fetched and not handed out is delivered again to the next consumer."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def take(self, stamp: Stamp | None, redeliveries: int, position: int) -> None:
        """Account for one message; runs in the consumer's thread before the acknowledgement."""
        self._ledger.received(stamp, redeliveries=redeliveries, position=position)

    def _work(self) -> None:
        try:
            self._receive()
        except Exception as error:
            self._ledger.note_error(f"consumer thread ended: {type(error).__name__}: {error}")

    def _receive(self) -> None:
        while not self._stop.is_set():
            try:
                received = self._consumer.receive(timeout_millis=_POLL_MILLIS)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException as error:
                self._ledger.note_error(f"receive failed: {type(error).__name__}")
                self._stop.wait(_POLL_MILLIS / 1000)
                continue
            self.take(message.decode(received.data()), received.redelivery_count(), _position(received.message_id()))
            try:
                self._consumer.acknowledge(received)
            except pulsar.PulsarException as error:
                self._ledger.note_error(f"acknowledge failed: {type(error).__name__}")


class CountingRun:
    """Publishes and consumes while something is done to the cluster, then reports.

    ``with CountingRun(url, topic) as run:`` returns once a message came through; ``with run.operation("roll"):``
    surrounds what is done; ``run.finish()`` gives the report. At the end the subscription is removed.

    ``read_url`` is where to consume when that is another cluster. ``subscription_type`` is one of Exclusive, Failover,
    Shared, Key_Shared; Exclusive takes one consumer. ``rate`` is messages/s of all producers together. The client
    fails a send after ``send_timeout`` seconds. ``receiver_queue`` is how many messages a consumer fetches ahead.
    ``connect`` makes a client of a URL and ``consumer`` makes the counting consumer; tests replace them.
    """

    def __init__(
        self,
        service_url: str,
        topic: str,
        subscription: str = "counting",
        *,
        rate: float = 200,
        keys: int = 16,
        size: int = 0,
        producers: int = 1,
        consumers: int = 1,
        subscription_type: str = "Exclusive",
        batching: bool = False,
        read_url: str | None = None,
        authentication: pulsar.Authentication | None = None,
        trust_certs: str | None = None,
        send_timeout: float = 30,
        window: int = 1000,
        receiver_queue: int = 1000,
        start_within: float = 60,
        connect: Callable[[str], Any] | None = None,
        consumer: Callable[..., CountingConsumer] = CountingConsumer,
    ) -> None:
        if subscription_type not in TYPES:
            raise ValueError(f"subscription_type {subscription_type!r} is unknown: use one of {', '.join(TYPES)}")
        if subscription_type == "Exclusive" and consumers != 1:
            raise ValueError(f"consumers is {consumers}, and Exclusive admits one: use Failover, Shared or Key_Shared")
        if rate <= 0 or min(keys, producers, consumers, window) < 1:
            raise ValueError("rate, keys, producers, consumers and window must be positive")
        self._urls = (service_url, read_url or service_url)
        self._topic = topic
        self._subscription = subscription
        self._type = subscription_type
        self._batching = batching
        self._send_timeout = send_timeout
        self._window = window
        self._receiver_queue = receiver_queue
        self._start_within = start_within
        self._counts = (producers, consumers)
        self._load: dict[str, Any] = {"rate": rate / producers, "keys": keys, "size": size, "window": window}
        self._connect = connect or (
            lambda url: simple.client(url, authentication=authentication, trust_certs=trust_certs)
        )
        self._consumer = consumer
        self.ledger = Ledger(
            secrets.token_hex(4), topic, send_timeout=send_timeout, ordered=subscription_type != "Shared"
        )
        self._clients: list[Any] = []
        self._subscribed: list[Any] = []
        self._producers: list[CountingProducer] = []
        self._consumers: list[CountingConsumer] = []
        self._report: Report | None = None
        self._settles_at_end = False

    def __enter__(self) -> Self:
        try:
            self._open()
        except pulsar.PulsarException as error:
            self._close()
            raise CountingError(f"{self._where()}: {error}; check the topic's brokers and its permissions") from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def progress(self) -> Progress:
        """The counts so far."""
        return self.ledger.progress()

    @contextmanager
    def operation(self, name: str, *, settle_within: float | None = 120) -> Iterator[None]:
        """Surrounds what is done to the cluster: it is what explains duplicates.

        At the end it waits, at most ``settle_within`` seconds, until everything sent so far has an outcome and is
        received; a run that does not settle continues, and the report says so. None leaves this to ``finish``, and
        gives every duplicate a reason until then. An exception inside is let through.
        """
        self._settles_at_end = False
        self.ledger.operation_began(name)
        try:
            yield
        finally:
            ends = self.ledger.operation_ended()
        if settle_within is None:
            self._settles_at_end = True
        elif _wait(lambda: self.ledger.through(ends), settle_within):
            self.ledger.settled()

    def finish(self, drain_within: float = 60) -> Report:
        """End publishing, wait until every confirmed message is received, at most ``drain_within`` s, and report.

        A client that lost its connection waits up to a minute before it tries again: after a long outage give it more
        than that, or what is only late counts as lost. Called again it returns the same report.
        """
        if self._report is None:
            for producer in self._producers:
                producer.stop()
            drained = _wait(lambda: self.ledger.pending() == 0 and self.progress().behind == 0, drain_within)
            if drained and self._settles_at_end:
                self.ledger.settled()
            for consumer in self._consumers:
                consumer.stop()
            self._report = self.ledger.report()
        return self._report

    def _where(self) -> str:
        urls = " and ".join(dict.fromkeys(self._urls))
        return f"counting on {self._topic} at {urls}, subscription {self._subscription}"

    def _open(self) -> None:
        producers, consumers = self._counts
        # One connection for each direction: as with real applications one may break without the other.
        writing, reading = [self._client(url) for url in self._urls]
        for index in range(consumers):
            found = reading.subscribe(
                self._topic,
                self._subscription,
                consumer_type=TYPES[self._type],
                consumer_name=f"counting-{self.ledger.run}-{index}",
                receiver_queue_size=self._receiver_queue,
                initial_position=pulsar.InitialPosition.Latest,
            )
            self._subscribed.append(found)
            self._consumers.append(self._consumer(found, self.ledger, index=index))
        key_based = self._type == "Key_Shared"
        for index in range(producers):
            made = writing.create_producer(
                self._topic,
                send_timeout_millis=int(self._send_timeout * 1000),
                # The window of the counting producer is the limit; the client's own would fail sends.
                max_pending_messages=self._window,
                max_pending_messages_across_partitions=_ALL_PARTITIONS,
                batching_enabled=self._batching,
                # A batch goes to one consumer as a whole, so Key_Shared needs batches of one key.
                batching_type=pulsar.BatchingType.KeyBased if key_based else pulsar.BatchingType.Default,
            )
            self._producers.append(CountingProducer(made, self.ledger, index=index, **self._load))
        for receiver in self._consumers:
            receiver.start()
        for sender in self._producers:
            sender.start()
        if not _wait(lambda: self.progress().received > 0, self._start_within):
            raise CountingError(
                f"{self._where()}: no message came through in {self._start_within:.0f} s: "
                f"{self.progress().line().strip()}; {self.ledger.report().errors}; "
                "check that the topic is served and the subscription has no other consumer"
            )

    def _client(self, url: str) -> Any:
        made = self._connect(url)
        self._clients.append(made)
        return made

    def _close(self) -> None:
        """Best effort: what does not answer any more must not hide the report or the exception on its way."""
        for sender in self._producers:
            sender.stop()
        for receiver in self._consumers:
            receiver.stop()
        for consumer in self._subscribed[1:]:
            self._quietly(consumer.close)
        for consumer in self._subscribed[:1]:
            self._quietly(consumer.unsubscribe)
        for client in self._clients:
            self._quietly(client.close)
        self._clients, self._subscribed = [], []

    def _quietly(self, action: Callable[[], object]) -> None:
        try:
            action()
        except pulsar.PulsarException as error:
            self.ledger.note_error(f"close failed: {type(error).__name__}")


def _position(place: Any) -> int:
    """64 bits that stand for a message id: the same for the same entry, another for a second copy."""
    return hash((place.partition(), place.ledger_id(), place.entry_id(), place.batch_index())) & (2**64 - 1)


def _wait(probe: Callable[[], bool], within: float) -> bool:
    """True as soon as ``probe`` is, False after ``within`` seconds."""
    end = time.monotonic() + within
    while not probe():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
