"""Which topics may hold a handle on a bookie's ledgers: found by looking at all of them, some at a time by name."""

from __future__ import annotations

import pytest

from pulsar_operator.domain.bookkeeper.ledger_scan import Handles
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.bookkeeper.encoding import framed, ledger_body
from tests.support.bookkeeper.every_ledger import ledgers_naming

ME, OTHER, THIRD = "a:3181", "b:3181", "c:3181"
TOPICS = [f"persistent://t/n/x{n}" for n in range(7)]


class Ledgers:
    """Ledgers of topics in a metadata store."""

    def __init__(self) -> None:
        self.zookeeper = FakeZooKeeper()
        self.store = self.zookeeper.ensemble("z")
        self.store.put("/ledgers/available")

    def put(self, number: int, topic: str, *on: str, state: str = "CLOSED", cursor: str = "") -> None:
        name = topic.removeprefix("persistent://").replace("/x", "/persistent/x")
        custom = {"application": b"pulsar", "component": b"managed-ledger", "pulsar/managed-ledger": name.encode()}
        custom |= {"pulsar/cursor": cursor.encode()} if cursor else {}
        size, last = len(on), 9 if state == "CLOSED" else -1
        body = ledger_body(state=state, quorums=(size, size, size), segments=[(0, on)], last=last, custom=custom)
        self.store.put(ledger_path(number), framed(body))

    async def writers(self, handles: Handles | None = None, *, kept: int = 1000) -> tuple[str, ...]:
        session = await self.zookeeper.session("z")
        return (await ledgers_naming(session, frozenset({ME}), handles=handles, kept=kept)).writers


async def test_a_list_that_is_cut_goes_on_after_the_last_name() -> None:
    ledgers, found, after = Ledgers(), [], ""
    for number, topic in enumerate(TOPICS):
        ledgers.put(number, topic, ME, OTHER, state="OPEN")
    for _ in range(4):
        some = await ledgers.writers(Handles(after=after), kept=3)
        found += some
        after = some[-1] if some else after
    assert found == TOPICS


@pytest.mark.parametrize(
    ("newer", "writes"),
    [(None, True), ("data on it", True), ("data elsewhere", False), ("a cursor elsewhere", True)],
)
async def test_a_closed_ledger_counts_while_it_is_the_newest(newer: str | None, writes: bool) -> None:
    """Auto-recovery closes a ledger behind the back of its writer, who holds no older one."""
    ledgers = Ledgers()
    ledgers.put(1, TOPICS[0], ME, OTHER)
    if newer is not None:
        on = (ME, OTHER) if newer == "data on it" else (OTHER, THIRD)
        ledgers.put(2, TOPICS[0], *on, cursor="s" if "cursor" in newer else "")
    assert await ledgers.writers() == ((TOPICS[0],) if writes else ())


async def test_what_was_unloaded_is_done_and_what_is_suspected_is_not() -> None:
    ledgers = Ledgers()
    ledgers.put(1, TOPICS[0], ME, OTHER, state="OPEN")
    ledgers.put(5, TOPICS[1], OTHER, THIRD)
    ledgers.put(6, TOPICS[2], OTHER, THIRD, state="OPEN")
    assert await ledgers.writers() == (TOPICS[0],)
    assert await ledgers.writers(Handles(unloaded=1)) == ()
    assert await ledgers.writers(Handles(unloaded=1, suspect=4)) == (TOPICS[1],), "a copy may have closed it"
    assert await ledgers.writers(Handles(unloaded=1, suspect=5)) == ()
