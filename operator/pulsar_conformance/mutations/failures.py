"""What breaks the checks of processes that are killed or stand still."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.counting.message import decode
from pulsar_conformance.mutations.storage import lost
from pulsar_conformance.tamper import Mutation, Rule, drop, drop_admin

NUMBER = 5
"""Of the message of the first key that is broken: every check publishes that many."""
_LAST = re.compile(r"state=CLOSED(.*?)lastEntryId=(\d+)")


def _chosen(data: bytes, *_args: Any, **_options: Any) -> bool:
    stamp = decode(data)
    return stamp is not None and (stamp.key, stamp.number) == (0, NUMBER)


def _answered(_call: Callable[..., Any], _data: bytes, callback: Callable[..., None], **_options: Any) -> None:
    """The sender gets a confirmation, and the message is not sent."""
    callback(pulsar.Result.Ok, None)


def _twice(call: Callable[..., Any], data: bytes, callback: Callable[..., None], **options: Any) -> None:
    """The message is sent as two: the client gives each its own sequence id."""
    call(data, lambda *_answer: None, **options)
    call(data, callback, **options)


class _Longer:
    """Closed ledgers of a topic have one entry more at each read."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, call: Callable[..., Any], *args: Any, **query: Any) -> Any:
        found = call(*args, **query)
        self._calls += 1
        for one in found["ledgers"]:
            one["metadata"] = _LAST.sub(
                lambda match: f"state=CLOSED{match[1]}lastEntryId={int(match[2]) + self._calls}", one["metadata"]
            )
        return found


def _reads_ledgers(method: str, path: str, *_args: Any, metadata: bool = False, **_query: Any) -> bool:
    return method == "GET" and path.endswith("/internalStats") and metadata


def _pauses(action: str, *_args: Any) -> bool:
    return action == "pause"


NOTHING = drop("faults", "fault")
LOST = Rule("producer", "send_async", _answered, _chosen)
TWICE = Rule("producer", "send_async", _twice, _chosen)
IDS = ("bookie_killed", "bookie_fenced", "broker_killed", "zookeeper_leader_killed", "zookeeper_lost", "proxy_killed")

MUTATIONS = (
    *(Mutation(f"failures.{name}", "kept", "nothing happens to any process", (NOTHING,)) for name in IDS),
    *(
        Mutation(f"failures.{name}", "lost", "one message is acknowledged to its sender and kept nowhere", (LOST,))
        for name in IDS
    ),
    Mutation(
        "failures.bookie_killed",
        "back",
        "the bookie is back immediately, so that nothing is replicated again",
        (Rule("faults", "fault", lambda _call, *_args: None, _pauses),),
    ),
    Mutation("failures.bookie_killed", "forgotten", "one message published before is kept nowhere", (lost("m7"),)),
    Mutation(
        "failures.bookie_fenced",
        "added",
        "the recovered ledger grows",
        (Rule("admin", "call", _Longer(), _reads_ledgers),),
    ),
    Mutation(
        "failures.bookie_fenced",
        "twice",
        "one message is stored twice",
        (TWICE,),
    ),
    Mutation("failures.broker_killed", "forgotten", "one message published before is kept nowhere", (lost("m7"),)),
    Mutation(
        "failures.zookeeper_leader_killed",
        "unmade",
        "one of the topics is not made",
        (drop_admin("PUT", r"/made-3$"),),
    ),
    Mutation(
        "failures.proxy_killed",
        "forgotten",
        "one message published before is kept nowhere",
        (lost("before client-3"),),
    ),
)
