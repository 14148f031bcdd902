"""What a test sees of the calls of the API server in memory, and where it puts faults."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.fakes.values import Value


@dataclass(frozen=True)
class Call(Value):
    """One call of the port, as the fault hooks see it."""

    verb: str
    """get, list, apply, apply_status, create, delete, evict, ..."""
    kind: str
    namespace: str | None
    name: str | None

    @property
    def is_write(self) -> bool:
        """Whether the call may change something."""
        return self.verb not in ("get", "list")


Hook = Callable[[Call], Awaitable[None] | None]
"""Raises what the call shall fail with; as ``before`` nothing happened, as ``after`` it took effect."""


@dataclass(frozen=True)
class RecordedEvent(Value):
    """An event the operator recorded."""

    kind: str
    """Normal or Warning"""
    reason: str
    message: str
    object_kind: str
    object_name: str


class Hooked(Protocol):
    """What has calls, and hooks around them."""

    before: list[Hook]
    after: list[Hook]
    calls: list[Call]


class Faults:
    """Records a call and runs the hooks around it."""

    def __init__(self, fake: Hooked, call: Call) -> None:
        self._fake = fake
        self._call = call

    async def __aenter__(self) -> Call:
        self._fake.calls.append(self._call)
        await self._run(self._fake.before)
        return self._call

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            await self._run(self._fake.after)

    async def _run(self, hooks: list[Hook]) -> None:
        for hook in list(hooks):
            result = hook(self._call)
            if inspect.isawaitable(result):
                await result
