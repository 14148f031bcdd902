"""Results of the sizing job."""

from __future__ import annotations

from typing import Protocol

from pulsar_operator.balance.sizing.result import SizingOutlook, SizingResult


class SizingPort(Protocol):
    """Results of the Spark job that sizes bundles from recorded traffic."""

    async def latest(self, url: str, cluster: str) -> SizingResult | None:
        """The newest result for a cluster (its name inside Pulsar) of the service at ``url``; None when it has none.

        Raises UnavailableError, and RefusedError for an answer that cannot be read.
        """

    async def outlook(self, url: str, cluster: str) -> SizingOutlook | None:
        """The newest result without its data about bundles, which may be very many and are not parsed."""
