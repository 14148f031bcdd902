"""How long a rebalance is expected to take, and takes: with the times of the queue, of the calls and of the unloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import count, pairwise
from typing import Any
from zlib import crc32

import pytest

from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.plan import balance_of
from pulsar_operator.balance.planner.proposal import Move, Proposal, Split
from pulsar_operator.controllers.core.engine import PARENT_DELAY_SECONDS
from pulsar_operator.controllers.rebalance.controller import RebalanceController
from pulsar_operator.controllers.rebalance.rebalance_pass import Tools
from pulsar_operator.domain.dataplane.cluster.findings import AGAIN_SECONDS
from pulsar_operator.ports import AdminEndpoint
from tests.fakes.pulsar_brokers import FakeBrokers
from tests.support.balancing.world import LAST, BalancingWorld

NAMESPACE = "shop/orders"
ADMIN_SECONDS, KUBE_SECONDS, CLUSTER_SECONDS = 0.015, 0.01, 0.4
SPLIT_CALL_SECONDS = 0.4
"""What a call to Pulsar, a call to Kubernetes and the rest of a pass over a cluster take, and a split."""


class TimedBrokers(FakeBrokers):
    """Brokers whose answers take their time, as unloads of bundles do."""

    def __init__(self, world: TimedWorld) -> None:
        super().__init__()
        self._world = world

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        self._world.take(ADMIN_SECONDS)
        return await super().call(endpoint, method, path, query=query, body=body)


class TimedWorld(BalancingWorld):
    """A world in which calls take time, and the queue wakes objects as the engine does.

    The planner splits as many bundles as it is told, moves as many others, and as many without clients.
    """

    def __init__(
        self, *, bundles: int, unload: float, idle: int = 0, splits: int = 0, moves: int = 0, quiet: int = 0
    ) -> None:
        """``unload`` is how many seconds the unload of a bundle takes; without clients, of which there are ``idle``,
        it takes none."""
        super().__init__()
        self.unload, self.splits, self.moves, self.quiet = unload, splits, moves, quiet
        self.drives = False
        """Whether the operator balances all the time."""
        self.pulsar = TimedBrokers(self)
        self.pulsar.before.append(self._unloads)
        self.kube.before.append(lambda call: self.take(KUBE_SECONDS))
        step = (LAST + 1) // bundles
        bounds = [number * step for number in range(bundles)] + [LAST]
        self.pulsar.namespace(NAMESPACE, bounds, self.pulsar.brokers[0])
        self.idle = {f"0x{lower:08x}_0x{upper:08x}" for lower, upper in list(pairwise(bounds))[bundles - idle :]}
        self._topics(bounds)
        self.restart()

    def restart(self) -> None:
        """A new operator process."""
        super().restart()
        self.controller = RebalanceController(self.deps, Tools(self.deps, self._plan, balance_of))

    def take(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.moment += timedelta(seconds=seconds)

    def _topics(self, bounds: list[int]) -> None:
        """Two topics with clients in each bundle but those that are idle."""
        topics = {span: 0 for span in pairwise(bounds) if f"0x{span[0]:08x}_0x{span[1]:08x}" not in self.idle}
        missing = 2 * len(topics)
        for number in count():
            name = f"persistent://{NAMESPACE}/t{number}"
            place = min(crc32(name.encode()) // bounds[1], len(bounds) - 2)
            span = bounds[place], bounds[place + 1]
            if topics.get(span, 2) < 2:
                topics[span] += 1
                missing -= 1
                self.pulsar.rates[name] = 100.0
            if not missing:
                return

    def _unloads(self, words: str) -> None:
        if words.endswith("/unload"):
            self.take(0.0 if words.split("/")[-2] in self.idle else self.unload)
        elif words.endswith("/split"):
            self.take(SPLIT_CALL_SECONDS)

    def _plan(self, model: ClusterModel, options: Options) -> Proposal:
        """Splits of the first bundles, moves of the next ones, each to the next broker."""
        bundles = sorted(model.bundles, key=lambda bundle: bundle.id.lower)
        divisible = [bundle for bundle in bundles if len({cell.position for cell in bundle.cells}) > 1]
        cut = divisible[: self.splits]
        rest = [bundle for bundle in bundles if bundle not in cut]
        moved = [bundle for bundle in rest if bundle.clients][: self.moves]
        quiet = [bundle for bundle in rest if not bundle.clients][: self.quiet]
        splits = tuple(Split(bundle.id, max(cell.position for cell in bundle.cells), "test") for bundle in cut)
        moves = []
        for bundle in [*moved, *quiet]:
            brokers = [broker.id for broker in model.brokers if broker.id != bundle.owner]
            moves.append(Move(bundle.id, bundle.owner, brokers[0], bundle.weight, "", bundle.topics, bundle.clients))
        balance = balance_of(model)
        return Proposal(splits, tuple(moves), balance, balance, 1.0)

    async def lives(self) -> None:
        """Passes at the times the engine would make them, until the last step is verified."""
        due = self.clock.moment
        cluster = None
        for _ in range(20_000):
            executing, held = self.condition("Executing")[0], self._held()
            if cluster is None or due <= cluster:
                self.clock.moment = max(self.clock.moment, due)
                outcome = await self.once()
                wait = 1.0 if outcome.backoff else outcome.requeue_after
                assert wait is not None
                due = self.clock.moment + timedelta(seconds=wait)
                if self.condition("Executing")[0] != executing:
                    cluster = self.clock.moment + timedelta(seconds=PARENT_DELAY_SECONDS)
                if (self.status().get("progress") or {}).get("finishedTime"):
                    return
            else:
                self.clock.moment = max(self.clock.moment, cluster)
                self.take(CLUSTER_SECONDS)
                again = (await self.cluster_pass(drives=self.drives)).again
                cluster = self.clock.moment + timedelta(seconds=AGAIN_SECONDS) if again else None
                if self._held() != held:
                    due = self.clock.moment
        raise AssertionError(self.status())

    def _held(self) -> object:
        cluster = next(each for each in self.kube.all() if each["kind"] == "PulsarCluster")
        return (cluster["status"].get("balancer") or {}).get("disabledFor")


def seconds(text: str) -> float:
    """Of 45s, 3m20s or 1h5m, about or exact."""
    found, digits = 0.0, ""
    for letter in text.removeprefix("about "):
        if letter.isdigit():
            digits += letter
        else:
            found, digits = found + float(digits) * {"h": 3600, "m": 60, "s": 1}[letter], ""
    return found


async def evened(world: TimedWorld) -> tuple[float, float]:
    """What is expected of the proposal that waits, and what it then takes, in seconds."""
    proposal = world.status()["proposal"]
    assert (proposal["splits"], proposal["moves"]) == (world.splits, world.moves + world.quiet)
    world.command(f"approve-{proposal['id']}")
    began = world.clock.moment
    await world.lives()
    progress = world.status()["progress"]
    assert progress["done"] == progress["total"] == proposal["splits"] + proposal["moves"]
    assert proposal["expectedDuration"].startswith("about ")
    return seconds(proposal["expectedDuration"]), (world.clock.moment - began).total_seconds()


async def again(world: TimedWorld, *, splits: int, moves: int, quiet: int = 0) -> tuple[float, float]:
    """Another proposal, and how long it takes."""
    world.splits, world.moves, world.quiet = splits, moves, quiet
    world.take(7200.0)
    world.command("refresh")
    await world.once()
    return await evened(world)


@pytest.mark.parametrize(("moves", "splits"), [(3, 0), (3, 1), (3, 10), (60, 0), (60, 10), (400, 2)])
@pytest.mark.parametrize("unload", [0.2, 1.4, 5.0])
async def test_the_expected_duration_comes_true(unload: float, moves: int, splits: int) -> None:
    """As soon as moves of the cluster were measured."""
    world = TimedWorld(bundles=splits + moves + 2, unload=unload)
    world.rebalance()
    await again(world, splits=0, moves=3)
    expected, took = await again(world, splits=splits, moves=moves)
    assert expected == pytest.approx(took, rel=0.3)


async def test_what_is_expected_before_a_move_was_measured_is_what_kind_takes() -> None:
    """On kind, a split and four moves of 1.4 s took 12 s."""
    world = TimedWorld(bundles=7, unload=1.1, splits=1, moves=4)
    world.rebalance()
    await world.once()
    expected, took = await evened(world)
    assert expected == pytest.approx(took, rel=0.3) and 11 <= took <= 15


async def test_moves_of_bundles_without_clients_tell_nothing_about_others() -> None:
    world = TimedWorld(bundles=15, idle=8, unload=1.4)
    world.rebalance()
    expected, took = await again(world, splits=0, moves=0, quiet=8)
    assert expected == pytest.approx(took, rel=0.3) and took < 12
    expected, took = await again(world, splits=1, moves=4)
    assert expected == pytest.approx(took, rel=0.3)
    assert 1.4 < float(world.status()["progress"]["unloadSeconds"]) < 2.0


async def test_the_hold_is_shorter_where_the_balancer_is_off_already() -> None:
    world = TimedWorld(bundles=6, unload=0.2)
    world.rebalance()
    before, _ = await again(world, splits=0, moves=3)
    await world.cluster_pass(drives=True)
    await world.cluster_pass(drives=True)
    world.drives = True
    expected, took = await again(world, splits=0, moves=3)
    assert expected == pytest.approx(took, rel=0.3) and expected < before
