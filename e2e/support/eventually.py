"""Waiting for a fact with a deadline; the only way tests and the demo wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T | None], *, within: float, what: str, every: float = 0.5) -> T:
    """Call ``probe`` until it returns something true; raises AssertionError naming ``what`` and the last error."""
    end = time.monotonic() + within
    last: object = None
    while True:
        try:
            found = probe()
            if found:
                return found
            last = found
        except (AssertionError, OSError, RuntimeError) as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"not within {within:.0f} s: {what}; last seen: {last!r}")
        time.sleep(every)
