"""Clocks and ids for worlds in memory."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta


class SteppingClock:
    """A second later at every look."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self.step = 1.0
        """Seconds."""

    def now(self) -> datetime:
        """Current time."""
        self._now += timedelta(seconds=self.step)
        return self._now

    def forward(self, seconds: float) -> None:
        """Let time pass in which nobody looks."""
        self._now += timedelta(seconds=seconds)


class FreshEntropy:
    """Ids and secrets that never repeat, not even after a restart."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def uuid(self) -> str:
        """See ports.Entropy."""
        return f"00000000-0000-4000-8000-{next(self._numbers):012d}"

    def token(self, nbytes: int = 24) -> str:
        """See ports.Entropy."""
        return f"secret-{next(self._numbers)}-{'x' * nbytes}"
