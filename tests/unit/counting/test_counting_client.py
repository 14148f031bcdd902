"""The counting run against a topic in memory that loses, repeats and refuses on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from e2e.support.eventually import eventually
from pulsar_conformance.counting import __main__ as command
from pulsar_conformance.counting.client import CountingConsumer, CountingError
from pulsar_conformance.counting.message import Stamp
from tests.fakes.pulsar_client import Topic, counting, sent


@pytest.fixture
def topic() -> Topic:
    return Topic()


def test_clean_run_counts_everything_once_and_removes_its_subscription(topic: Topic) -> None:
    with counting(topic, size=200) as run:
        sent(run, 200)
        report = run.finish(20)
        assert run.finish(20) is report
    assert report.sent == report.confirmed == report.received == topic.acknowledged >= 200
    assert report.violations() == [] and (report.duplicated, report.out_of_order, report.foreign) == (0, 0, 0)
    assert report.errors == {}
    assert topic.calls == ["subscribe t counting", "producer t", "unsubscribe", "close", "close"]


def test_rate_is_a_bound(topic: Topic) -> None:
    """Holds on a slow machine too: it only ever sends less."""
    with counting(topic, rate=50) as run:
        sent(run, 20)
        report = run.finish(20)
    assert report.sent <= 50 * report.seconds + 50 * 0.1 + 1


class Forgetful(CountingConsumer):
    """Loses number 7 of every key."""

    def take(self, stamp: Stamp | None, redeliveries: int, position: int) -> None:
        if stamp is not None and stamp.number != 7:
            super().take(stamp, redeliveries, position)


def test_messages_the_consumer_skips_are_reported_lost(topic: Topic) -> None:
    with counting(topic, consumer=Forgetful) as run:
        sent(run, 60)
        report = run.finish(0.2)
    assert report.lost == 4
    assert {(example.key, example.number) for example in report.lost_examples} == {(key, 7) for key in range(4)}
    assert len(report.violations()) == 1


def test_confirmed_and_not_stored_is_lost(topic: Topic) -> None:
    topic.store = lambda stamp, data: stamp.number % 5 != 4
    with counting(topic) as run:
        sent(run, 40)
        report = run.finish(0.2)
    assert report.lost >= 4 and report.received + report.lost == report.sent


def test_failed_sends_are_unconfirmed_stored_or_not(topic: Topic) -> None:
    topic.store = lambda stamp, data: stamp.number % 5 != 4
    topic.answer = lambda stamp: pulsar.Result.Timeout if stamp.number % 5 >= 3 else pulsar.Result.Ok
    with counting(topic) as run:
        sent(run, 60)
        report = run.finish(20)
    assert report.violations() == []
    assert report.unconfirmed == report.errors["send failed: Timeout"] >= 20
    assert 0 < report.unconfirmed_received < report.unconfirmed


def test_duplicates_are_explained_by_an_operation_only(topic: Topic) -> None:
    again = threading.Event()

    def store(stamp: Stamp, data: bytes) -> bool:
        if again.is_set():
            again.clear()
            topic.add(data)
        return True

    def once_more() -> None:
        again.set()
        eventually(lambda: not again.is_set(), within=20, what="one stored twice", every=0.01)

    topic.store = store
    with counting(topic) as run:
        with run.operation("unload", settle_within=20):
            once_more()
        report = run.finish(20)
    assert (report.duplicated, report.stored_twice, report.unprovoked) == (1, 1, 0)
    assert report.operations[0].name == "unload" and report.operations[0].settled is not None
    assert report.violations() == []

    with counting(topic) as run:
        once_more()
        report = run.finish(20)
    assert (report.duplicated, report.unprovoked, len(report.violations())) == (1, 1, 1)


def test_operation_that_fails_is_let_through_and_reported_unsettled(topic: Topic) -> None:
    with counting(topic) as run:
        with pytest.raises(OSError, match="boom"), run.operation("roll"):
            raise OSError("boom")
        report = run.finish(20)
    assert report.operations[0].ended is not None and report.operations[0].settled is None
    assert topic.calls[-3:] == ["unsubscribe", "close", "close"]


def test_operation_settles_only_when_everything_before_it_came_through(topic: Topic) -> None:
    with counting(topic) as run:
        with run.operation("kill", settle_within=0.1):
            topic.store = lambda stamp, data: False
            lost_from = run.progress().sent
            sent(run, lost_from + 5)
        report = run.finish(0.1)
    assert report.operations[0].ended is not None and report.operations[0].settled is None
    assert report.lost >= 4


def test_window_stops_the_producer_while_nothing_is_answered(topic: Topic) -> None:
    with counting(topic, window=10) as run:
        topic.silent = True
        eventually(lambda: run.ledger.pending() == 10, within=20, what="a full window", every=0.01)
        report = run.finish(0.2)
    assert report.unconfirmed == 10 and report.lost == 0


def test_messages_of_others_are_foreign(topic: Topic) -> None:
    topic.add(b"something else")
    topic.add(b"counting|other|0|0|0|0|")
    with counting(topic) as run:
        report = run.finish(20)
    assert report.foreign == 2 and report.violations() == []


def test_receive_errors_are_counted_and_ridden_through(topic: Topic) -> None:
    errors: Iterator[Exception] = iter([pulsar.ConnectError("gone"), pulsar.AlreadyClosed("closed")])

    def receiving() -> None:
        for error in errors:
            raise error

    topic.receiving = receiving
    with counting(topic) as run:
        report = run.finish(20)
    assert report.errors == {"receive failed: ConnectError": 1, "receive failed: AlreadyClosed": 1}
    assert report.lost == 0


def test_consumer_that_ends_says_so(topic: Topic) -> None:
    class Broken(CountingConsumer):
        def take(self, stamp: Stamp | None, redeliveries: int, position: int) -> None:
            super().take(stamp, redeliveries, position)
            raise KeyError("bug")

    with counting(topic, consumer=Broken) as run:
        sent(run, 20)
        report = run.finish(0.2)
    assert report.received == 1 and report.errors == {"consumer thread ended: KeyError: 'bug'": 1}


def test_run_begins_when_a_message_came_through(topic: Topic) -> None:
    topic.answer = lambda stamp: pulsar.Result.AuthorizationError
    topic.store = lambda stamp, data: False
    with pytest.raises(
        CountingError, match=r"counting on t at pulsar://nowhere.*AuthorizationError.*no other consumer"
    ):
        counting(topic, start_within=0.1).__enter__()
    assert topic.calls[-3:] == ["unsubscribe", "close", "close"]


def test_refused_subscription_names_topic_and_url(topic: Topic) -> None:
    def subscribe(*_: Any, **__: Any) -> Any:
        raise pulsar.ConsumerBusy("Exclusive consumer is already connected")

    topic.subscribe = subscribe  # type: ignore[method-assign]
    with pytest.raises(CountingError, match=r"counting on t at pulsar://nowhere, subscription counting: Exclusive"):
        counting(topic).__enter__()
    assert topic.calls == ["close", "close"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscription_type": "KeyShared"}, "'KeyShared' is unknown: use one of Exclusive"),
        ({"consumers": 2}, "consumers is 2, and Exclusive admits one"),
        ({"rate": 0}, "must be positive"),
    ],
)
def test_wrong_arguments_are_refused(topic: Topic, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        counting(topic, **options)


def test_key_shared_batches_by_key(topic: Topic) -> None:
    with counting(topic, subscription_type="Key_Shared", consumers=3, producers=2, batching=True) as run:
        sent(run, 20)
        report = run.finish(20)
    assert report.violations() == []
    assert topic.subscribed["consumer_type"] == pulsar.ConsumerType.KeyShared
    assert topic.produced["batching_type"] == pulsar.BatchingType.KeyBased and topic.produced["batching_enabled"]
    assert topic.calls[5:] == ["close", "close", "unsubscribe", "close", "close"]


def test_command_reports_and_exits_by_loss(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("pulsar_conformance.counting.simple.client", lambda url, **options: topic)
    file = tmp_path / "report.json"
    argv = ["--service-url", "u", "--topic", "t", "--seconds", "0.1", "--drain", "0.3", "--json", str(file)]
    assert command.main(argv) == 0
    out = capsys.readouterr().out
    assert "behind" in out and "longest delivery pause" in out
    written = json.loads(file.read_text())
    assert written["lost"] == 0 and written["operations"][0]["name"] == "by hand"

    # The first message of each key opens the run, the others are lost.
    topic.store = lambda stamp, data: stamp.number == 0
    assert command.main([*argv, "--rate", "1000"]) == 1
    assert command.main([*argv, "--rate", "0"]) == 2
    assert "rate" in capsys.readouterr().err
