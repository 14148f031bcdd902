"""What the servers of a ZooKeeper ensemble say of themselves, and what a roll waits for. Pure.

The leader goes last: each server that is replaced before it costs the clients one connection, and the leader an
election besides. Nobody goes while another server is missing or behind, since a quorum is then all that is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["leader", "follower", "observer", "standalone"]
"""As srvr says it. A server that is in no quorum has none: it serves no requests."""


@dataclass(frozen=True)
class ServerState:
    """One server, as it answers for itself."""

    mode: Mode
    zxid: int
    """The last transaction it has; the upper 32 bits are the epoch of the leader that made it."""
    synced_followers: int | None = None
    """Of a leader: followers that it sends every transaction to; None for the others. One that still takes in a
    snapshot is among them (source: ZooKeeper's Leader, startForwarding), and does not answer for itself yet."""


def leader_of(states: Mapping[str, ServerState | None]) -> str | None:
    """The pod whose server leads; None while nobody does, or two say so, as for a moment after a partition."""
    leaders = _leaders(states)
    return leaders[0] if len(leaders) == 1 else None


def unsynced(states: Mapping[str, ServerState | None], replicas: int) -> str | None:
    """What is wrong with an ensemble of so many servers, by pod, as a sentence; None = all answer, and all follow their
    leader.

    Both are needed: the leader counts followers that are not ready to serve yet, and a server that answers may follow
    somebody else.
    """
    silent = [name for name, state in states.items() if state is None]
    if silent:
        return f"ZooKeeper {_servers(silent)} {'do' if len(silent) > 1 else 'does'} not answer"
    if len(states) < replicas:
        return f"ZooKeeper has {replicas} servers, and {len(states)} of them are known"
    alone = [name for name, state in states.items() if state is not None and state.mode == "standalone"]
    if alone:
        if len(states) == replicas == 1:
            return None
        return f"ZooKeeper server {alone[0]} serves alone, outside of the ensemble"
    leaders = _leaders(states)
    if not leaders:
        return "The ZooKeeper servers have no leader"
    if len(leaders) > 1:
        return f"ZooKeeper {_servers(leaders)} each report that they lead"
    leader, desired = states[leaders[0]], replicas - 1
    followers = leader.synced_followers if leader is not None else None
    if followers is None:
        return f"ZooKeeper server {leaders[0]} does not report how many servers follow it"
    if followers < desired:
        return f"ZooKeeper servers are behind: {followers} of {desired} follow leader {leaders[0]} in sync"
    return None


def _leaders(states: Mapping[str, ServerState | None]) -> list[str]:
    return [name for name, state in states.items() if state is not None and state.mode == "leader"]


def _servers(names: Sequence[str]) -> str:
    return f"server {names[0]}" if len(names) == 1 else f"servers {', '.join(names[:-1])} and {names[-1]}"
