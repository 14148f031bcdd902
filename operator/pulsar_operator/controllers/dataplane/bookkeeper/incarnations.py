"""The count of the bookies' incarnations is kept in the metadata store (domain/bookkeeper/bookie_ids.py), and a copy of
it in the ConfigMap with the instance id, which outlives the PulsarCluster.

A number only rises, in the copy first. An operator that is stopped between two writes leaves a number that was raised
without need, which is harmless: a bookie whose volumes hold an id keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Component
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_manifest, record_name, write_record
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.domain.bookkeeper.bookie_ids import (
    INCARNATIONS_PATH,
    Counts,
    OwnBookies,
    highest,
    incarnations_data,
    parse_incarnations,
    raised,
    settled,
    used_ids,
)
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, own_bookies_of
from pulsar_operator.domain.dataplane.decommission.volume_claims import parse_empty_mark
from pulsar_operator.domain.dataplane.registration.metadata import DamagedRecordError, parse_record
from pulsar_operator.domain.render import ListenerPlan
from pulsar_operator.domain.render.child_names import labels
from pulsar_operator.ports import CONFIG_MAPS, ConflictError, Deps, NotFoundError, UnavailableError, ZooKeeperSession


def own_bookies_in(facts: ClusterFacts, storage: StorageFacts | None) -> OwnBookies:
    """Returns the ids of the cluster's own bookies, with the incarnations in the metadata store."""
    bookies = ListenerPlan(facts.owner, Component.BOOKIE, facts.spec.cluster_domain)
    return own_bookies_of(bookies.bookie_id(0), storage)


@dataclass(frozen=True)
class CountCopy:
    """The copy of the count in Kubernetes."""

    deps: Deps
    facts: ClusterFacts

    @property
    def counts(self) -> Counts:
        """The counts, as this pass read them."""
        return self.facts.record.incarnations if self.facts.record is not None else {}

    def marked(self) -> Iterator[str]:
        """Removed bookies that claims marked as empty name: their ids were used."""
        for claim in self.facts.claims:
            mark = parse_empty_mark((claim["metadata"].get("annotations") or {}).get(ANNOTATION_VERIFIED_EMPTY))
            if mark is not None:
                yield mark.bookie

    async def write(self, counts: Counts) -> None:
        """Increases the counts in the copy to these values. Raises PortError, including ConflictError if another writer
        was faster."""
        if highest(self.counts, counts) == self.counts:
            return
        # Bootstrap may have written the ConfigMap in this pass.
        meta = self.facts.meta
        read = await self.deps.kube.get(CONFIG_MAPS, meta.namespace, record_name(meta.name))
        try:
            record = parse_record((read or {}).get("data") or {})
        except DamagedRecordError as error:
            text = f"ConfigMap {record_name(meta.name)} cannot store the count of the bookies' incarnations: {error}"
            raise UnavailableError(text) from None
        desired = highest(record.incarnations, counts)
        if desired != record.incarnations:
            changed = replace(record, incarnations=desired)
            manifest = record_manifest(meta.name, meta.namespace, labels(self.facts.owner, None), changed)
            await write_record(self.deps, manifest, read)


async def settle(session: ZooKeeperSession, own: OwnBookies, facts: StorageFacts, copy: CountCopy) -> StorageFacts:
    """Counts present bookies, and the next incarnation of each ordinal whose cookie is gone, from all places that know
    of them. Returns the facts with the recorded counts. Raises PortError."""
    known = highest(facts.incarnations, copy.counts, used_ids(own, copy.marked()))
    counts = settled(replace(own, counts=known), facts.cookies, facts.registered)
    try:
        await copy.write(counts)
        if counts == facts.incarnations:
            return facts
        node = await session.get(INCARNATIONS_PATH)
        if _parsed(node.data if node is not None else b"") != facts.incarnations:
            return facts  # another pass was faster: the next one looks again
        await _put(session, counts, node.version if node is not None else None)
    except (ConflictError, NotFoundError):
        return facts
    return replace(facts, incarnations=counts)


async def spend(session: ZooKeeperSession, own: OwnBookies, bookie: str, copy: CountCopy) -> None:
    """Raises the number, so that no bookie starts empty under this id again. Raises PortError, including ConflictError
    if another writer was faster."""
    slot, node = own.slot(bookie), await session.get(INCARNATIONS_PATH)
    if slot is None:
        return
    before = _parsed(node.data if node is not None else b"")
    after = raised(highest(before, copy.counts), *slot)
    await copy.write(after)
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
