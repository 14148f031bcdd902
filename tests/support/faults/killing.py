"""The kill matrix: the operator ends before and after each of its writes, and everything must come out the same.

A scenario is a preparation (undisturbed), a trigger (what the user does) and the run that follows. The undisturbed run
counts the writes; then each of them is disturbed in a world of its own.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, PVCS, SECRETS, Json
from tests.fakes.killed import Killed
from tests.support.cluster.end_state import differences, end_state, instance_ids
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.core.journal import ADMIN, EVICT, KUBERNETES, ZOOKEEPER, PortCall
from tests.support.faults.summary import Tally, rng

Kill = tuple[int, str]
"""Number of a write after the trigger, and when: before or after it."""
MakeWorld = Callable[[], AbstractAsyncContextManager[ClusterWorld]]
Step = Callable[[ClusterWorld], Awaitable[None]]
WHEN = ("before", "after")
LEAVES = frozenset({"delete", EVICT})
"""Verbs after which an object is gone."""


@asynccontextmanager
async def fakes() -> AsyncIterator[ClusterWorld]:
    """A world in memory."""
    yield ClusterWorld.fakes()


@dataclass(frozen=True)
class Scenario:
    """What is disturbed."""

    name: str
    prepare: Step
    trigger: Step


@dataclass
class Run:
    """What came out."""

    writes: list[PortCall]
    """Begun, in order."""
    effects: list[PortCall]
    state: Json
    replaced: list[str]
    """Volumes, Secrets and records that were there before the run and are other objects after it."""


@dataclass
class Start:
    """A world right after the trigger, and what was there before it."""

    world: ClusterWorld
    attempts: int
    effects: int
    identities: dict[str, str]


async def begin(world: ClusterWorld, scenario: Scenario) -> Start:
    """Prepare and pull the trigger; no pass is made after it."""
    await scenario.prepare(world)
    journal = world.journal
    start = Start(world, len(journal.attempts), len(journal.effects), await _identities(world))
    await scenario.trigger(world)
    return start


async def finish(start: Start, kill: Kill | None, each: Callable[[], Awaitable[None]] | None = None) -> Run:
    """From the trigger to the end, killed once (number of the write after the trigger, when) or not at all."""
    world, journal = start.world, start.world.journal
    if kill is not None:
        journal.arm(start.attempts + kill[0], kill[1])
        try:
            await world.run()
        except Killed:
            if kill[1] == "after":
                # Kubernetes does not wait for the operator to come back.
                await world.idle_steps(3)
            world.restart()
        assert not journal.armed, f"write {kill[0]} never came"
    await world.run(each=each)
    after = await _identities(world)
    mark = len(journal.attempts)
    await world.run()
    late = [str(call) for call in journal.attempts[mark:]]
    assert not late, f"writes of a converged world: {late}"
    return Run(
        writes=journal.attempts[start.attempts :],
        effects=journal.effects[start.effects :],
        state=await end_state(world),
        replaced=[name for name, identity in after.items() if start.identities.get(name, identity) != identity],
    )


async def _identities(world: ClusterWorld) -> dict[str, str]:
    """UIDs of what must never be made again, and the instance ids."""
    found = {f"Secret {name}": uid for name, uid in (await world.uids(SECRETS)).items()}
    found |= {f"PersistentVolumeClaim {name}": uid for name, uid in (await world.uids(PVCS)).items()}
    return found | {f"instance id {n}": text for n, text in enumerate(await instance_ids(world))}


def doubled(run: Run) -> list[str]:
    """What must happen once and happened twice, in the writes that were accepted."""
    counted = Counter(
        str(call)
        for call in run.effects
        if (call.port == ZOOKEEPER and call.verb == "create")
        or (call.port == KUBERNETES and call.verb == "create")
        or (call.port == KUBERNETES and call.verb in LEAVES)
        or (call.port == ADMIN and call.verb in ("PUT", "DELETE"))
    )
    return [f"{text} ({number} times)" for text, number in counted.items() if number > 1]


def pods_deleted(run: Run) -> Counter[str]:
    """Pods the operator deleted, or had evicted."""
    return Counter(c.name for c in run.effects if c.port == KUBERNETES and c.verb in LEAVES and c.kind == PODS.kind)


async def nothing(_: ClusterWorld) -> None:
    """No preparation: the world is empty."""


async def apply_quickstart(world: ClusterWorld) -> None:
    """kubectl apply -f examples/quickstart.yaml"""
    await world.apply(*quickstart(world.namespace))


async def quickstart_runs(world: ClusterWorld) -> None:
    """The quickstart, converged."""
    await world.bring_up()


async def volumes_go(world: ClusterWorld) -> None:
    """The quickstart with reclaimPolicy Delete, converged."""
    await _all_with(world, Kind.CLUSTER, reclaimPolicy="Delete")


async def logical_objects_go(world: ClusterWorld) -> None:
    """The quickstart with deletionPolicy Delete on everything logical, converged."""
    await _all_with(world, Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, deletionPolicy="Delete")


async def _all_with(world: ClusterWorld, *kinds: Kind, **fields: str) -> None:
    manifests = quickstart(world.namespace)
    for manifest in manifests:
        if manifest["kind"] in kinds:
            manifest["spec"] |= fields
    await world.apply(*manifests)
    await world.run()


async def delete_everything(world: ClusterWorld) -> None:
    """kubectl delete -f examples/quickstart.yaml"""
    await world.delete_all()


async def delete_logical_objects(world: ClusterWorld) -> None:
    """Tenant, namespace and topics at once; the cluster stays."""
    for kind, name in (
        (Kind.TENANT, "shop"), (Kind.NAMESPACE, "orders"), (Kind.TOPIC, "clicks"), (Kind.TOPIC, "payments"),
    ):  # fmt: skip
        await world.delete(kind, name)


async def update(world: ClusterWorld) -> None:
    """New images for brokers and bookies, more partitions, another policy, one policy less."""

    def cluster(spec: Json) -> None:
        spec["image"] = {"broker": "pulsar-broker:new", "bookie": "pulsar-bookie:new"}

    def namespace(spec: Json) -> None:
        spec["policies"]["messageTTLSeconds"] = 60
        del spec["policies"]["backlogQuotas"]

    def topic(spec: Json) -> None:
        spec["partitions"] = 6

    await world.change(Kind.CLUSTER, "east", cluster)
    await world.change(Kind.NAMESPACE, "orders", namespace)
    await world.change(Kind.TOPIC, "clicks", topic)


BRING_UP = Scenario("bring-up", nothing, apply_quickstart)
UPDATE = Scenario("update", quickstart_runs, update)
DELETE_RETAIN = Scenario("deletion, volumes kept", quickstart_runs, delete_everything)
DELETE_VOLUMES = Scenario("deletion, volumes deleted", volumes_go, delete_everything)
DELETE_LOGICAL = Scenario("deletion of tenant, namespace and topics", logical_objects_go, delete_logical_objects)
SCENARIOS = (BRING_UP, UPDATE, DELETE_RETAIN, DELETE_VOLUMES, DELETE_LOGICAL)


async def disturbed(make: MakeWorld, scenario: Scenario, calm: Run, kill: Kill) -> list[str]:
    """What goes otherwise than in the undisturbed run when the operator is killed there."""
    async with make() as world:
        return await _disturbed(await begin(world, scenario), kill, calm)


@dataclass
class Calm:
    """An undisturbed run on fakes. A world in memory can be copied, so each disturbed run starts at the last round of
    this one before its write."""

    run: Run
    copies: list[Start]
    """Before each round."""

    def before(self, number: int) -> Start:
        """The world in the round of a write, a copy of its own."""
        found = [each for each in self.copies if len(each.world.journal.attempts) - each.attempts <= number]
        return copy.deepcopy(found[-1])


async def undisturbed(scenario: Scenario) -> Calm:
    """The scenario on fakes."""
    start = await begin(ClusterWorld.fakes(), scenario)
    copies: list[Start] = []

    async def remember() -> None:
        copies.append(copy.deepcopy(start))

    return Calm(await finish(start, None, remember), copies)


async def matrix_in_memory(scenario: Scenario, begun: Callable[[list[Kill]], tuple[list[Kill], Tally]]) -> Run:
    """Kills on fakes. ``begun`` is given those of the undisturbed run, and gives those to play and where to tell it."""
    calm = await undisturbed(scenario)
    chosen, tally = begun(kills(calm.run))
    for kill in chosen:
        tally.add(words(calm.run, kill), await _disturbed(calm.before(kill[0]), kill, calm.run))
    tally.check()
    return calm.run


def words(calm: Run, kill: Kill) -> str:
    """A kill as text."""
    return f"killed {kill[1]} write {kill[0]} ({calm.writes[kill[0]]})"


def kills(calm: Run) -> list[Kill]:
    """Before and after each write."""
    return [(number, when) for number in range(len(calm.writes)) for when in WHEN]


def sample(what: str, found: list[Kill], size: int) -> list[Kill]:
    """Some kills by the seed, spread over the whole run: one at random in each of equal parts."""
    size = min(size, len(found))
    parts = [found[len(found) * n // size : len(found) * (n + 1) // size] for n in range(size)]
    random = rng(what)
    return [random.choice(part) for part in parts]


async def _disturbed(start: Start, kill: Kill, calm: Run) -> list[str]:
    """What is otherwise than in the undisturbed run."""
    try:
        run = await finish(start, kill)
    except AssertionError as error:
        return [str(error)]
    found = differences(calm.state, run.state)
    found += [f"happened twice: {text}" for text in doubled(run)]
    if pods_deleted(run) != pods_deleted(calm):
        found.append(f"pods deleted: {dict(pods_deleted(run))} instead of {dict(pods_deleted(calm))}")
    found += [f"replaced: {name}" for name in run.replaced]
    return found


def listing(run: Run) -> str:
    """The numbered list of writes, and N."""
    lines = [f"{number:3} {call}" for number, call in enumerate(run.writes)]
    return "\n".join([*lines, f"N = {len(run.writes)} writes, {2 * len(run.writes)} kills"])
