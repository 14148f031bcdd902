"""Faults of ZooKeeper at every call the whole control loop makes to it, compared with the undisturbed run.

The scenarios are those of the kill matrix. Sessions expire, connections break before or after a write took effect, a
quorum is lost for some rounds, and somebody else touches a node between the operator's look and its write.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from pulsar_operator.ports import ConflictError, UnavailableError
from tests.fakes.admin import FakeAdmin
from tests.fakes.kube import FakeKube
from tests.fakes.pulsar import FakePulsar
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.cluster.backstage import FakeBackstage
from tests.support.cluster.end_state import differences
from tests.support.cluster.world import NS, ClusterWorld
from tests.support.core.journal import ZOOKEEPER, PortCall
from tests.support.faults.killing import Run, Scenario, Start, begin, doubled, finish, pods_deleted

ROUNDS_WITHOUT_QUORUM = 5
EXPIRED, BEFORE, AFTER, QUORUM, TOUCHED, MADE = (
    "session expired",
    "connection lost before",
    "connection lost after",
    "quorum lost",
    "node touched by another",
    "node made by another",
)


class Site:
    """A world whose ZooKeeper can be reached beside the operator."""

    def __init__(self) -> None:
        kube, pulsar = FakeKube(), FakePulsar(clusters=[])
        self.zookeeper = FakeZooKeeper()
        self.world = ClusterWorld(
            kube=kube,
            backstage=FakeBackstage(kube),
            zookeeper=self.zookeeper,
            admin=FakeAdmin(pulsar),
            pulsar=pulsar,
            namespace=NS,
        )


@dataclass
class Copy:
    """A world at the beginning of a round of the undisturbed run."""

    site: Site
    start: Start
    calls: int


@dataclass
class Calm:
    """The undisturbed run of a scenario, with its copies."""

    scenario: Scenario
    run: Run
    calls: list[PortCall]
    """To ZooKeeper, after the trigger."""
    copies: list[Copy] = field(default_factory=list)


async def calm_run(scenario: Scenario) -> Calm:
    """Play the scenario undisturbed."""
    site = Site()
    start = await begin(site.world, scenario)
    mark, copies = _asked(site.world), []

    async def remember() -> None:
        there, then = copy.deepcopy((site, start))
        copies.append(Copy(there, then, _asked(there.world) - mark))

    await site.world.run(each=remember)
    calls = _calls(site.world)[mark:]
    return Calm(scenario, await finish(start, None), calls, copies)


def _calls(world: ClusterWorld) -> list[PortCall]:
    return [call for call in world.journal.calls if call.port == ZOOKEEPER]


def _asked(world: ClusterWorld) -> int:
    return len(_calls(world))


def places(calm: Calm) -> list[tuple[int, str]]:
    """Every call with every fault that makes sense at it."""
    out: list[tuple[int, str]] = []
    for number, call in enumerate(calm.calls):
        kinds = [EXPIRED, BEFORE, QUORUM]
        kinds += [AFTER] if call.is_write else []
        kinds += [MADE] if call.verb == "create" else [TOUCHED] if call.verb in ("set", "delete") else []
        out += [(number, kind) for kind in kinds]
    return out


async def problems(calm: Calm, number: int, kind: str) -> list[str]:
    """What is otherwise than in the undisturbed run when the fault happens at the call of this number."""
    base = copy.deepcopy([each for each in calm.copies if each.calls <= number][-1])
    world, mark = base.site.world, _asked(base.site.world)
    fault = _Fault(base.site, kind, number - base.calls + mark)
    world.journal.before.append(fault.before)
    world.journal.after.append(fault.after)
    try:
        await world.run(each=fault.next_round)
        while fault.lasts:
            # Nothing changes any more as long as there is no quorum.
            await world.round()
            await fault.next_round()
        run = await finish(base.start, None)
    except AssertionError as error:
        return [str(error)]
    found = differences(calm.run.state, run.state)
    # A node that was there already when the answer was lost is not made twice; one another made is not ours.
    found += [f"happened twice: {text}" for text in doubled(run)]
    found += [f"replaced: {name}" for name in run.replaced]
    if pods_deleted(run) != pods_deleted(calm.run):
        found.append(f"pods deleted: {dict(pods_deleted(run))} instead of {dict(pods_deleted(calm.run))}")
    if not fault.happened:
        found.append("the fault did not happen")
    return found


class _Fault:
    """Hooks of the journal."""

    def __init__(self, site: Site, kind: str, place: int) -> None:
        self._site, self._kind, self._place = site, kind, place
        self._rounds = 0
        self.happened = False
        self._since = 0

    async def next_round(self) -> None:
        """A round of the control loop begins."""
        self._rounds += 1

    def before(self, call: PortCall) -> None:
        """A call is about to be made."""
        if call.port != ZOOKEEPER:
            return
        now = _asked(self._site.world) - 1 == self._place
        if now:
            self.happened, self._since = True, self._rounds
        if self.happened and (now or self.lasts):
            self._act(call, now)

    @property
    def lasts(self) -> bool:
        """Whether it is not over yet."""
        rounds = {EXPIRED: 1, QUORUM: ROUNDS_WITHOUT_QUORUM}.get(self._kind, 0)
        return self.happened and self._rounds < self._since + rounds

    def _act(self, call: PortCall, now: bool) -> None:
        if self._kind in (EXPIRED, BEFORE, QUORUM):
            raise UnavailableError(f"{self._kind} during {call.verb} {call.name}")
        if self._kind == MADE and now:
            raise ConflictError(f"{call.name} exists already")
        if self._kind == TOUCHED and now:
            nodes = self._site.zookeeper.ensemble(call.kind)
            nodes.put(call.name, nodes.nodes[call.name].data)

    def after(self, call: PortCall) -> None:
        """A call took effect."""
        if self._kind == AFTER and call.port == ZOOKEEPER and _asked(self._site.world) - 1 == self._place:
            raise UnavailableError(f"connection lost after {call.verb} {call.name}; it may have taken effect")
