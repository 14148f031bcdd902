"""What every BookiePort does: the same tests on the fake and on a real bookie with a real auto-recovery."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, decode_ledger
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, READONLY, READONLY_NAME, ledger_path
from pulsar_operator.ports import BookiePort, UnavailableError, ZooKeeperSession
from tests.support.bookkeeper.encoding import ledger

NOBODY = "nobody.pulsar.svc.cluster.local:3181"
"""A bookie that there never was."""


@dataclass
class Ground:
    """One bookie and one auto-recovery in a store of their own."""

    port: BookiePort
    session: ZooKeeperSession
    bookie_id: str
    bookie: str
    autorecovery: str
    absent: str
    """A host that nobody is at."""
    restart: Callable[[], Awaitable[None]]
    """Ends and starts the bookie; it serves afterwards."""
    work: Callable[[], Awaitable[None]]
    """Has auto-recovery do what it was asked, where it does not do so by itself."""

    async def writable(self) -> list[str]:
        """Bookies that are registered as writable."""
        return [name for name in await self.session.children(AVAILABLE) or () if name != READONLY_NAME]

    async def read_only(self) -> list[str]:
        """Bookies that are registered as read-only."""
        return list(await self.session.children(READONLY) or ())


class BookiesContract:
    """A subclass has ``ground``."""

    async def test_read_only_and_writable_again(self, ground: Ground) -> None:
        port = ground.port
        assert await port.readonly(ground.bookie) is False
        await port.set_readonly(ground.bookie, False)
        assert (await ground.writable(), await ground.read_only()) == ([ground.bookie_id], [])
        for _ in range(2):
            await port.set_readonly(ground.bookie, True)
            assert await port.readonly(ground.bookie) is True
            assert (await ground.writable(), await ground.read_only()) == ([], [ground.bookie_id])
        await port.set_readonly(ground.bookie, False)
        assert await port.readonly(ground.bookie) is False
        assert (await ground.writable(), await ground.read_only()) == ([ground.bookie_id], [])

    async def test_a_restart_makes_it_writable(self, ground: Ground) -> None:
        await ground.port.set_readonly(ground.bookie, True)
        await ground.restart()
        assert await ground.port.readonly(ground.bookie) is False
        assert (await ground.writable(), await ground.read_only()) == ([ground.bookie_id], [])

    async def test_room(self, ground: Ground) -> None:
        disk = await ground.port.disk(ground.bookie)
        assert 0 < disk.free < disk.total

    async def test_an_auto_recovery_has_no_bookie(self, ground: Ground) -> None:
        port, host = ground.port, ground.autorecovery
        for call in (port.readonly(host), port.set_readonly(host, True), port.disk(host)):
            with pytest.raises(UnavailableError) as caught:
                await call
            assert caught.value.status == 500

    async def test_nobody_is_there(self, ground: Ground) -> None:
        port, host = ground.port, ground.absent
        calls = (port.readonly(host), port.set_readonly(host, True), port.disk(host), port.recover(host, NOBODY))
        for call in calls:
            with pytest.raises(UnavailableError, match=host) as caught:
                await call
            assert caught.value.status == 0

    async def test_a_copy_begins_after_the_answer_and_closes_what_is_open(self, ground: Ground) -> None:
        path = ledger_path(1)
        await ground.session.create(path, ledger([ground.bookie_id]))
        await ground.port.recover(ground.autorecovery, ground.bookie_id)
        await ground.work()

        async def begun() -> bool:
            node = await ground.session.get(path)
            return node is not None and decode_ledger(node.data).state is not LedgerState.OPEN

        await eventually_async(begun, what="the open ledger of the bookie is being closed", within=60)

    async def test_a_copy_from_nobody_is_accepted(self, ground: Ground) -> None:
        await ground.port.recover(ground.autorecovery, NOBODY)
