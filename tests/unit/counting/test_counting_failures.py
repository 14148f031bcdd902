"""Nothing failed is a claim about every counter: each alone is a failure, and what a reconnect explains is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import pulsar
import pytest

from e2e.support.eventually import eventually
from pulsar_conformance.counting import __main__ as command
from pulsar_conformance.counting.client import CountingConsumer
from pulsar_conformance.counting.ledger import Ledger
from pulsar_conformance.counting.message import Stamp
from pulsar_conformance.counting.report import Example, Operation, Pause, Report
from tests.fakes.pulsar_client import Topic, counting, sent


def clean(**facts: Any) -> Report:
    """Ten messages through an operation that settled."""
    ledger = Ledger("run", "topic", clock=lambda: 5.0, **facts)
    ledger.operation_began("roll")
    for number in range(10):
        stamp = ledger.sent(0, 0)
        ledger.confirmed(stamp)
        ledger.received(stamp, position=number)
    ledger.operation_ended()
    ledger.settled()
    return ledger.report()


FAILED: dict[str, tuple[dict[str, Any], str]] = {
    "sent": ({"sent": 0}, "nothing was sent"),
    "received": ({"received": 0}, "nothing was received"),
    "unconfirmed": ({"unconfirmed": 3}, "3 of 10 sends were not confirmed"),
    "lost": (
        {"lost": 2, "lost_examples": (Example(0, 1, 7),)},
        "2 confirmed messages were not received, first producer 0 key 1 number 7",
    ),
    "unprovoked": (
        {"unprovoked": 1, "unprovoked_examples": (Example(0, 0, 4, 2.0),)},
        "1 messages came again while nothing was done to the cluster, first producer 0 key 0 number 4 at 2.0 s",
    ),
    "out_of_order": ({"out_of_order": 4, "out_of_order_keys": {3: 4}}, "4 messages were out of order, key 3: 4"),
    "foreign": ({"foreign": 1}, "1 messages of others arrived"),
    "publish_pause": (
        {"publish_pause": Pause(30, 2.5)},
        "no send was confirmed for 30.000 s from 2.5 s on, and the send timeout is 30 s",
    ),
    "operations, no end": ({"operations": (Operation("roll", 0),)}, "operation roll did not end"),
    "operations, not settled": (
        {"operations": (Operation("roll", 0, 4), Operation("kill", 5, 6, 7))},
        "operation roll did not settle",
    ),
    "errors": ({"errors": {"receive failed: AlreadyClosed": 2}}, "receive failed: AlreadyClosed: 2 times"),
}
"""One counter alone, and the sentence; the counter's name is the first word of the key."""

ALLOWED: dict[str, Any] = {
    "unconfirmed_received": 1,
    "duplicated": 5,
    "stored_twice": 5,
    "duplicated_examples": (Example(0, 0, 1, 1.0),),
    "redelivered": 5,
    "publish_rate": 0.1,
    "delivery_rate": 0.1,
    "delivery_pause": Pause(90, 0),
    "key_publish_pause": Pause(90, 0, 1),
    "key_delivery_pause": Pause(90, 0, 1),
    "seconds": 900.0,
}
"""What an operation that settled explains, what another counter sees, or what is no matter of right and wrong."""

FACTS = {"run", "topic", "confirmed", "latency", "send_timeout", "ordered"}
"""Neither: what the run was, and counts that follow from others."""


def test_every_counter_is_judged() -> None:
    """A new field of the report has to be put into one of the tables."""
    examples = {"lost_examples", "unprovoked_examples", "out_of_order_keys"}
    judged = {key.split(",")[0] for key in FAILED} | set(ALLOWED) | FACTS | examples
    assert judged == {field.name for field in fields(Report)}


@pytest.mark.parametrize("counter", FAILED)
def test_each_counter_alone_is_a_failure(counter: str) -> None:
    change, sentence = FAILED[counter]
    report = replace(clean(), **change)
    assert report.failures() == [sentence]
    word = "VIOLATION" if counter in ("lost", "unprovoked") else "FAILED"
    assert [line for line in report.text().splitlines() if ": " in line[:12]] == [f"{word}: {sentence}"]
    assert report.violations() == ([sentence] if word == "VIOLATION" else [])
    data = json.loads(json.dumps(report.as_json()))
    assert (data["failures"], data["violations"]) == (report.failures(), report.violations())


def test_what_a_reconnect_explains_is_no_failure() -> None:
    assert clean().failures() == []
    assert replace(clean(), **ALLOWED).failures() == []


def test_all_failures_are_told_at_once_violations_first() -> None:
    everything: dict[str, Any] = {}
    for change, _ in FAILED.values():
        everything |= change
    report = replace(clean(), **everything | {"sent": 10, "received": 10, "operations": ()})
    assert len(report.failures()) == len(FAILED) - 4
    assert report.failures()[:2] == report.violations()


@pytest.mark.parametrize(
    ("timeout", "pause", "failed"), [(30, 29.999, False), (30, 30.0, True), (2.5, 2.5, True), (0, 1e6, False)]
)
def test_pause_is_measured_by_the_send_timeout_of_the_run(timeout: float, pause: float, failed: bool) -> None:
    report = replace(clean(send_timeout=timeout), publish_pause=Pause(pause, 1))
    assert bool(report.failures()) is failed
    assert f"{pause:.3f} s  at 1.0 s, send timeout {timeout:g} s" in report.text()


def test_no_order_is_promised_to_shared_subscriptions() -> None:
    assert replace(clean(ordered=False), out_of_order=4).failures() == []


@pytest.mark.parametrize(
    ("kind", "failed"), [("Exclusive", True), ("Failover", True), ("Key_Shared", True), ("Shared", False)]
)
def test_order_is_judged_by_the_subscription_type(kind: str, failed: bool) -> None:
    """The topic hands out number 3 of each key after number 4."""
    topic, held = Topic(), {}

    def store(stamp: Stamp, data: bytes) -> bool:
        if stamp.number == 3:
            held[stamp.key] = data
        elif stamp.number == 4:
            topic.add(data)
            topic.add(held[stamp.key])
        return stamp.number not in (3, 4)

    topic.store = store
    with counting(topic, subscription_type=kind) as run:
        sent(run, 40)
        report = run.finish(20)
    assert report.out_of_order == 4
    assert report.failures() == (
        ["4 messages were out of order, key 0: 1, key 1: 1, key 2: 1, key 3: 1"] if failed else []
    )


def test_a_roll_in_which_every_send_times_out_fails() -> None:
    """Nothing is lost and nothing comes twice, so that there is no violation."""
    topic = Topic()
    with counting(topic, send_timeout=7) as run:
        with run.operation("roll", settle_within=20):
            topic.store = lambda stamp, data: False
            topic.answer = lambda stamp: pulsar.Result.Timeout
            sent(run, run.progress().sent + 50)
        report = run.finish(20)
    assert report.violations() == []
    assert report.send_timeout * 1000 == topic.produced["send_timeout_millis"]
    assert [failure for failure in report.failures() if failure.startswith("send failed: Timeout")], report.text()
    assert f"{report.unconfirmed} of {report.sent} sends were not confirmed" in report.failures()


def producer_ends(topic: Topic) -> None:
    def store(stamp: Stamp, data: bytes) -> bool:
        if stamp.number > 5:
            raise RuntimeError("bug")
        return True

    topic.store = store


def consumer_is_closed(topic: Topic) -> None:
    errors: Iterator[Exception] = iter([pulsar.AlreadyClosed("closed")])

    def receiving() -> None:
        for error in errors:
            raise error

    topic.receiving = receiving


def acknowledgement_fails(topic: Topic) -> None:
    def acknowledge(_: object) -> None:
        raise pulsar.NotConnected("not connected")

    topic.acknowledge = acknowledge  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (producer_ends, "producer thread ended: RuntimeError: bug: 1 times"),
        (consumer_is_closed, "receive failed: AlreadyClosed: 1 times"),
        (acknowledgement_fails, "acknowledge failed: NotConnected: "),
    ],
)
def test_clients_that_are_told_of_an_error_fail_the_run(breaks: Callable[[Topic], None], words: str) -> None:
    topic = Topic()
    breaks(topic)
    with counting(topic) as run:
        eventually(lambda: words in " ".join(run.ledger.report().failures()), within=20, what=words, every=0.01)
        report = run.finish(0.5)
    assert [failure for failure in report.failures() if failure.startswith(words)]
    assert report.violations() == []


def test_closing_comes_after_the_report() -> None:
    """A consumer that cannot be closed any more says nothing about the messages."""
    topic = Topic()

    def unsubscribe() -> None:
        raise pulsar.AlreadyClosed("closed")

    topic.unsubscribe = unsubscribe  # type: ignore[method-assign]
    with counting(topic) as run:
        report = run.finish(20)
    assert run.ledger.report().errors == {"close failed: AlreadyClosed": 1}
    assert report.failures() == []


def test_an_operation_may_settle_at_the_end_of_the_run() -> None:
    topic = Topic()
    with counting(topic) as run:
        with run.operation("by hand", settle_within=None):
            sent(run, 20)
        report = run.finish(20)
    assert report.operations[0].settled is not None and report.failures() == []

    with counting(topic, consumer=Deaf) as run:
        with run.operation("by hand", settle_within=None):
            sent(run, 20)
        report = run.finish(0.1)
    assert report.operations[0].settled is None and "operation by hand did not settle" in report.failures()


class Deaf(CountingConsumer):
    """Loses number 2 of every key."""

    def take(self, stamp: Stamp | None, redeliveries: int, position: int) -> None:
        if stamp is not None and stamp.number != 2:
            super().take(stamp, redeliveries, position)


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--strict"], 1)])
def test_command_exits_by_violations_or_when_asked_by_failures(
    flags: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = Topic()
    monkeypatch.setattr("pulsar_conformance.counting.simple.client", lambda url, **options: topic)
    argv = ["--service-url", "u", "--topic", "t", "--seconds", "0.2", "--drain", "20", *flags]
    assert command.main(argv) == 0
    assert "FAILED" not in capsys.readouterr().out
    topic.answer = lambda stamp: pulsar.Result.Timeout if stamp.number % 2 else pulsar.Result.Ok
    assert command.main([*argv, "--rate", "1000"]) == code
    assert "FAILED: send failed: Timeout" in capsys.readouterr().out


def test_command_exits_by_loss_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    monkeypatch.setattr("pulsar_conformance.counting.simple.client", lambda url, **options: topic)
    topic.store = lambda stamp, data: stamp.number == 0
    argv = ["--service-url", "u", "--topic", "t", "--seconds", "0.2", "--drain", "0.1", "--rate", "1000"]
    assert command.main([*argv, "--strict"]) == 1
