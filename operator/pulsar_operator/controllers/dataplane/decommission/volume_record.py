"""Records the volumes of bookies. A bookie that is not up and has another volume than the recorded one lost its
data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import claims, discard, own_bookies, refused_again
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.dataplane.cluster.cluster_view import VolumesFact
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    parse_decommission_record,
)
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim, EmptyMark, unknown_volume
from pulsar_operator.domain.dataplane.decommission.volume_record import (
    VOLUMES_PATH,
    lost_volumes,
    parse_volumes,
    recorded,
    volumes_data,
)
from pulsar_operator.domain.dataplane.decommission.volume_sizes import smaller_claims
from pulsar_operator.domain.dataplane.objects.pods import pods_of
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of
from pulsar_operator.domain.render import selector_text
from pulsar_operator.ports import PODS, ConflictError, Json, Node, NotFoundError, PortError, ZooKeeperSession


async def volumes(ctx: PhaseContext) -> VolumesFact | None:
    """Reads the volumes and records changes. None if not known. Raises PortError of Kubernetes alone."""
    there, metadata, storage = ctx.live.stateful_set(Component.BOOKIE), ctx.view.metadata, ctx.view.storage
    if there is None or metadata is None or not metadata.local_ready or storage is None or storage.facts is None:
        return None
    own, facts, store = own_bookies(ctx), storage.facts, local_store(ctx)
    try:
        session = await ctx.actor.deps.zookeeper.session(store.servers, store.chroot)
        node, record = await session.get(VOLUMES_PATH), await session.get(DECOMMISSION_RECORD_PATH)
    except PortError:
        return None
    try:
        known = parse_volumes(node.data) if node is not None else {}
    except UndecodableError as error:
        return VolumesFact({}, _smaller(ctx, there), problem=str(error))
    ordinals = _ordinals(own, replicas_of(there), {*known, *facts.cookies, *facts.missing})
    every, replicas = await claims(ctx, ordinals, read=ctx.facts.claims), replicas_of(there)
    try:
        decommission = parse_decommission_record(record.data) if record is not None else None
        renewed = decommission.bookie if decommission is not None and decommission.renewal is not None else None
        component = ctx.live.facts(Component.BOOKIE)
        ready = {pod.ordinal for pod in component.pods if pod.ready} if component is not None else set()
        found = recorded(known, own, every, facts, replicas=replicas, ready=ready, renewed=renewed)
        if found.volumes != known:
            ready = await _ready_now(ctx, there)
            found = recorded(known, own, every, facts, replicas=replicas, ready=ready, renewed=renewed)
        if found.volumes != known and ctx.actor.act:
            await _write(session, node, volumes_data(found.volumes))
            for other in found.others:
                await ctx.actor.warn(Reason.FOREIGN_VOLUME, f"{other}: {_ADVICE}")
    except PortError:
        return None
    refused = await _marked(ctx, there, every, own, facts, instance_id=metadata.instance_id)
    lost = {}
    for ordinal in range(replicas):
        bookie = own.id(ordinal)
        if bookie in facts.cookies and bookie not in facts.registered:
            words = lost_volumes(known.get(bookie, {}), [claim for claim in every if claim.ordinal == ordinal])
            if words:
                lost[ordinal] = "; ".join(words)
    return VolumesFact(lost, _smaller(ctx, there), refused, foreign=_foreign(ctx, there, every, own, facts))


def _foreign(
    ctx: PhaseContext, there: Json, every: Sequence[Claim], own: OwnBookies, facts: StorageFacts
) -> str | None:
    """Returns why a bookie with the volume of another is not up, as a message: its pod was created only so that the
    others could be created. None if there is no such bookie."""
    component, since = ctx.live.facts(Component.BOOKIE), str(there["metadata"].get("creationTimestamp") or "")
    for pod in component.pods if component is not None else ():
        bookie = own.last_id(pod.ordinal)
        if pod.ready or pod.terminating or bookie in facts.cookies or bookie in facts.registered:
            continue
        found = unknown_volume(bookie, [claim for claim in every if claim.ordinal == pod.ordinal], since)
        if found is not None:
            return found
    return None


def _smaller(ctx: PhaseContext, there: Json) -> str | None:
    return smaller_claims(ctx.facts.claims, str(there["metadata"]["name"]), replicas_of(there))


def _ordinals(own: OwnBookies, replicas: int, bookies: Iterable[str]) -> set[int]:
    """Returns ordinals that have a pod or had a bookie."""
    return {*range(replicas), *(number for each in bookies if (number := own.ordinal(each)) is not None)}


async def _ready_now(ctx: PhaseContext, there: Json) -> set[int]:
    """Returns ordinals whose pods are ready, read after the claims. Raises PortError."""
    owner = ctx.facts.owner
    found = await ctx.actor.deps.kube.list(PODS, owner.namespace, selector=selector_text(owner, Component.BOOKIE))
    return {pod.ordinal for pod in pods_of(there, found) if pod.ready and not pod.terminating}


async def _marked(
    ctx: PhaseContext,
    there: Json,
    every: Sequence[Claim],
    own: OwnBookies,
    facts: StorageFacts,
    *,
    instance_id: str | None,
) -> str | None:
    """Deletes claims that are marked as empty, with their pod: the pod was created by a manual scale-out, and cannot
    start on them. Returns why such a pod stays, as a message. None if none stays."""
    stays = None
    component = ctx.live.facts(Component.BOOKIE)
    for pod in component.pods if component is not None else ():
        bookie = own.id(pod.ordinal)
        if instance_id is None or pod.ready or bookie in facts.cookies or bookie in facts.registered:
            continue
        here = EmptyMark(bookie, instance_id, "")
        own_claims = [claim for claim in every if claim.ordinal == pod.ordinal]
        if not own_claims or not all(here.same(claim.mark) for claim in own_claims):
            continue
        # What nobody can take back is looked at once more.
        own_claims = [claim for claim in await claims(ctx, [pod.ordinal]) if claim.ordinal == pod.ordinal]
        if not own_claims or not all(here.same(claim.mark) for claim in own_claims):
            continue
        if refused := await refused_again(ctx, there, pod.uid):
            stays = stays or f"The volumes of bookie {bookie} are marked as empty. {refused.message}"
            continue
        await discard(ctx, own_claims, f"bookie {bookie} is marked as empty and starts again with a new volume")
        if not pod.terminating:
            await ctx.actor.delete(
                PODS, dict(pod.raw), "the pod never starts on volumes that are marked as empty", reason=Reason.DELETED
            )
    return stays


_ADVICE = (
    "If the volume was replaced by a copy, the copy lacks entries that were written later. To empty the bookie "
    "and start it with a new volume, set annotation replace-volume on its pod"
)


async def _write(session: ZooKeeperSession, node: Node | None, data: bytes) -> None:
    """Writes the record. If another pass, or a restored store, was faster, the next pass checks again."""
    try:
        if node is None:
            await session.create(VOLUMES_PATH, data)
        else:
            await session.set(VOLUMES_PATH, data, version=node.version)
    except (ConflictError, NotFoundError):
        return
