"""Unloads topics, so that their brokers close the ledgers that they write to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pulsar_operator.ports import (
    AdminEndpoint,
    Deps,
    NotFoundError,
    PortError,
    RefusedError,
    UnavailableError,
    UnownedError,
)

UNLOADS: Final = 20
"""Topics unloaded in one pass, so a few a second: clients of each look it up and connect again."""
FAILURES: Final = 5
"""Topics of one pass that may fail before the rest waits for the next pass."""
BUDGET_SECONDS: Final = 20.0
"""Seconds of one pass, for topics that do not exist."""
DEADLINE_SECONDS: Final = 10.0
_COORDINATOR = re.compile(r"persistent://pulsar/system/__transaction_log_([0-9]+)")
_PENDING_ACK: Final = "__transaction_pending_ack"


@dataclass
class Unloaded:
    """Result of unloading topics."""

    done: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Messages."""
    last: str = ""
    """The last topic that was tried; empty if no broker answers, so that none was."""


async def unload(deps: Deps, endpoint: AdminEndpoint | None, topics: Sequence[str]) -> Unloaded:
    """Unloads a bounded number of topics by their full names, in their order; a failed one does not stop the next ones.

    A topic that no broker has loaded is loaded for it, which closes the ledger that was written last (class
    BrokerService, getTopicIfExists, and class PersistentTopicsBase, internalUnloadTopicAsync, of Pulsar 4.0.8): its
    data ledger is closed when it is opened, and so are the ledgers of its cursors.
    """
    found = Unloaded()
    if endpoint is None:
        found.failures.append("no broker is available to unload topics")
        return found
    begin = deps.clock.now()
    for topic in topics:
        spent = (deps.clock.now() - begin).total_seconds()
        if len(found.done) >= UNLOADS or len(found.failures) >= FAILURES or spent >= BUDGET_SECONDS:
            break
        known = False
        for name in unloaded_by(topic):
            try:
                known = await _unload(deps, endpoint, name) or known
            except UnavailableError as error:
                found.failures.append(f"{name}: {error}")
                if not error.status and not isinstance(error, UnownedError):
                    return found  # nobody answers
                break
            except PortError as error:
                found.failures.append(f"{name}: {error}")
                break
        else:
            # One that does not exist is done: nobody writes to it.
            found.done += [topic] if known else []
        found.last = topic
    return found


async def _unload(deps: Deps, endpoint: AdminEndpoint, topic: str) -> bool:
    """Unloads a topic; returns whether it exists. Raises PortError."""
    path = topic_path(topic)
    if path is None:
        raise RefusedError("the name of the topic cannot be used in a request")
    try:
        await deps.admin.call(endpoint, "PUT", (*path, "unload"), deadline=DEADLINE_SECONDS)
    except NotFoundError:
        return False
    return True


def unloaded_by(topic: str) -> list[str]:
    """Returns names of topics whose unloading also unloads what is stored under a topic's name.

    What transactions store is no topic, although its name looks like one (class BrokerService, createPersistentTopic0,
    refuses it): a coordinator's log is closed with the partition that assigns the coordinator (class
    TransactionMetadataStoreService), and pending acknowledgements of a subscription with its topic, whose name ends at
    one of the hyphens (class MLPendingAckStore, getTransactionPendingAckStoreSuffix).
    """
    log = _COORDINATOR.fullmatch(topic)
    if log is not None:
        return [f"persistent://pulsar/system/transaction_coordinator_assign-partition-{log[1]}"]
    if not topic.endswith(_PENDING_ACK):
        return [topic]
    kept = topic.removesuffix(_PENDING_ACK)
    start = kept.rfind("/") + 1
    return [kept[:place] for place in range(start + 1, len(kept)) if kept[place] == "-"] or [topic]


def topic_path(topic: str) -> tuple[str, str, str, str] | None:
    """Returns the path of a topic below /admin/v2; None if its name lacks parts, as of Pulsar before 2.0."""
    domain, _, rest = topic.partition("://")
    parts = rest.split("/")
    return (domain, parts[0], parts[1], parts[2]) if len(parts) == 3 and all((domain, *parts)) else None
