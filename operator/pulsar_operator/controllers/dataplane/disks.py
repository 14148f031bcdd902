"""How full the ledger disks of a cluster's bookies are, asked of those that are ready."""

from __future__ import annotations

import asyncio
from typing import Final

from pulsar_operator.domain.bookkeeper.facts import used_percent
from pulsar_operator.ports import Deps, PortError

IN_FLIGHT: Final = 16


async def disk_usage(deps: Deps, bookies: list[str]) -> dict[str, int]:
    """Percent that is used, by the bookie's id (host:port); of one that does not say there is none."""
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def asked(bookie: str) -> tuple[str, int] | None:
        async with slots:
            try:
                space = await deps.bookies.disk(bookie.rpartition(":")[0])
            except PortError:
                return None
        return (bookie, used_percent(space.free, space.total)) if 0 < space.total >= space.free else None

    return dict(filter(None, await asyncio.gather(*map(asked, bookies))))
