"""The state of the servers of a ZooKeeper ensemble, and what a rollout waits for. Pure.

The leader is replaced last: each server that is replaced before it costs the clients one connection, and the leader an
election besides. No server is replaced while another is missing or behind, since only a quorum would be left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["leader", "follower", "observer", "standalone"]
"""Mode as reported by srvr. A server without a quorum has none: it serves no requests."""


@dataclass(frozen=True)
class ServerState:
    """The state of one server, as it reports it."""

    mode: Mode
    zxid: int
    """Its last transaction; the upper 32 bits are the epoch of the leader that created it."""
    synced_followers: int | None = None
    """Of a leader: followers to which it sends every transaction; None for the others. A follower that still receives a
    snapshot is among them (source: ZooKeeper's Leader, startForwarding), and does not answer yet."""


def leader_of(states: Mapping[str, ServerState | None]) -> str | None:
    """Returns the pod whose server leads; None while no server does, or two report it, as briefly after a partition."""
    leaders = _leaders(states)
    return leaders[0] if len(leaders) == 1 else None


def unsynced(states: Mapping[str, ServerState | None], replicas: int) -> str | None:
    """Returns what is wrong with an ensemble of this size, as a sentence; None if all servers answer and follow their
    leader. ``servers`` are by pod.

    Both are needed: the leader counts followers that are not ready to serve yet, and a server that answers may follow
    another leader.
    """
    silent = [name for name, state in states.items() if state is None]
    if silent:
        return f"ZooKeeper {_servers(silent)} {'do' if len(silent) > 1 else 'does'} not answer"
    if len(states) < replicas:
        return f"The state of only {len(states)} of {replicas} ZooKeeper servers is known"
    alone = [name for name, state in states.items() if state is not None and state.mode == "standalone"]
    if alone:
        if len(states) == replicas == 1:
            return None
        return f"ZooKeeper server {alone[0]} runs standalone, outside of the ensemble"
    leaders = _leaders(states)
    if not leaders:
        return "The ZooKeeper servers have no leader"
    if len(leaders) > 1:
        return f"ZooKeeper {_servers(leaders)} each report that they lead"
    leader, desired = states[leaders[0]], replicas - 1
    followers = leader.synced_followers if leader is not None else None
    if followers is None:
        return f"ZooKeeper leader {leaders[0]} did not return how many servers follow it"
    if followers < desired:
        return f"Only {followers} of {desired} ZooKeeper servers are in sync with leader {leaders[0]}"
    return None


def _leaders(states: Mapping[str, ServerState | None]) -> list[str]:
    return [name for name, state in states.items() if state is not None and state.mode == "leader"]


def _servers(names: Sequence[str]) -> str:
    return f"server {names[0]}" if len(names) == 1 else f"servers {', '.join(names[:-1])} and {names[-1]}"
