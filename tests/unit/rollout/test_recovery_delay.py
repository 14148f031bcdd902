"""The auditor's patience is raised for a roll of bookies and given back, whatever comes between."""

from __future__ import annotations

import pytest

from pulsar_operator.controllers.dataplane.bookkeeper.recovery_delay import (
    DELAY_PATH,
    DELAY_RECORD_PATH,
    RaisedDelay,
    raise_delay,
    raised_delay,
    restore_delay,
)
from pulsar_operator.ports import PortError, UnavailableError, ZooKeeperSession
from tests.fakes.zookeeper import FakeZooKeeper


async def store(delay: str | None = "0") -> ZooKeeperSession:
    session = await FakeZooKeeper().session("zk:2181")
    if delay is not None:
        await session.create(DELAY_PATH, delay.encode())
    return session


async def delay_of(session: ZooKeeperSession) -> str | None:
    node = await session.get(DELAY_PATH)
    return node.data.decode() if node is not None else None


async def put(session: ZooKeeperSession, value: str) -> None:
    node = await session.get(DELAY_PATH)
    assert node is not None
    await session.set(DELAY_PATH, value.encode(), version=node.version)


async def test_raised_and_given_back() -> None:
    session = await store("30")
    assert await raise_delay(session, 660) == RaisedDelay(30, 660) == await raised_delay(session)
    assert await delay_of(session) == "660"
    assert await raise_delay(session, 660) == RaisedDelay(30, 660), "a second time changes nothing"
    assert await restore_delay(session) == RaisedDelay(30, 660)
    assert (await delay_of(session), await raised_delay(session)) == ("30", None)
    assert await restore_delay(session) is None


async def test_one_that_is_long_enough_stays() -> None:
    session = await store("3600")
    assert await raise_delay(session, 660) is None
    assert (await delay_of(session), await session.get(DELAY_RECORD_PATH)) == ("3600", None)


async def test_without_an_auditor_there_is_nothing_to_raise() -> None:
    session = await store(None)
    assert await raise_delay(session, 660) is None
    assert (await delay_of(session), await session.get(DELAY_RECORD_PATH)) == (None, None)


@pytest.mark.parametrize("text", ["", "soon", "{}"])
async def test_what_is_no_number_is_left_alone(text: str) -> None:
    session = await store(text)
    assert await raise_delay(session, 660) is None
    assert await delay_of(session) == text


async def test_what_somebody_else_sets_meanwhile_stays() -> None:
    session = await store("0")
    await raise_delay(session, 660)
    await put(session, "120")
    await raise_delay(session, 660)
    assert await delay_of(session) == "120"
    await restore_delay(session)
    assert (await delay_of(session), await raised_delay(session)) == ("120", None)


async def test_another_deadline_in_between_is_no_other_value_to_give_back() -> None:
    session = await store("5")
    await raise_delay(session, 660)
    assert await raise_delay(session, 1260) == RaisedDelay(5, 1260, 660)
    assert await delay_of(session) == "1260", "it is raised further at once"
    assert await raise_delay(session, 660) == RaisedDelay(5, 1260, 660), "and not lowered"
    assert await restore_delay(session) == RaisedDelay(5, 1260, 660)
    assert await delay_of(session) == "5"


async def test_what_somebody_else_set_is_not_raised_further() -> None:
    session = await store("0")
    await raise_delay(session, 660)
    await put(session, "120")
    await raise_delay(session, 1260)
    assert await delay_of(session) == "120"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 7))
@pytest.mark.parametrize("longer", [660, 1260, 1860])
async def test_cut_while_it_is_raised_further_it_comes_back_to_what_it_was(at: int, after: bool, longer: int) -> None:
    session = await store("7")
    cut = Cut(session, at, after=after)
    with pytest.raises(PortError):
        await raise_delay(cut, 660)  # type: ignore[arg-type]
        await raise_delay(cut, 1260)  # type: ignore[arg-type]
        await restore_delay(cut)  # type: ignore[arg-type]
    await raise_delay(session, longer)
    assert int(await delay_of(session) or 0) >= longer
    await restore_delay(session)
    assert (await delay_of(session), await session.get(DELAY_RECORD_PATH)) == ("7", None)


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"before": "x"}'])
async def test_a_damaged_memo_gives_nothing_back_and_does_not_stand_in_the_way(record: bytes) -> None:
    session = await store("0")
    await session.create(DELAY_RECORD_PATH, record)
    assert await restore_delay(session) is None
    assert await delay_of(session) == "0"
    await session.create(DELAY_RECORD_PATH, record)
    assert await raise_delay(session, 660) == RaisedDelay(0, 660)


class Cut:
    """A session that breaks at the nth write, before or after it took effect."""

    def __init__(self, session: ZooKeeperSession, at: int, *, after: bool) -> None:
        self._session, self._left, self._after = session, at, after

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        inner = getattr(self._session, name)
        if name not in ("create", "set", "delete"):
            return inner

        async def call(*args, **kwargs):  # type: ignore[no-untyped-def]
            self._left -= 1
            if self._left == 0 and not self._after:
                raise UnavailableError("cut")
            result = await inner(*args, **kwargs)
            if self._left == 0:
                raise UnavailableError("cut")
            return result

        return call


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 6))
async def test_cut_at_any_write_it_comes_back_to_what_it_was(at: int, after: bool) -> None:
    session = await store("7")
    cut = Cut(session, at, after=after)
    cuts = 0
    for _ in range(2):
        try:
            await raise_delay(cut, 660)  # type: ignore[arg-type]
            await restore_delay(cut)  # type: ignore[arg-type]
        except PortError:
            cuts += 1
    assert cuts == 1, "nothing was cut"
    await raise_delay(session, 660)
    assert await delay_of(session) == "660"
    await restore_delay(session)
    assert (await delay_of(session), await session.get(DELAY_RECORD_PATH)) == ("7", None)
