"""JSON lines to and from one process: requests from many threads, replies by number, its end reported to all."""

from __future__ import annotations

import base64
import concurrent.futures
import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, Generic, TypeVar

#: The number of the line that the process writes once it reads requests.
HELLO = 0
#: How much later than the limit given to the process the waiting ends here, in seconds.
GRACE = 10.0
KEPT_LINES = 40

Value = TypeVar("Value")


class JavaError(Exception):
    """An operation that failed: type is the simple class name of the Java exception, message its text.

    Types of the process's own: RequestException for a call that cannot be done as written (an unknown setting, a closed
    handle), OperationTimeoutException for no answer within the call's limit, CancellationException after a cancel.
    """

    def __init__(self, type: str, message: str) -> None:  # noqa: A002 - the protocol's own word
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message


class JavaProcessDied(RuntimeError):  # noqa: N818 - what happened, not what kind of thing it is
    """The process has ended; the text holds the last lines of its standard error."""


@dataclass(frozen=True)
class Pipes:
    """A running process: its three streams, and how to wait for its end (seconds; TimeoutError) and to kill it."""

    requests: IO[bytes]
    replies: IO[bytes]
    errors: IO[bytes]
    wait: Callable[[float], int]
    kill: Callable[[], None]


@dataclass(frozen=True)
class Pending:
    """One request on its way."""

    connection: Connection
    number: int
    limit: float
    what: str
    future: concurrent.futures.Future[dict[str, Any]]

    def done(self, within: float = 0.0) -> bool:
        """Whether it has ended, with or without success; waits up to this number of seconds."""
        concurrent.futures.wait([self.future], timeout=within)
        return self.future.done()

    def result(self, within: float | None = None) -> dict[str, Any]:
        """The reply; JavaError or JavaProcessDied, or TimeoutError if there is none within this number of seconds.

        Without a number it waits for as long as the process itself may take, and a little longer.
        """
        patience = self.limit + GRACE if within is None else within
        if not self.done(patience):
            raise TimeoutError(f"{self.what}: no reply within {patience:g} s")
        return self.future.result()

    def cancel(self) -> bool:
        """Give the request up; False when it had ended already. Its result is then a CancellationException."""
        return bool(self.connection.call("cancel", target=self.number)["cancelled"])


class Connection:
    """The requests and replies of one process. Safe for use from many threads."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes
        self._numbers = itertools.count(HELLO + 1)
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._waiting: dict[int, concurrent.futures.Future[dict[str, Any]]] = {}
        self._hello: concurrent.futures.Future[dict[str, Any]] = concurrent.futures.Future()
        self._waiting[HELLO] = self._hello
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._death: JavaProcessDied | None = None
        self._closing = False
        self._error_reader = threading.Thread(target=self._read_errors, name="java-errors", daemon=True)
        self._reader = threading.Thread(target=self._read_replies, name="java-replies", daemon=True)
        self._error_reader.start()
        self._reader.start()

    def wait_ready(self, within: float) -> None:
        """Waits for the process's first line; raises JavaProcessDied, or TimeoutError after this number of seconds."""
        try:
            self._hello.result(within)
        except TimeoutError as error:
            raise TimeoutError(f"the Java process did not start within {within:g} s{self._tail()}") from error

    def begin(self, op: str, limit: float = 25.0, **arguments: object) -> Pending:
        """Sends a request for which the process may take this number of seconds. Arguments that are None are left
        out."""
        number = next(self._numbers)
        given = {name: value for name, value in arguments.items() if value is not None}
        line = json.dumps({"id": number, "op": op, "limit_ms": round(limit * 1000), **given}).encode() + b"\n"
        future: concurrent.futures.Future[dict[str, Any]] = concurrent.futures.Future()
        with self._lock:
            if self._death is not None:
                raise JavaProcessDied(str(self._death))
            self._waiting[number] = future
        try:
            with self._write_lock:
                self._pipes.requests.write(line)
                self._pipes.requests.flush()
        except (OSError, ValueError):
            # The end of the process closes both directions, and the reader of replies knows more about it.
            self._reader.join(GRACE)
            with self._lock:
                unanswered = self._waiting.pop(number, None) is not None
            if unanswered:
                future.set_exception(JavaProcessDied(f"the Java process accepts no further requests{self._tail()}"))
        return Pending(self, number, limit, op, future)

    def call(self, op: str, limit: float = 25.0, **arguments: object) -> dict[str, Any]:
        """Send a request and wait for its reply; JavaError, JavaProcessDied, or TimeoutError without any reply."""
        return self.begin(op, limit, **arguments).result()

    def close(self, within: float = 15.0) -> None:
        """Closes the process's input, which ends it; kills it if that takes longer than this number of seconds."""
        with self._lock:
            self._closing = True
        with suppress(OSError, ValueError), self._write_lock:
            self._pipes.requests.close()
        try:
            self._pipes.wait(within)
        except TimeoutError:
            self._pipes.kill()
            self._pipes.wait(within)
        for thread, stream in ((self._reader, self._pipes.replies), (self._error_reader, self._pipes.errors)):
            thread.join(within)
            if not thread.is_alive():
                stream.close()

    def _read_replies(self) -> None:
        for line in self._pipes.replies:
            self._take(line)
        # The last words explain the death best, so they are read to the end first.
        self._error_reader.join(GRACE)
        status = self._status()
        with self._lock:
            text = "the Java process was closed" if self._closing else f"the Java process ended{status}{self._tail()}"
            self._death = JavaProcessDied(text)
            left = list(self._waiting.values())
            self._waiting.clear()
        for future in left:
            future.set_exception(JavaProcessDied(text))

    def _status(self) -> str:
        try:
            return f" with status {self._pipes.wait(GRACE)}"
        except TimeoutError:
            return " its replies but still runs"

    def _take(self, line: bytes) -> None:
        try:
            reply = json.loads(line)
            number = reply["id"]
        except (ValueError, TypeError, KeyError):
            self._last_lines.append(f"no reply: {line.decode(errors='replace').rstrip()}")
            return
        with self._lock:
            future = self._waiting.pop(number, None)
        if future is None:
            self._last_lines.append(f"reply to nothing: {line.decode(errors='replace').rstrip()}")
        elif "error" in reply:
            future.set_exception(JavaError(str(reply["error"].get("type")), str(reply["error"].get("message"))))
        else:
            future.set_result(reply.get("ok"))

    def _read_errors(self) -> None:
        for line in self._pipes.errors:
            self._last_lines.append(line.decode(errors="replace").rstrip())

    def _tail(self) -> str:
        lines = list(self._last_lines)
        return "; its last lines:\n" + "\n".join(lines) if lines else "; it wrote nothing to its standard error"


@dataclass(frozen=True)
class JavaMessage:
    """A received message; handle is what the process knows it by, and any consumer of the process may settle it.

    id is ``ledger:entry:partition:place in the batch``, -1 for what is not there. received_ms is the clock of the Java
    process when receive returned.
    """

    id: str
    data: bytes = field(repr=False)
    key: str | None
    ordering_key: str | None
    properties: Mapping[str, str]
    redelivery_count: int
    topic: str
    publish_time_ms: int
    event_time_ms: int
    sequence_id: int
    producer_name: str
    batch_index: int
    batch_size: int
    received_ms: int
    handle: int = field(repr=False)

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> JavaMessage:
        """The message in a reply."""
        same = {name: reply[name] for name in cls.__dataclass_fields__ if name not in ("id", "data", "handle")}
        return cls(id=reply["message_id"], data=base64.b64decode(reply["data"]), handle=reply["number"], **same)


@dataclass(frozen=True)
class JavaPending(Generic[Value]):
    """Something that is not there yet: a send, or a producer that waits for its turn."""

    pending: Pending
    wrap: Callable[[Mapping[str, Any]], Value]

    def done(self, within: float = 0.0) -> bool:
        """Whether it has ended, with or without success; waits up to this number of seconds."""
        return self.pending.done(within)

    def result(self, within: float | None = None) -> Value:
        """Returns the result; raises JavaError if it failed, TimeoutError if it has not ended within this number of
        seconds."""
        return self.wrap(self.pending.result(within))

    def cancel(self) -> bool:
        """Give it up: True when it had not ended. A waiting producer leaves the queue; a message may still be sent."""
        return self.pending.cancel()
