"""The count of the bookies' incarnations is kept in the metadata store (domain/bookkeeper/identity.py).

A number only rises. Whoever is stopped between two writes leaves a number that was raised for nothing, which is no
harm: a bookie whose volumes hold an id keeps it.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.dataplane.facts import ClusterFacts
from pulsar_operator.domain.bookkeeper.facts import StorageFacts, own_bookies_of
from pulsar_operator.domain.bookkeeper.identity import (
    INCARNATIONS_PATH,
    Counts,
    OwnBookies,
    incarnations_data,
    parse_incarnations,
    raised,
    settled,
)
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.render.names import bookie_id, workload_name
from pulsar_operator.ports import ConflictError, NotFoundError, UnavailableError, ZooKeeperSession


def own_bookies_in(facts: ClusterFacts, storage: StorageFacts | None) -> OwnBookies:
    """How the ids of the cluster's own bookies are made, and which incarnations the metadata store has of them."""
    workload = workload_name(facts.owner.name, Component.BOOKIE)
    return own_bookies_of(bookie_id(workload, 0, facts.owner.namespace, facts.spec.cluster_domain), storage)


async def settle(session: ZooKeeperSession, own: OwnBookies, facts: StorageFacts) -> StorageFacts:
    """Count what is present, and the next incarnation of each ordinal whose cookie is gone. The facts with what is on
    record then. Raises PortError."""
    counts = settled(own, facts.cookies, facts.registered)
    if counts == facts.incarnations:
        return facts
    node = await session.get(INCARNATIONS_PATH)
    if _parsed(node.data if node is not None else b"") != facts.incarnations:
        return facts  # another pass was faster: the next one looks again
    try:
        await _put(session, counts, node.version if node is not None else None)
    except (ConflictError, NotFoundError):
        return facts
    return replace(facts, incarnations=counts)


async def spend(session: ZooKeeperSession, own: OwnBookies, bookie: str) -> None:
    """Nobody starts empty under this id any more. Raises PortError, ConflictError among them where somebody else wrote
    meanwhile."""
    slot, node = own.slot(bookie), await session.get(INCARNATIONS_PATH)
    if slot is None:
        return
    before = _parsed(node.data if node is not None else b"")
    after = raised(before, *slot)
    if after != before:
        await _put(session, after, node.version if node is not None else None)


async def _put(session: ZooKeeperSession, counts: Counts, version: int | None) -> None:
    if version is None:
        await session.create(INCARNATIONS_PATH, incarnations_data(counts))
    else:
        await session.set(INCARNATIONS_PATH, incarnations_data(counts), version=version)


def _parsed(data: bytes) -> Counts:
    try:
        return parse_incarnations(data)
    except UndecodableError as error:
        raise UnavailableError(str(error)) from None
