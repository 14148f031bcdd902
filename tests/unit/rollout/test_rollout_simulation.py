"""The roll plan against a simulated Kubernetes: never two pods of a component down by our hand, and it converges.

The simulation chooses any interleaving of spec changes, the StatefulSet controller, kubelets and readiness flaps; the
operator plans and acts from what it then observes, as it would after a restart.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.rollout.checks import READINESS, Decision, decide
from pulsar_operator.domain.dataplane.rollout.facts import RolloutFacts, component_state
from tests.support.cluster.stateful_sets import SteppedStatefulSet

ORDER = (Component.ZOOKEEPER, Component.BOOKIE, Component.BROKER)


def plan_of(worlds: list[SteppedStatefulSet]) -> Decision:
    states = [component_state(c, w.object(), w.pods()) for c, w in zip(ORDER, worlds, strict=False)]
    return decide(RolloutFacts(states), READINESS)


def act(worlds: list[SteppedStatefulSet]) -> None:
    """One pass of the operator, with the promise checked at the moment of the deletion."""
    plan = plan_of(worlds)
    if plan.candidate is None or plan.blocker is not None:
        return
    index = ORDER.index(plan.candidate.component)
    world = worlds[index]
    (victim,) = [m for m in world.members.values() if m.uid == plan.candidate.uid]
    others = [m for m in world.members.values() if m is not victim]
    assert victim.revision != world.seen, "only outdated pods are replaced"
    assert world.seen == world.revision, "only when the newest spec is known to the StatefulSet controller"
    assert plan.candidate.reason
    if victim.ready:
        assert len(others) == world.replicas - 1, "a missing pod is waited for"
        assert all(m.ready and not m.terminating for m in others), "a ready pod leaves only while all others are ready"
        for earlier in worlds[:index]:
            assert earlier.converged, "components are rolled in order"
    world.delete(plan.candidate.uid)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["operator", "operator", "operator", "kubelet", "kubelet", "controller", "spec", "flap"]),
        st.integers(0, 2),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), EVENTS)
def test_any_interleaving_keeps_the_promise_and_converges(
    sizes: list[int], events: list[tuple[str, int, int, bool]]
) -> None:
    worlds = [SteppedStatefulSet(f"my-{c.value}", n) for c, n in zip(ORDER, sizes, strict=False)]
    for world in worlds:
        world.create_missing()
        world.settle()
    for kind, component, ordinal, broken in events:
        world = worlds[component % len(worlds)]
        match kind:
            case "operator":
                act(worlds)
            case "kubelet":
                world.kubelet(ordinal)
            case "controller":
                world.create_missing()
            case "flap":
                world.flap(ordinal)
            case "spec":
                world.revision += 1
                if broken:
                    world.broken.add(world.revision)
    # In the end a working specification is applied, and nothing disturbs any more.
    for world in worlds:
        if world.revision in world.broken:
            world.revision += 1
    steps = 0
    while not all(world.converged for world in worlds):
        for world in worlds:
            world.settle()
        act(worlds)
        steps += 1
        assert steps <= 6 * sum(sizes) + 10, f"stuck: {plan_of(worlds).blocker}"
    assert plan_of(worlds) == Decision()


@given(st.integers(2, 5))
def test_a_broken_revision_takes_down_one_pod_and_no_more(size: int) -> None:
    world = SteppedStatefulSet("my-broker", size)
    world.create_missing()
    world.settle()
    world.revision, world.broken = 1, {1}
    for _ in range(20):
        world.settle()
        act([world])
    assert sum(m.ready for m in world.members.values()) == size - 1


def test_a_cluster_that_was_never_up_is_repaired_whole() -> None:
    """All pods of a first, broken revision, where none can be ready before all are new: as with a ZooKeeper quorum."""
    world = SteppedStatefulSet("my-zookeeper", 3, broken={0, 1})
    world.create_missing()
    world.revision = 1
    for _ in range(10):
        world.settle()
        act([world])
    assert all(m.revision == 1 for m in world.members.values())
