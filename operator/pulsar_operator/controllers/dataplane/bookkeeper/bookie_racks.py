"""Writes the racks of bookies into the metadata store, removes them, and annotates the pods that wait for them.

The racks themselves are a fact (observed/rack_facts.py). Entries of other writers are kept, and a znode that cannot be
read is not overwritten (domain/bookkeeper/rack_entries.py). What the operator wrote is recorded first, so that it
removes nothing else: once a bookie is gone with its cookie, and once racks are removed from the specification.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pulsar_operator.api.constants import ANNOTATION_RACK, Component
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import own_bookies
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.bookkeeper.bookie_racks import by_ordinal, racks_known, unreadable
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.rack_entries import (
    RACKS_PATH,
    RECORD_PATH,
    Entries,
    entries_data,
    inherited,
    merged,
    parse_entries,
    parse_record,
    racks_of,
    record_data,
)
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.dataplane.cluster.cluster_view import RacksFact
from pulsar_operator.domain.dataplane.objects.pods import PodFacts, pods_of
from pulsar_operator.ports import PODS, ConflictError, Node, NotFoundError, PortError, ZooKeeperSession


async def racks(ctx: PhaseContext) -> RacksFact:
    """Writes known racks that are missing. Raises PortError of Kubernetes alone."""
    metadata, storage = ctx.view.metadata, ctx.view.storage
    if metadata is None or not metadata.local_ready or storage is None or storage.facts is None:
        return _fact(ctx, None, problem=storage.problem if storage is not None else None)
    store = local_store(ctx)
    try:
        session = await ctx.actor.deps.zookeeper.session(store.servers, store.chroot)
        await _inherit(ctx, session)
        written = await _written(ctx, session, storage.facts)
    except PortError as error:
        return _fact(ctx, None, problem=str(error))
    except UndecodableError as error:
        return RacksFact(condition=unreadable(str(error)))
    if written is None:
        return RacksFact()
    found = _fact(ctx, written)
    again = written.again or not await _annotate_pods(ctx, written.racks)
    return replace(found, again=again and ctx.actor.act)


@dataclass(frozen=True)
class _Written:
    """What the store contains after this pass."""

    racks: Mapping[str, str] = field(hash=False)
    ours: frozenset[str] = frozenset()
    again: bool = False


def _fact(ctx: PhaseContext, written: _Written | None, *, problem: str | None = None) -> RacksFact:
    keeper = ctx.facts.spec.bookkeeper
    racks = written.racks if written is not None else None
    condition = racks_known(keeper.racks if keeper is not None else None, ctx.facts.racks, racks, problem)
    return RacksFact(racks, written.ours if written is not None else frozenset(), condition)


async def _inherit(ctx: PhaseContext, session: ZooKeeperSession) -> None:
    """Adds bookies that return under another id to their former groups. Raises PortError."""
    own, ordinals = own_bookies(ctx), _ordinals(ctx)
    if not any(slot[1] for each in ordinals for later in own.ids(each) if (slot := own.slot(later)) is not None):
        return
    there = await session.get(RACKS_PATH)
    try:
        before = parse_entries(there.data) if there is not None else {}
    except UndecodableError:
        return  # brokers cannot read it either, and it is not written over
    after = inherited(before, own, ordinals)
    if there is None or after == before:
        return
    text = f"new groups of bookies to znode {RACKS_PATH}: {_renamed(before, after)}"
    if not ctx.actor.act:
        ctx.actor.pending.append(f"Write {text}")
        return
    try:
        await session.set(RACKS_PATH, entries_data(after), version=there.version)
    except (ConflictError, NotFoundError):
        return  # another writer was faster: the next pass looks again
    ctx.actor.record_write(f"Wrote {text}")


def _renamed(before: Entries, after: Entries) -> str:
    """Returns which bookies were added to which groups, as a message."""
    new = [f"{each} in {group}" for group in after for each in after[group] if each not in before.get(group, {})]
    more = f" (and {len(new) - 3} more)" if len(new) > 3 else ""
    return f"{', '.join(new[:3])}{more}"


async def _written(ctx: PhaseContext, session: ZooKeeperSession, storage: StorageFacts) -> _Written | None:
    """Writes the entries that are missing or outdated; returns None if there is nothing to write, and nothing of the
    operator. Raises PortError, and UndecodableError if the znode cannot be read.
    """
    desired, node = _desired_racks(ctx, storage), await session.get(RECORD_PATH)
    record = parse_record(node.data) if node is not None else {}
    if not desired and not record and ctx.facts.racks is None:
        return None
    there = await session.get(RACKS_PATH)
    before = parse_entries(there.data) if there is not None else {}
    gone = _gone(ctx, record, storage)
    after = merged(before, desired, gone)
    kept = {bookie: rack for bookie, rack in record.items() if bookie not in gone} | desired
    if after == before and kept == record:
        return _Written(racks_of(before), frozenset(kept))
    text = _words(racks_of(before), racks_of(after))
    if not ctx.actor.act:
        if after != before:
            ctx.actor.pending.append(f"Write {text}")
        return _Written(racks_of(before), frozenset(record))
    try:
        # First what will be ours, then what is not any more.
        node = await _put(session, RECORD_PATH, node, record_data(record | desired))
        if after != before:
            await _put(session, RACKS_PATH, there, entries_data(after))
            ctx.actor.record_write(f"Wrote {text}")
        await _put(session, RECORD_PATH, node, record_data(kept))
    except (ConflictError, NotFoundError):
        return _Written(racks_of(before), frozenset(record), again=True)
    return _Written(racks_of(after), frozenset(kept))


def _desired_racks(ctx: PhaseContext, storage: StorageFacts) -> dict[str, str]:
    """Returns the rack by bookie id, of bookies whose rack is known, and of those that may have to be created again:
    they have a cookie, and no pod."""
    known, own = ctx.facts.racks, own_bookies(ctx)
    if known is None:
        return {}
    remembered = [ordinal for each in storage.cookies if (ordinal := own.ordinal(each)) is not None]
    of = sorted({**_named(ctx, remembered), **known.of}.items())
    return {bookie: rack for ordinal, rack in of for bookie in sorted(own.ids(ordinal))}


def _named(ctx: PhaseContext, ordinals: Collection[int]) -> Mapping[int, str]:
    """Returns the racks of these ordinals from the specification; none if pods have them."""
    keeper = ctx.facts.spec.bookkeeper
    names = keeper.racks.by_ordinal if keeper is not None and keeper.racks is not None else None
    return by_ordinal(names, ordinals).of if names is not None else {}


def _gone(ctx: PhaseContext, record: Mapping[str, str], storage: StorageFacts) -> dict[str, str]:
    """Returns entries of the operator that are not needed: all without racks in the specification, else those of
    bookies that are neither desired nor existing, and have no cookie."""
    if ctx.facts.racks is None:
        return dict(record)
    own = own_bookies(ctx)
    stay = {each for ordinal in _ordinals(ctx) for each in own.ids(ordinal)} | storage.cookies | storage.registered
    return {bookie: rack for bookie, rack in record.items() if bookie not in stay}


def _ordinals(ctx: PhaseContext) -> set[int]:
    """Returns ordinals of bookies that are desired, or have a pod."""
    there = ctx.live.stateful_set(Component.BOOKIE)
    replicas = int(there["spec"].get("replicas", 1)) if there is not None else 0
    return {*range(max(replicas, len(ctx.rendered.bookie_ids))), *(pod.ordinal for pod in _pods(ctx))}


def _words(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Returns what changes, as a message."""
    changed = [f"{bookie} in {rack}" for bookie, rack in after.items() if before.get(bookie) != rack]
    changed += [f"{bookie} removed" for bookie in before if bookie not in after]
    more = f" (and {len(changed) - 3} more)" if len(changed) > 3 else ""
    return f"new racks of bookies to znode {RACKS_PATH}: {', '.join(changed[:3])}{more}"


async def _put(session: ZooKeeperSession, path: str, node: Node | None, data: bytes) -> Node:
    """Writes content at the version that was read, unless it is current. Raises ConflictError if another writer was
    faster, NotFoundError, UnavailableError."""
    if node is None:
        await session.create(path, data)
        return Node(data, 0)
    if node.data != data:
        await session.set(path, data, version=node.version)
        return Node(data, node.version + 1)
    return node


def _pods(ctx: PhaseContext) -> Collection[PodFacts]:
    there = ctx.live.stateful_set(Component.BOOKIE)
    return pods_of(there, ctx.live.pods(Component.BOOKIE)) if there is not None else ()


async def _annotate_pods(ctx: PhaseContext, written: Mapping[str, str]) -> bool:
    """Annotates each pod with the rack that the store has for it; its bookie waits for the annotation for a minute at
    most. Returns False if a pod was replaced in between. Raises PortError."""
    known, own, complete = ctx.facts.racks, own_bookies(ctx), True
    keeper = ctx.facts.spec.bookkeeper
    if known is None or keeper is None or keeper.racks is None or keeper.racks.topology_key is None:
        return True
    for pod in _pods(ctx):
        racks_there = {written.get(each) for each in own.ids(pod.ordinal)}
        rack, meta = racks_there.pop() if len(racks_there) == 1 else None, pod.raw["metadata"]
        current = (meta.get("annotations") or {}).get(ANNOTATION_RACK)
        if rack is None or rack != known.of.get(pod.ordinal) or rack == current or pod.terminating:
            continue
        if not ctx.actor.act:
            ctx.actor.pending.append(f"Annotate pod {pod.name} with rack {rack}")
            continue
        identity = {"name": pod.name, "namespace": meta["namespace"], "uid": pod.uid}
        annotated = {"metadata": {**identity, "annotations": {ANNOTATION_RACK: rack}}}
        try:
            await ctx.actor.deps.kube.apply({"apiVersion": PODS.api_version, "kind": PODS.kind, **annotated})
        except (ConflictError, NotFoundError):
            complete = False
            continue
        ctx.actor.record_write(f"Annotated pod {pod.name} with rack {rack}")
    return complete


def not_written(ctx: PhaseContext, ordinals: Collection[int]) -> str | None:
    """Returns what must be written before bookies of these ordinals are created, as a message: their racks, if these
    are known before there is a pod."""
    found, own = ctx.view.racks, own_bookies(ctx)
    written = (found.written if found is not None else None) or {}
    named = [(each, rack) for ordinal, rack in _named(ctx, ordinals).items() for each in sorted(own.ids(ordinal))]
    missing = [each for each, rack in named if written.get(each) != rack]
    if not missing:
        return None
    why = (
        f": {found.condition[2]}" if found is not None and found.condition is not None and found.written is None else ""
    )
    return f"The rack of bookie {missing[0]} is not in znode {RACKS_PATH} yet{why}"
