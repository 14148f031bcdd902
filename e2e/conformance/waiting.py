"""Waiting for what the broker does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from e2e.conformance.admin import AdminError
from e2e.conformance.model import CheckFailed

T = TypeVar("T")


def eventually(probe: Callable[[], T], what: str, *, within: float = 20, every: float = 0.2) -> T:
    """What the probe returns once that is true. Raises CheckFailed with what was seen last at the deadline."""
    deadline = time.monotonic() + within
    while True:
        seen = ""
        try:
            found = probe()
            if found:
                return found
        except (AdminError, CheckFailed, OSError) as error:
            seen = f" ({error})"
        if time.monotonic() > deadline:
            raise CheckFailed(f"not within {within:.0f} s: {what}{seen}")
        time.sleep(every)
