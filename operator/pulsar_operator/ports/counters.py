"""Metrics that other processes serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pulsar_operator.domain.dataplane.observed.pod_counters import Sample


@dataclass(frozen=True)
class Scrape:
    """The requested samples of a page of metrics."""

    at: datetime
    samples: Sequence[Sample]


class CountersPort(Protocol):
    """Metrics that other processes serve in Prometheus' text format."""

    async def read(self, url: str, names: frozenset[str]) -> Scrape:
        """Returns the samples of these names at ``url``, at most 15 s old. Raises UnavailableError, also for any HTTP
        status but 200, and RefusedError for a page that has none of them or is too large."""
