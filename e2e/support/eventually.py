"""Waiting for a fact with a deadline; the only way tests and the demo wait."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]
RETRIED = (AssertionError, OSError, RuntimeError)
"""Errors of a look that may be others a moment later. Any other error ends the waiting."""
LOCAL = 0.05
"""Seconds between two looks at something on this machine, where a look costs next to nothing."""


class _Wait:
    """What was awaited, until when, and what was seen last."""

    def __init__(self, within: float, what: str, clock: Callable[[], float]) -> None:
        self._within, self._what, self._clock = within, what, clock
        self._end = clock() + within
        self._last: object = None

    def on(self, last: object) -> None:
        """Take down what was seen. Raises AssertionError at the deadline."""
        self._last = last
        if self._clock() > self._end:
            cause = last if isinstance(last, Exception) else None
            raise AssertionError(f"not within {self._within:.0f} s: {self._what}; last seen: {self._last!r}") from cause


def eventually(
    probe: Callable[[], T | None], *, what: str, within: float = 60.0, every: float = 0.5, retried: Errors = RETRIED
) -> T:
    """Call ``probe`` until it returns something true; raises AssertionError naming ``what`` and what was last seen."""
    wait = _Wait(within, what, time.monotonic)
    while True:
        last: object
        try:
            found = probe()
            if found:
                return found
            last = found
        except retried as error:
            last = error
        wait.on(last)
        time.sleep(every)


@overload
async def eventually_async(
    look: Callable[[], Awaitable[T]],
    right: Callable[[T], object] = ...,
    *,
    what: str,
    within: float = ...,
    every: float = ...,
    retried: Errors = ...,
) -> T: ...
@overload
async def eventually_async(
    look: Callable[[], T],
    right: Callable[[T], object] = ...,
    *,
    what: str,
    within: float = ...,
    every: float = ...,
    retried: Errors = ...,
) -> T: ...
async def eventually_async(
    look: Callable[[], Any],
    right: Callable[[Any], object] = bool,
    *,
    what: str,
    within: float = 60.0,
    every: float = LOCAL,
    retried: Errors = RETRIED,
) -> Any:
    """The same beside other tasks: look, by a coroutine or a plain call, until what is seen is right; what was seen."""
    wait = _Wait(within, what, asyncio.get_running_loop().time)
    while True:
        last: object
        try:
            found = look()
            if inspect.isawaitable(found):
                found = await found
            if right(found):
                return found
            last = found
        except retried as error:
            last = error
        wait.on(last)
        await asyncio.sleep(every)
