"""The Python side of the Java client, against a process that the test plays itself over pipes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from e2e.kind import javaclient, versions
from e2e.kind.cache import Cache
from e2e.kind.shell import CommandError, Log
from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.java import protocol
from pulsar_conformance.java.client import JavaClient, JavaMessage, JavaProcess, JavaTransaction
from pulsar_conformance.java.protocol import Connection, JavaError, JavaProcessDied, Pipes

#: Seconds after which a wait that should end has gone wrong.
PATIENCE = 10.0


class FakeProcess:
    """The other ends of the three pipes, and a connection that takes this for the Java process."""

    def __init__(self) -> None:
        requests, self._requests_in = os.pipe()
        replies_out, replies = os.pipe()
        errors_out, errors = os.pipe()
        self.requests = os.fdopen(requests, "rb")
        self.replies = os.fdopen(replies, "wb", buffering=0)
        self.errors = os.fdopen(errors, "wb", buffering=0)
        self.ended = threading.Event()
        self.killed = False
        self.status = 0
        self.pipes = Pipes(
            os.fdopen(self._requests_in, "wb"),
            os.fdopen(replies_out, "rb"),
            os.fdopen(errors_out, "rb"),
            self.wait,
            self.kill,
        )
        self.connection = Connection(self.pipes)

    def wait(self, seconds: float) -> int:
        if not self.ended.wait(seconds):
            raise TimeoutError
        return self.status

    def kill(self) -> None:
        self.killed = True
        self.end(-9)

    def request(self) -> dict[str, Any]:
        """The next request line; waits for it."""
        read: dict[str, Any] = json.loads(self.requests.readline())
        return read

    def write(self, line: str) -> None:
        self.replies.write(line.encode() + b"\n")

    def reply(self, number: int, **value: object) -> None:
        self.write(json.dumps({"id": number, "ok": value}))

    def fail(self, number: int, kind: str, message: str) -> None:
        self.write(json.dumps({"id": number, "error": {"type": kind, "message": message}}))

    def end(self, status: int = 0, last_words: str = "") -> None:
        """End as a process does: every stream closes, then its status is known."""
        if self.ended.is_set():
            return
        self.errors.write(last_words.encode())
        self.status = status
        for stream in (self.errors, self.requests, self.replies):
            stream.close()
        self.ended.set()


@pytest.fixture
def process() -> Iterator[FakeProcess]:
    fake = FakeProcess()
    yield fake
    fake.end()
    fake.connection.close(PATIENCE)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as threads:
        yield threads


def test_a_request_is_one_line_with_its_arguments_and_limit(process: FakeProcess) -> None:
    pending = process.connection.begin("producer.send", 1.5, handle="p1", data="aGk=", key=None, properties={"a": "b"})
    request = process.request()
    assert request.pop("id") == pending.number
    assert request == {
        "op": "producer.send",
        "limit_ms": 1500,
        "handle": "p1",
        "data": "aGk=",
        "properties": {"a": "b"},
    }
    process.reply(pending.number, message_id="1:2:-1:-1")
    assert pending.result(PATIENCE) == {"message_id": "1:2:-1:-1"}


def test_calls_of_many_threads_each_get_their_own_reply(process: FakeProcess, pool: ThreadPoolExecutor) -> None:
    calls = [pool.submit(process.connection.call, "echo", word=f"w{number}") for number in range(20)]
    asked = [process.request() for _ in calls]
    for request in reversed(asked):
        process.reply(request["id"], word=request["word"])
    assert [call.result(PATIENCE) for call in calls] == [{"word": f"w{number}"} for number in range(20)]


def test_a_call_that_waits_does_not_hold_up_another(process: FakeProcess) -> None:
    slow = process.connection.begin("consumer.receive")
    quick = process.connection.begin("producer.send")
    process.reply(quick.number)
    assert quick.result(PATIENCE) == {}
    assert not slow.done()
    process.reply(slow.number)
    assert slow.done(PATIENCE)


def test_an_error_has_the_type_and_the_message(process: FakeProcess) -> None:
    pending = process.connection.begin("producer.create")
    process.fail(pending.number, "ProducerFencedException", "another one has the topic")
    with pytest.raises(JavaError, match="ProducerFencedException: another one has the topic") as caught:
        pending.result(PATIENCE)
    assert (caught.value.type, caught.value.message) == ("ProducerFencedException", "another one has the topic")


def test_death_ends_what_waits_and_what_comes_later_with_the_last_words(process: FakeProcess) -> None:
    waiting = [process.connection.begin("consumer.receive") for _ in range(3)]
    process.end(3, "".join(f"line {number}\n" for number in range(100)) + "Exception: out of memory\n")
    for pending in waiting:
        with pytest.raises(JavaProcessDied, match="status 3") as caught:
            pending.result(PATIENCE)
        assert str(caught.value).endswith("line 99\nException: out of memory")
        assert "line 50\n" not in str(caught.value)
    with pytest.raises(JavaProcessDied, match="out of memory"):
        process.connection.call("ping")


def test_last_words_that_come_late_are_waited_for(process: FakeProcess) -> None:
    pending = process.connection.begin("ping")
    process.replies.close()
    process.ended.set()
    assert not pending.done(0.1)
    process.errors.write(b"the heap is full\n")
    process.errors.close()
    with pytest.raises(JavaProcessDied, match="the heap is full"):
        pending.result(PATIENCE)


def test_a_process_that_takes_no_more_requests_is_dead_too(
    process: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "GRACE", 0.05)
    process.errors.write(b"the input is gone\n")
    process.requests.close()
    with pytest.raises(JavaProcessDied, match="accepts no further requests"):
        process.connection.call("ping")


def test_what_is_no_reply_is_kept_for_the_last_words(process: FakeProcess) -> None:
    pending = process.connection.begin("ping")
    process.write("Hello from a library")
    process.write('{"id": -1, "error": {"type": "RequestException", "message": "a request is not JSON"}}')
    process.write("[]")
    process.reply(pending.number, now_ms=1)
    assert pending.result(PATIENCE) == {"now_ms": 1}
    process.end(1)
    with pytest.raises(JavaProcessDied) as caught:
        process.connection.begin("ping").result(PATIENCE)
    assert "no reply: Hello from a library" in str(caught.value)
    assert "a request is not JSON" in str(caught.value)


def test_no_reply_at_all_ends_in_a_timeout_that_names_the_operation(process: FakeProcess) -> None:
    pending = process.connection.begin("producer.flush")
    with pytest.raises(TimeoutError, match=r"producer\.flush: no reply within 0 s"):
        pending.result(0.0)


def test_cancelling_asks_for_the_request_by_its_number(process: FakeProcess, pool: ThreadPoolExecutor) -> None:
    pending = process.connection.begin("producer.create")
    process.request()
    cancelled = pool.submit(pending.cancel)
    request = process.request()
    assert (request["op"], request["target"]) == ("cancel", pending.number)
    process.fail(pending.number, "CancellationException", "cancelled")
    process.reply(request["id"], cancelled=True)
    assert cancelled.result(PATIENCE) is True
    with pytest.raises(JavaError, match="CancellationException"):
        pending.result(PATIENCE)


def test_ready_is_the_first_line(process: FakeProcess) -> None:
    process.errors.write(b"WARN still loading\n")
    with pytest.raises(TimeoutError, match="did not start within 0 s"):
        process.connection.wait_ready(0.0)
    process.reply(protocol.HELLO, java="17")
    process.connection.wait_ready(PATIENCE)


def test_a_process_that_ends_at_once_says_why(process: FakeProcess) -> None:
    process.end(1, "Error: Could not find or load main class\n")
    with pytest.raises(JavaProcessDied, match="Could not find or load main class"):
        process.connection.wait_ready(PATIENCE)


def test_closing_closes_the_input_and_waits_for_the_end(process: FakeProcess, pool: ThreadPoolExecutor) -> None:
    closing = pool.submit(process.connection.close, PATIENCE)
    assert process.requests.readline() == b""
    process.end()
    closing.result(PATIENCE)
    assert not process.killed
    with pytest.raises(JavaProcessDied, match="was closed"):
        process.connection.call("ping")


def test_closing_kills_a_process_that_does_not_end(process: FakeProcess) -> None:
    process.connection.close(0.05)
    assert process.killed


def test_a_folder_without_jars_names_the_command_that_builds_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"python -m e2e\.kind java-client"):
        JavaProcess.start(classpath=tmp_path)


def answered(process: FakeProcess, pool: ThreadPoolExecutor, **value: object) -> Any:
    """Answer the next request with this value; a future of that request."""

    def answer() -> dict[str, Any]:
        request = process.request()
        process.reply(request["id"], **value)
        return request

    return pool.submit(answer)


def test_a_message_arrives_whole_and_is_settled_by_its_number(process: FakeProcess, pool: ThreadPoolExecutor) -> None:
    client = JavaClient(process.connection, "client1", 20.0)
    asked = answered(process, pool, handle="consumer2")
    consumer = client.consumer("t", "s", type="Key_Shared", sticky_ranges=[(0, 9)], ackTimeoutMillis=1000)
    request = asked.result(PATIENCE)
    assert (request["topics"], request["sticky_ranges"]) == (["t"], [[0, 9]])
    assert (request["conf"], request["limit_ms"]) == ({"ackTimeoutMillis": 1000}, 45_000)
    told = {
        "number": 7,
        "message_id": "5:6:-1:2",
        "data": base64.b64encode(b"\x00\xff").decode(),
        "key": "k",
        "ordering_key": None,
        "properties": {"a": "b"},
        "redelivery_count": 1,
        "topic": "t",
        "publish_time_ms": 1,
        "event_time_ms": 2,
        "sequence_id": 3,
        "producer_name": "p",
        "batch_index": 2,
        "batch_size": 4,
        "received_ms": 9,
    }
    asked = answered(process, pool, message=told)
    message = consumer.receive(1500)
    assert asked.result(PATIENCE)["limit_ms"] == 6500
    assert message == JavaMessage(
        "5:6:-1:2", b"\x00\xff", "k", None, {"a": "b"}, 1, "t", 1, 2, 3, "p", 2, 4, 9, handle=7
    )
    asked = answered(process, pool)
    consumer.ack(message, transaction=JavaTransaction(process.connection, "transaction3", 20.0))
    request = asked.result(PATIENCE)
    assert (request["op"], request["handle"]) == ("consumer.ack", "consumer2")
    assert (request["message"], request["transaction"]) == (7, "transaction3")
    asked = answered(process, pool)
    assert consumer.receive(1) is None


@pytest.mark.parametrize(
    ("position", "argument"),
    [("earliest", ("position", "earliest")), ("1:2:-1:-1", ("position", "1:2:-1:-1")), (5, ("timestamp_ms", 5))],
)
def test_where_to_seek_is_told_by_its_kind(
    process: FakeProcess, pool: ThreadPoolExecutor, position: str | int, argument: tuple[str, object]
) -> None:
    asked = answered(process, pool, handle="consumer2")
    consumer = JavaClient(process.connection, "client1", 20.0).consumer("t", "s")
    asked.result(PATIENCE)
    asked = answered(process, pool)
    consumer.seek(position)
    assert asked.result(PATIENCE)[argument[0]] == argument[1]


def test_a_producer_that_need_not_wait_is_pending_with_a_connection_of_its_own(process: FakeProcess) -> None:
    client = JavaClient(process.connection, "client1", 20.0)
    pending = client.producer("t", wait=False, accessMode="WaitForExclusive")
    request = process.request()
    assert (request["own_client"], request["conf"]) == (True, {"accessMode": "WaitForExclusive"})
    assert not pending.done()
    process.reply(request["id"], handle="producer9")
    assert pending.result(PATIENCE).name == "producer9"


@pytest.mark.parametrize(
    ("transactions", "hint"), [(True, "transactionCoordinatorEnabled"), (False, "within 25000 ms")]
)
def test_a_client_without_coordinators_says_what_is_off(
    process: FakeProcess, pool: ThreadPoolExecutor, transactions: bool, hint: str
) -> None:
    making = pool.submit(
        JavaProcess(process.connection).client,
        "pulsar://x",
        access=Access(Token("hush"), Path("/ca.crt")),
        enableTransaction=transactions,
    )
    request = process.request()
    assert (request["token"], request.get("token_file")) == ("hush", None)
    assert request["conf"]["tlsTrustCertsFilePath"] == "/ca.crt" and request["conf"]["tlsHostnameVerificationEnable"]
    process.fail(request["id"], "OperationTimeoutException", "client.create gave no answer within 25000 ms")
    with pytest.raises(JavaError) as caught:
        making.result(PATIENCE)
    assert hint in str(caught.value)
    assert ("transactionCoordinatorEnabled" in str(caught.value)) is transactions
    assert "hush" not in str(caught.value)


def test_the_build_is_of_the_pinned_version_and_done_again_when_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "java"
    (sources / "src").mkdir(parents=True)
    pom = (javaclient.SOURCES / "pom.xml").read_text()
    assert f"<pulsar.version>{versions.PULSAR}</pulsar.version>" in pom
    (sources / "pom.xml").write_text(pom)
    (sources / "src" / "Main.java").write_text("class Main {}")
    monkeypatch.setattr(javaclient, "SOURCES", sources)
    library = f"pulsar-client-{versions.PULSAR}.jar"
    lock = tmp_path / "java.txt"
    lock.write_text(f"{hashlib.sha256(b'').hexdigest()}  org/apache/pulsar/pulsar-client/{versions.PULSAR}/{library}\n")
    monkeypatch.setattr(javaclient, "LOCKED", lock)
    commands: list[list[str]] = []

    def maven(_log: Log, argv: list[str], *, cwd: Path) -> None:
        commands.append(argv)
        (cwd / "target" / "lib").mkdir(parents=True)
        (cwd / "target" / "conformance-client-1.jar").write_text((cwd / "src" / "Main.java").read_text())
        (cwd / "target" / "lib" / library).touch()

    monkeypatch.setattr(Log, "run", maven)
    cache = Cache(tmp_path / "cache")
    log = Log(tmp_path / "log")
    assert not javaclient.java_client_step(cache).fresh()
    javaclient.java_client_step(cache).build(log)
    assert javaclient.java_client_step(cache).fresh()
    assert commands == [["mvn", "--batch-mode", "--quiet", f"-Dpulsar.version={versions.PULSAR}", "package"]]
    (sources / "target").mkdir()
    (sources / "target" / "left.jar").touch()
    assert javaclient.java_client_step(cache).fresh()
    (sources / "src" / "Main.java").write_text("class Main { int a; }")
    assert not javaclient.java_client_step(cache).fresh()
    javaclient.java_client_step(cache).build(log)
    assert (javaclient.java_client(cache) / "conformance-client-1.jar").read_text() == "class Main { int a; }"
    lock.write_text(lock.read_text() + f"{'0' * 64}  g/a/1/a-1.jar\n")
    with pytest.raises(CommandError, match=r"java.txt says otherwise of a-1.jar"):
        javaclient.java_client_step(cache).build(log)
