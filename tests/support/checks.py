"""Checks and clients made up for the tests of the conformance suite's machinery; no Pulsar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.context import Context, Instance, Role
from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.model import Check, CheckFailed, CheckSkipped

SECRET = "eyJhbGciOiJIUzI1NiJ9.suite"
ROLE_SECRET = "eyJhbGciOiJIUzI1NiJ9.role"


class Client:
    """Stands for a client's object: remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.name = "real"

    def subscribe(self, *args: Any, **kwargs: Any) -> str:
        """Remembered."""
        self.calls.append(("subscribe", args, kwargs))
        return "subscribed"

    def close(self) -> str:
        """Remembered."""
        self.calls.append(("close", (), {}))
        return "closed"


def make(name: str, run: Callable[[Context], str], seconds: float = 1) -> Check:
    """A check."""
    return Check(name, f"what {name} proves", ("E.reader",), run, seconds)


def fails(error: Exception) -> Callable[[Context], str]:
    """The body of a check that ends with this error."""

    def run(_context: Context) -> str:
        raise error

    return run


CHECKS = (
    make("one.passed", lambda _ctx: "3 of 3 messages"),
    make("one.failed", fails(CheckFailed("2 of 3 messages <&> \x01"))),
    make("two.error", fails(RuntimeError("connection lost"))),
    make("two.skipped", fails(CheckSkipped("needs a second cluster"))),
)
"""One of each outcome."""


def instance() -> Instance:
    """An instance nobody can reach, with secrets."""
    return Instance(
        "pulsar://p:6650",
        "http://p:8080",
        "tenant",
        "abc123",
        access=Access(Token(SECRET)),
        role=Role("nobody", Token(ROLE_SECRET)),
        version="4.0.8",
        clusters=("east",),
        brokers=("b:8080",),
        settings={"number": "12", "empty": ""},
    )
