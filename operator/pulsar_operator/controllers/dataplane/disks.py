"""How full the ledger disks of a cluster's bookies are, asked of those that are ready."""

from __future__ import annotations

import asyncio
from typing import Final

from pulsar_operator.domain.bookkeeper.facts import Space
from pulsar_operator.domain.bookkeeper.identity import host_of
from pulsar_operator.ports import Deps, PortError

IN_FLIGHT: Final = 16


async def disk_space(deps: Deps, bookies: list[str]) -> dict[str, Space]:
    """What is used and how much there is, by the bookie's id; of one that does not say there is none."""
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def asked(bookie: str) -> tuple[str, Space] | None:
        async with slots:
            try:
                said = await deps.bookies.disk(host_of(bookie))
            except PortError:
                return None
        return (bookie, Space(said.total - said.free, said.total)) if 0 < said.total >= said.free else None

    return dict(filter(None, await asyncio.gather(*map(asked, bookies))))
