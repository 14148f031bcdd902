"""Results of the sizing job."""

from __future__ import annotations

from typing import Protocol

from pulsar_operator.balance.sizing.result import SizingOutlook, SizingResult


class SizingPort(Protocol):
    """Results of the Spark job that sizes bundles from recorded traffic."""

    async def latest(self, url: str, cluster: str) -> SizingResult | None:
        """Returns the newest result for a cluster (its name in Pulsar) from the service at ``url``; None if it has
        none.

        Raises UnavailableError, and RefusedError for an answer that cannot be parsed.
        """

    async def outlook(self, url: str, cluster: str) -> SizingOutlook | None:
        """Returns the newest result without its data about bundles, which may be very many and are not parsed."""
