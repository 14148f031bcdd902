"""Topics that write, and where their messages are: ledgers in the metadata store of a world in memory.

A topic that is loaded holds a handle on an open data ledger and one on its cursor's, both on writable bookies.
Unloading it closes the data ledger and deletes the cursor's; its clients come back at once, and its next ledgers are
elsewhere. A copy on a bookie is as good as the volume that it was written to, so ``lost`` tells what nobody has any
more, and whose open handle still names a bookie that came back empty: what it writes next would be acknowledged and
lost (apache/bookkeeper#4812).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies, host_of
from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, decode_ledger
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, COOKIES, LEDGERS, READONLY_NAME, ledger_id, ledger_path
from pulsar_operator.domain.render.listeners import bookie_id
from pulsar_operator.ports import PVCS, STATEFUL_SETS, Json
from tests.fakes.admin import AdminCall, FakeAdmin
from tests.fakes.kube import FakeKube
from tests.fakes.pulsar import FakePulsar
from tests.fakes.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.support.bookkeeper.encoding import framed, ledger_body
from tests.support.cluster.backstage import FakeBackstage
from tests.support.cluster.copies import made_once
from tests.support.cluster.world import NS, ClusterWorld, quickstart

WORKLOAD = "east-bookie"
STORE = f"east-zookeeper.{NS}.svc.cluster.local:2181"
TOPICS = ("persistent://shop/orders/payments", "persistent://shop/orders/clicks-partition-0")
PULSAR = {"application": b"pulsar", "component": b"managed-ledger"}


@dataclass(frozen=True)
class Handle:
    """What a broker writes to."""

    ledger: int
    bookies: dict[str, str]
    """UID of the volume of each bookie when it was opened."""


def bookie(ordinal: int) -> str:
    """Id of a bookie."""
    return bookie_id(WORKLOAD, ordinal, NS, "cluster.local")


def host(ordinal: int) -> str:
    """Where a bookie answers."""
    return bookie(ordinal).rpartition(":")[0]


def claims(ordinal: int) -> tuple[str, str]:
    """Names of a bookie's claims."""
    return f"journal-0-{WORKLOAD}-{ordinal}", f"ledgers-0-{WORKLOAD}-{ordinal}"


def cookie(ordinal: int) -> str:
    """Path of a bookie's cookie."""
    return f"{COOKIES}/{bookie(ordinal)}"


def of_topic(path: str) -> dict[str, bytes]:
    """Custom metadata of a ledger of ``tenant/namespace/persistent/topic``."""
    return {**PULSAR, "pulsar/managed-ledger": path.encode()}


@lru_cache(maxsize=4096)
def ledger_at(path: str, data: bytes) -> tuple[int, frozenset[str]] | None:
    """A ledger and the bookies it names; None where that cannot be read. Most znodes are the same at every look."""
    try:
        return ledger_id(path), decode_ledger(data).bookies
    except UndecodableError:
        return None


class LedgerWorld(ClusterWorld):
    """A cluster of bookies with ledgers on them. Auto-recovery copies between two rounds."""

    kube: FakeKube
    zookeeper: FakeZooKeeper
    admin: FakeAdmin

    @classmethod
    def empty(cls) -> LedgerWorld:
        """Everything in memory."""
        kube, pulsar, zookeeper = FakeKube(), FakePulsar(clusters=[]), FakeZooKeeper()
        admin = FakeAdmin(pulsar)
        world = cls(
            kube=kube, backstage=FakeBackstage(kube), zookeeper=zookeeper, admin=admin, pulsar=pulsar, namespace=NS
        )
        world.kube, world.zookeeper, world.admin = kube, zookeeper, admin
        world.handles: dict[str, list[Handle]] = {}
        world.written: dict[tuple[int, str], str] = {}
        """UID of the volume that has a ledger's entries of a bookie."""
        world.named: set[tuple[int, str]] = set()
        """What named a bookie at the last look."""
        world.bad: set[int] = set()
        """Ledgers that auto-recovery cannot read."""
        world.copies = True
        """Whether auto-recovery does what it is asked."""
        world.unloads = True
        """Whether an unloaded topic closes its ledgers."""
        world.next_ledger = 0
        admin.after.append(world.unloaded)
        return world

    @classmethod
    @made_once
    async def up(
        cls,
        bookies: int = 3,
        *,
        topics: Collection[str] = TOPICS,
        closed: int = 0,
        configuration_store: Json | None = None,
        **keeper: Any,
    ) -> LedgerWorld:
        """The quickstart with so many bookies, with topics that write and with so many closed ledgers, converged;
        ``configuration_store`` None = the cluster's metadata store is that too."""
        world = cls.empty()
        manifests = quickstart()
        if configuration_store is not None:
            manifests[0]["spec"]["configurationStore"] = configuration_store
        manifests[1]["spec"]["bookkeeper"] |= {"replicas": bookies, **keeper}
        await world.apply(*manifests)
        await world.run()
        assert await world.all_ready() == {}
        for topic in topics:
            world.load(topic)
        for _ in range(closed):
            world.ledger(state="CLOSED")
        return world

    @property
    def store(self) -> FakeEnsemble:
        """The cluster's metadata store."""
        return self.zookeeper.ensembles.get(STORE) or FakeEnsemble(STORE)

    async def round(self) -> bool:
        """See ClusterWorld; then auto-recovery goes on."""
        changed = await super().round()
        if self.copies:
            await self.dataplane.copy(self.bad)
            await self.dataplane.audit(self.bad)
        self.look()
        return changed

    async def resize(self, bookies: int) -> None:
        """A user sets the number of bookies."""
        await self.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(replicas=bookies))

    # ---------------------------------------------------------------------------------------------------- brokers

    def load(self, topic: str) -> None:
        """Its broker opens a data ledger, and one of its cursor."""
        tenant, namespace, name = topic.partition("://")[2].split("/")
        custom = of_topic(f"{tenant}/{namespace}/persistent/{name}")
        self.handles[topic] = [self.ledger(custom=custom), self.ledger(custom={**custom, "pulsar/cursor": b"sub"})]

    def ledger(
        self,
        *,
        state: str = "OPEN",
        on: Collection[str] | None = None,
        size: int = 2,
        custom: dict[str, bytes] | None = None,
    ) -> Handle:
        """Somebody makes a ledger: on these bookies, or on so many writable ones, another first each time."""
        number, self.next_ledger = self.next_ledger, self.next_ledger + 1
        names = [name for name in self.store.children(AVAILABLE) if name != READONLY_NAME]
        turned = [names[(number + n) % len(names)] for n in range(min(size, len(names)))] if names else []
        chosen = tuple(on if on is not None else turned)
        self.put(number, state, chosen, custom or {})
        self.look()
        return Handle(number, {name: self.written[number, name] for name in chosen})

    def put(self, number: int, state: str, on: Collection[str], custom: dict[str, bytes], *, last: int = 9) -> None:
        """Metadata of a ledger; a closed one has ten entries, or those up to ``last``."""
        last = last if state == "CLOSED" else -1
        body = ledger_body(
            state=state, quorums=(len(on), len(on), len(on)), segments=[(0, tuple(on))], last=last, custom=custom
        )
        self.store.put(ledger_path(number), framed(body))

    def unloaded(self, call: AdminCall) -> None:
        """Pulsar unloaded a topic."""
        if call.method != "PUT" or call.path[-1] != "unload" or not self.unloads:
            return
        topic = f"{call.path[0]}://{'/'.join(call.path[1:4])}"
        if topic not in self.handles:
            return
        data, cursor = self.handles.pop(topic)
        for handle in (data, cursor):
            node = self.store.nodes.get(ledger_path(handle.ledger))
            found = decode_ledger(node.data) if node is not None else None
            if found is None or found.state is LedgerState.CLOSED:
                continue
            if handle is cursor:
                self.store.remove(ledger_path(handle.ledger))
            else:
                self.put(handle.ledger, "CLOSED", found.segments[0].bookies, dict(found.custom))
        self.load(topic)

    # ---------------------------------------------------------------------------------------------------- looking

    def volume(self, name: str) -> str:
        """UID of the ledger volume that a bookie has; empty where there is none."""
        claim = self.kube.live(PVCS, NS, f"ledgers-0-{name.partition('.')[0]}")
        return str(claim["metadata"]["uid"]) if claim is not None else ""

    def ledgers(self) -> dict[int, frozenset[str]]:
        """Bookies that each ledger names; those that cannot be read are left out."""
        found = (ledger_at(path, data) for path, data in self.store.tree(LEDGERS).items())
        return dict(each for each in found if each is not None)

    def naming(self, ordinal: int) -> list[int]:
        """Ledgers that name a bookie, whichever its incarnation."""
        mine = host(ordinal)
        return [number for number, names in self.ledgers().items() if any(host_of(each) == mine for each in names)]

    def cookies(self, ordinal: int) -> list[str]:
        """Ids of a bookie that have a cookie, the latest incarnation last."""
        own = OwnBookies.of(bookie(0))
        found = ((own.slot(name), name) for name in self.store.children(COOKIES))
        return [name for slot, name in sorted(each for each in found if each[0]) if slot and slot[0] == ordinal]

    def id(self, ordinal: int) -> str:
        """Id of a bookie as it is now; of one without a cookie the first that it had."""
        return [bookie(ordinal), *self.cookies(ordinal)][-1]

    def look(self) -> None:
        """Remember on which volume each copy is."""
        named = {(number, name) for number, names in self.ledgers().items() for name in names}
        for number, name in named - self.named:
            self.written[number, name] = self.volume(name)
        self.named = named

    def lost(self) -> list[str]:
        """Copies that are on no volume any more, and handles that name a bookie with another volume."""
        found = [
            f"ledger {number} on {name}"
            for number, names in self.ledgers().items()
            for name in names
            if self.written[number, name] != self.volume(name)
        ]
        return found + [
            f"{topic} writes to {name}, which came back empty"
            for topic, handles in self.handles.items()
            for handle in handles
            for name, uid in handle.bookies.items()
            if self.volume(name) != uid
        ]

    async def row(self, ordinal: int) -> Json | None:
        """A bookie's row of the status."""
        rows = (await self.status(Kind.CLUSTER, "east")).get("bookies") or ()
        mine = [row for row in rows if row.get("ordinal") == ordinal]
        return next((row for row in mine if "step" in row), mine[-1] if mine else None)

    async def at(self, step: str, ordinal: int = 2) -> None:
        """Rounds until the status shows a bookie at that step."""

        async def there() -> bool:
            return ((await self.row(ordinal)) or {}).get("step") == step

        await self.until(there)

    async def replicas(self) -> int:
        """Pods that the StatefulSet wants."""
        return int((await self.get(STATEFUL_SETS, WORKLOAD))["spec"]["replicas"])

    async def settle(self, rounds: int = 300, *, each: Callable[[], Any] | None = None) -> None:
        """Until quiet, or not; a world that never rests is looked at all the same."""
        try:
            await self.run(rounds=rounds, each=each)
        except AssertionError as error:
            if "no end after" not in str(error):
                raise

    def unloaded_times(self, topic: str) -> int:
        """How often a topic was unloaded, or tried to be."""
        path = topic.replace("://", "/") + "/unload"
        return len([each for _, each in self.admin.writes if each.endswith(path)])

    async def progressing(self) -> tuple[str, str, str]:
        """Condition Progressing."""
        return await self.condition(Kind.CLUSTER, "east", "Progressing")
