"""What Pulsar tells of the entries of a topic and of the retention that keeps them.

Run against the fakes and against a real Pulsar; a subclass provides the fixture ``place``, see policies.py, and
``publish``, for the admin REST sends no messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.domain.logical.retention import DEFAULTS
from pulsar_operator.ports import NotFoundError, RefusedError
from tests.support.contracts.policies import PAUSE_SECONDS, Place

Publish = Callable[[str, int], Awaitable[None]]
"""Sends so many messages, one an entry, to a topic by its full name."""
HOUR = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
DAY = {"retentionTimeInMinutes": 1440, "retentionSizeInMB": -1}
NONE = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}


async def until(place: Place, path: tuple[str, ...], wanted: Any, **query: str) -> None:
    """Policies of a topic travel through a topic."""

    async def look() -> Any:
        return await place.ask("GET", *path, "retention", **query)

    what = f"retention of {path[-1]} with {query} is {wanted}"
    await eventually_async(look, lambda seen: seen == wanted, what=what, every=PAUSE_SECONDS, retried=())


class ContentContract:
    """The contract; see controllers/logical/topic_content.py."""

    async def test_entries_are_counted_read_or_not(self, place: Place, publish: Publish) -> None:
        """Of a topic and of each partition, with nobody subscribed, and after the topic was loaded anew."""
        await place.ask("PUT", *place.topic("p"), "partitions", body=2)
        for part in (place.topic("x"), place.topic("p-partition-1")):
            stats, inside = await self._both(place, part)
            assert (stats["storageSize"], inside["numberOfEntries"], inside["totalSize"]) == (0, 0, 0)
            await publish(f"persistent://{'/'.join(part[1:])}", 5)
            for _ in range(2):
                stats, inside = await self._both(place, part)
                assert inside["numberOfEntries"] == 5
                assert (inside["compactedLedger"]["entries"], inside["compactedLedger"]["size"]) == (-1, -1)
                assert inside["totalSize"] == stats["storageSize"] > 0
                await place.ask("PUT", *part, "unload")
        with pytest.raises(NotFoundError):
            await place.ask("GET", *place.topic("none"), "internalStats")

    async def _both(self, place: Place, part: tuple[str, ...]) -> tuple[Any, Any]:
        return await place.ask("GET", *part, "stats"), await place.ask("GET", *part, "internalStats")

    @pytest.mark.parametrize("name", ["x", "p"])
    async def test_the_retention_that_counts(self, place: Place, name: str) -> None:
        """The brokers', the namespace's, the topic's; the replicated one of a topic is only told when asked for."""
        if name == "p":
            await place.ask("PUT", *place.topic("p"), "partitions", body=2)
        path = place.topic(name)
        configuration = await place.ask("GET", "brokers", "configuration", "runtime")
        default = {member: int(configuration.get(key) or 0) for member, key in DEFAULTS.items()}
        assert await place.ask("GET", *place.inside, "retention") is None
        assert await place.ask("GET", *path, "retention") is None
        await until(place, path, default, applied="true")
        await place.ask("POST", *place.inside, "retention", body=HOUR)
        assert await place.ask("GET", *place.inside, "retention") == HOUR
        await until(place, path, HOUR, applied="true")
        await place.ask("POST", *path, "retention", body=NONE, isGlobal="true")
        await until(place, path, NONE, isGlobal="true")
        assert await place.ask("GET", *path, "retention", applied="true") == HOUR
        assert await place.ask("GET", *path, "retention") is None
        await place.ask("POST", *path, "retention", body=DAY)
        await until(place, path, DAY)
        await until(place, path, DAY, applied="true")
        await until(place, path, NONE, isGlobal="true")

    async def test_a_partition_has_no_policy_of_its_own(self, place: Place) -> None:
        """So the topic is asked for; one that is not there is told as such."""
        await place.ask("PUT", *place.topic("p"), "partitions", body=2)
        with pytest.raises(RefusedError) as refused:
            await place.ask("GET", *place.topic("p-partition-0"), "retention", applied="true")
        assert refused.value.status == 412
        with pytest.raises(NotFoundError):
            await place.ask("GET", *place.topic("none"), "retention", applied="true")

    @pytest.mark.parametrize("body", [{**HOUR, "retentionTimeInMinutes": 0}, {**HOUR, "retentionSizeInMB": 0}])
    async def test_one_limit_of_0_alone_is_refused(self, place: Place, body: Any) -> None:
        with pytest.raises(RefusedError, match="Invalid retention policy"):
            await place.ask("POST", *place.inside, "retention", body=body)


__all__ = ["ContentContract"]
