"""Who leads an ensemble, and what is waited for before one of its servers goes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState, leader_of, unsynced

LEADER = ServerState("leader", 0x200000001, 2)
FOLLOWER = ServerState("follower", 0x200000001)
OBSERVER = ServerState("observer", 0x200000001)
ALONE = ServerState("standalone", 1)


def names(*states: ServerState | None) -> dict[str, ServerState | None]:
    return {f"zk-{ordinal}": state for ordinal, state in enumerate(states)}


@pytest.mark.parametrize(
    ("states", "replicas", "leader", "waiting"),
    [
        ((FOLLOWER, LEADER, FOLLOWER), 3, "zk-1", None),
        ((replace(LEADER, synced_followers=3), FOLLOWER, FOLLOWER), 3, "zk-0", None),
        ((replace(LEADER, synced_followers=0),), 1, "zk-0", None),
        ((ALONE,), 1, None, None),
        ((ALONE, LEADER), 1, "zk-1", "ZooKeeper server zk-0 runs standalone, outside of the ensemble"),
        ((LEADER, None, FOLLOWER), 3, "zk-0", "ZooKeeper server zk-1 does not answer"),
        ((None, None, None), 3, None, "ZooKeeper servers zk-0, zk-1 and zk-2 do not answer"),
        ((LEADER, FOLLOWER), 3, "zk-0", "The state of only 2 of 3 ZooKeeper servers is known"),
        ((), 1, None, "The state of only 0 of 1 ZooKeeper servers is known"),
        ((FOLLOWER, FOLLOWER, FOLLOWER), 3, None, "The ZooKeeper servers have no leader"),
        ((LEADER, LEADER, FOLLOWER), 3, None, "ZooKeeper servers zk-0 and zk-1 each report that they lead"),
        (
            (LEADER, FOLLOWER, ALONE),
            3,
            "zk-0",
            "ZooKeeper server zk-2 runs standalone, outside of the ensemble",
        ),
        (
            (replace(LEADER, synced_followers=1), FOLLOWER, FOLLOWER),
            3,
            "zk-0",
            "Only 1 of 2 ZooKeeper servers are in sync with leader zk-0",
        ),
        (
            (replace(LEADER, synced_followers=1), FOLLOWER, OBSERVER),
            3,
            "zk-0",
            "Only 1 of 2 ZooKeeper servers are in sync with leader zk-0",
        ),
        (
            (replace(LEADER, synced_followers=None), FOLLOWER, FOLLOWER),
            3,
            "zk-0",
            "ZooKeeper leader zk-0 did not return how many servers follow it",
        ),
    ],
)
def test_what_is_waited_for(
    states: tuple[ServerState | None, ...], replicas: int, leader: str | None, waiting: str | None
) -> None:
    assert leader_of(names(*states)) == leader
    assert unsynced(names(*states), replicas) == waiting


STATES = st.one_of(
    st.none(),
    st.builds(
        ServerState,
        st.sampled_from(["leader", "follower", "observer", "standalone"]),
        st.integers(0, 2**64 - 1),
        st.one_of(st.none(), st.integers(0, 5)),
    ),
)


@given(st.lists(STATES, max_size=5), st.integers(1, 5))
def test_nothing_is_waited_for_only_where_one_may_go(found: list[ServerState | None], replicas: int) -> None:
    states = names(*found)
    if unsynced(states, replicas) is not None:
        return
    assert None not in found and len(found) >= replicas
    leader = leader_of(states)
    if leader is None:
        assert replicas == 1
        return
    state = states[leader]
    assert state is not None and state.synced_followers is not None and state.synced_followers >= replicas - 1


@given(st.lists(STATES, max_size=5), st.integers(1, 5))
def test_what_is_waited_for_stays_the_same_while_nothing_but_transactions_happen(
    found: list[ServerState | None], replicas: int
) -> None:
    """A message that changes is a write of the status."""
    later = [state and replace(state, zxid=state.zxid + 1) for state in found]
    assert unsynced(names(*found), replicas) == unsynced(names(*later), replicas)
