"""Topics are unloaded, so that their brokers close the ledgers that they write to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pulsar_operator.ports import AdminEndpoint, Deps, NotFoundError, PortError, UnavailableError, UnownedError

UNLOADS: Final = 20
"""Topics unloaded in one pass, so a few in a second: clients of each look for it and connect again."""
ASKED: Final = 200
"""Topics asked for in one pass, with those that do not exist."""
DEADLINE_SECONDS: Final = 10.0


@dataclass
class Unloaded:
    """What came of it."""

    done: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    """Topics that Pulsar says do not exist."""
    failures: list[str] = field(default_factory=list)
    """In words."""


async def unload(deps: Deps, endpoint: AdminEndpoint | None, topics: Sequence[str]) -> Unloaded:
    """Unload topics by their full names, a bounded number.

    One that no broker has is loaded for it, which closes the ledger that was written last (class BrokerService,
    getTopicIfExists, and class PersistentTopicsBase, internalUnloadTopicAsync, of Pulsar 4.0.8): its data ledger is
    closed when it is opened, and so are the ledgers of its cursors.
    """
    found = Unloaded()
    if endpoint is None:
        found.failures.append("there are no brokers to unload topics")
        return found
    for topic in topics[:ASKED]:
        if len(found.done) >= UNLOADS:
            break
        path = topic_path(topic)
        if path is None:
            found.failures.append(f"{topic} has a name that cannot be asked for")
            continue
        try:
            await deps.admin.call(endpoint, "PUT", (*path, "unload"), deadline=DEADLINE_SECONDS)
        except NotFoundError:
            found.unknown.add(topic)
        except UnownedError as error:
            found.failures.append(f"{topic}: {error}")
        except UnavailableError as error:
            found.failures.append(f"{topic}: {error}")
            break
        except PortError as error:
            found.failures.append(f"{topic}: {error}")
        else:
            found.done.append(topic)
    return found


def topic_path(topic: str) -> tuple[str, str, str, str] | None:
    """Where a topic is below /admin/v2; None where its name has not the parts of one, as of Pulsar before 2.0."""
    domain, _, rest = topic.partition("://")
    parts = rest.split("/")
    return (domain, parts[0], parts[1], parts[2]) if len(parts) == 3 and all((domain, *parts)) else None
