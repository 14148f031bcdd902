"""The traffic that balancing needs says what failed of it, against a client in memory."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest

from e2e.support import traffic as module
from e2e.support.eventually import eventually
from e2e.support.traffic import Traffic

Answer = Callable[[Any, object], None]


class Client:
    """Client, producer and consumer at once: what is sent is answered and comes out again."""

    def __init__(self) -> None:
        self.messages: queue.Queue[bytes] = queue.Queue()
        self.kept: list[Answer] = []
        self.send: Callable[[bytes, Answer], None] = self.store
        self.receiving: Callable[[], None] = lambda: None
        self.acknowledging: Callable[[], None] = lambda: None
        self.options: dict[str, Any] = {}
        self.topics: list[str] = []
        self.shut = False

    def create_producer(self, topic: str, **options: Any) -> Client:
        self.options = options
        return self

    def subscribe(self, topics: list[str], name: str, **_: Any) -> Client:
        self.topics = topics
        return self

    def send_async(self, data: bytes, answer: Answer) -> None:
        self.send(data, answer)

    def store(self, data: bytes, answer: Answer) -> None:
        self.messages.put(data)
        answer(pulsar.Result.Ok, None)

    def receive(self, timeout_millis: int) -> bytes:
        self.receiving()
        try:
            return self.messages.get(timeout=0.01)
        except queue.Empty:
            raise pulsar.Timeout("no message") from None

    def acknowledge(self, _: bytes) -> None:
        self.acknowledging()

    def shutdown(self) -> None:
        """As the real one: what has no answer fails."""
        self.shut = True
        for answer in self.kept:
            answer(pulsar.Result.AlreadyClosed, None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_SECONDS", 0.005)
    monkeypatch.setattr(module, "POLL_MILLIS", 5)


def started(client: Client, *, send_timeout: float = 20) -> Traffic:
    return Traffic("pulsar://x", {"a": 400, "b": 400}, send_timeout=send_timeout, connect=lambda _: client)


def until(probe: Callable[[], object], what: str) -> None:
    eventually(probe, within=20, what=what, every=0.005)


def test_what_goes_through_is_counted_and_nothing_failed() -> None:
    client = Client()
    with started(client, send_timeout=7) as traffic:
        until(lambda: traffic.sent > 20 and traffic.received > 20, "messages")
        assert traffic.failures() == []
    assert traffic.failures() == [] and client.shut
    assert client.topics == ["a", "b"] and client.options["send_timeout_millis"] == 7000


def test_rates_change_while_it_runs() -> None:
    with started(Client()) as traffic:
        until(lambda: traffic.sent > 20, "messages")
        traffic.change({"a": 0, "b": 0})
        until(lambda: still(traffic), "silence")
        with pytest.raises(KeyError, match="no producer of c"):
            traffic.change({"a": 400, "c": 1})
        before = traffic.sent
        traffic.change({"a": 400})
        until(lambda: traffic.sent > before, "messages again")
    assert traffic.failures() == []


def still(traffic: Traffic) -> bool:
    """Whether nothing is sent for four of its ticks."""
    before = traffic.sent
    time.sleep(0.02)
    return traffic.sent == before


def refused(client: Client) -> None:
    """The outcome comes by the callback."""
    client.send = lambda data, answer: answer(pulsar.Result.ProducerQueueIsFull, None)


def raised(client: Client) -> None:
    def send(data: bytes, answer: Answer) -> None:
        raise pulsar.ProducerQueueIsFull("full")

    client.send = send


def fails(error: Exception) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def publisher_ends(client: Client) -> None:
    client.send = lambda data, answer: fails(ValueError("bug"))()


def consumer_ends(client: Client) -> None:
    client.receiving = fails(ValueError("bug"))


def consumer_is_closed(client: Client) -> None:
    client.receiving = fails(pulsar.AlreadyClosed("closed"))


def acknowledgement_fails(client: Client) -> None:
    client.acknowledging = fails(pulsar.NotConnected("gone"))


def nothing_comes(client: Client) -> None:
    client.send = lambda data, answer: answer(pulsar.Result.Ok, None)


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (refused, "send to a failed: ProducerQueueIsFull: "),
        (raised, "send to b failed: ProducerQueueIsFull: "),
        (refused, "nothing was sent"),
        (nothing_comes, "nothing was received"),
        (publisher_ends, "thread publish ended: ValueError: bug"),
        (consumer_ends, "thread consume ended: ValueError: bug"),
        (consumer_is_closed, "receive failed: AlreadyClosed: "),
        (acknowledgement_fails, "acknowledge failed: NotConnected: "),
    ],
)
def test_each_thing_that_fails_is_told(breaks: Callable[[Client], None], words: str) -> None:
    """In the middle of traffic that went well, and to the end of it."""
    client = Client()
    if not words.startswith("nothing"):
        with started(client, send_timeout=0.05) as traffic:
            until(lambda: traffic.sent and traffic.received, "a message")
            breaks(client)
            until(lambda: words in " ".join(traffic.failures()), words)
        both = {words, *(words.replace(f"send to {one} ", f"send to {other} ") for one, other in ("ab", "ba"))}
        assert [found for found in traffic.failures() if not found.startswith(tuple(both))] in (
            [],
            ["1 sends had no answer"],  # the one that ended the thread
        )
    else:
        breaks(client)
        with started(client) as traffic:
            until(lambda: traffic.sent or traffic.failures() != ["nothing was sent", "nothing was received"], "a send")
        assert words in traffic.failures()


def test_an_answer_may_come_while_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    def sleep(_: float) -> None:
        while client.kept:
            client.kept.pop()(pulsar.Result.Ok, None)

    with started(client) as traffic:
        until(lambda: traffic.sent and traffic.received, "a message")
        client.send = lambda data, answer: client.kept.append(answer)
        until(lambda: client.kept, "a send without an answer")
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    assert traffic.failures() == []


def test_a_send_that_is_never_answered_is_told_once_by_that_name() -> None:
    """Not by the answer the client gives when it is shut down."""
    client = Client()
    with started(client, send_timeout=0.05) as traffic:
        until(lambda: traffic.sent and traffic.received, "a message")
        client.send = lambda data, answer: client.kept.append(answer)
        until(lambda: client.kept, "a send without an answer")
        assert traffic.failures() == []
    assert traffic.failures() == [f"{len(client.kept)} sends had no answer"]
