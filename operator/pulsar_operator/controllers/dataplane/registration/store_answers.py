"""Reads of the configuration store. A store that gives no answer is not a store that lacks the node."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import AT_ONCE
from pulsar_operator.domain.dataplane.registration.registration import Stored
from pulsar_operator.ports import ConflictError, NotFoundError, PortError, ZooKeeperSession

T = TypeVar("T")


class SilentError(Exception):
    """The configuration store gave no usable answer."""


async def answer_of(call: Awaitable[T]) -> T:
    """Returns the answer of ZooKeeper."""
    try:
        return await call
    except (ConflictError, NotFoundError):
        raise
    except PortError as error:
        raise SilentError(str(error)) from error


async def stored_at(session: ZooKeeperSession, paths: Sequence[str]) -> dict[str, Stored | None]:
    """Returns the nodes by path; None for one that does not exist."""
    nodes = await each_of(paths, lambda path: answer_of(session.get(path)), AT_ONCE)
    stored = (None if node is None else Stored(node.data, node.version) for node in nodes)
    return dict(zip(paths, stored, strict=True))


async def stored_below(session: ZooKeeperSession, path: str) -> dict[str, Stored]:
    """Returns all nodes below one."""
    found: dict[str, Stored] = {}
    for name in await answer_of(session.children(path)) or ():
        child = f"{path}/{name}"
        node = await answer_of(session.get(child))
        if node is not None:
            found[child] = Stored(node.data, node.version)
            found |= await stored_below(session, child)
    return found
