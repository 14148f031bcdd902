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
        """The same without what is about bundles, of which there may be very many; it is not even looked at."""
