"""Volumes of bookies: decides from the existing claims which ordinals may have a pod, and marks claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Component, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.controllers.dataplane.bookkeeper.incarnations import own_bookies_in
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.objects.pod_successors import refused_successor
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    parse_decommission_record,
)
from pulsar_operator.domain.dataplane.decommission.volume_claims import (
    Claim,
    EmptyMark,
    Return,
    claims_of,
    may_return,
    still_exists,
)
from pulsar_operator.domain.dataplane.objects.pods import pods_of
from pulsar_operator.domain.render.child_names import selector_text, workload_name
from pulsar_operator.ports import PVCS, STATEFUL_SETS, Json, PortError


def own_bookies(ctx: PhaseContext, facts: StorageFacts | None = None) -> OwnBookies:
    """Returns the ids of the cluster's own bookies by ordinal and incarnation, from these facts or those of this
    pass."""
    if facts is None and ctx.view.storage is not None:
        facts = ctx.view.storage.facts
    return own_bookies_in(ctx.facts, facts)


async def claims(ctx: PhaseContext, ordinals: Iterable[int], *, read: Sequence[Json] | None = None) -> list[Claim]:
    """Returns the current claims of the bookies' volumes: all with the operator's labels, and of these ordinals also
    those without.

    A StatefulSet gives its claims the labels of its selector, and takes a claim by its name alone, so a user who
    restores a volume need not know the labels. So a claim of these ordinals that is not among the labelled ones is read
    by its name. ``read`` are the labelled ones, if this pass has read them. Raises PortError.
    """
    owner, kube = ctx.facts.owner, ctx.actor.deps.kube
    workload = next(each for each in ctx.rendered.of(Component.BOOKIE) if each["kind"] == STATEFUL_SETS.kind)
    volumes = {each["metadata"]["name"] for each in workload["spec"]["volumeClaimTemplates"]}
    if read is None:
        read = await kube.list(PVCS, owner.namespace, selector=selector_text(owner, Component.BOOKIE))
    name = workload_name(owner.name, Component.BOOKIE)
    desired = {f"{volume}-{name}-{ordinal}" for ordinal in ordinals for volume in volumes}
    unlabelled = []
    for each in sorted(desired - {str(claim["metadata"]["name"]) for claim in read}):
        found = await kube.get(PVCS, owner.namespace, each)
        if found is not None:
            unlabelled.append(found)
    return claims_of(name, [*read, *unlabelled], volumes)


@dataclass(frozen=True)
class Returns:
    """Which ordinals may have a pod."""

    free: int
    """How many of them may, counted from the first."""
    blocker: Blocker | None = None
    """Why the others may not yet."""
    foreign: str | None = None
    """Why one of them cannot return, as a message."""
    through: int = 0
    """How many must be created, counted from the first, so that each that is not blocked gets its pod; a pod on a
    foreign volume among them does not start."""


async def returns(ctx: PhaseContext, ordinals: Iterable[int], cookies: frozenset[str]) -> Returns:
    """Decides which ordinals may have a pod. Claims that are marked as empty are deleted first, and must be gone.

    ``cookies`` are the ids of bookies that have a cookie in the metadata store. Raises PortError.
    """
    instance_id = ctx.view.metadata.instance_id if ctx.view.metadata is not None else None
    if instance_id is None:
        return Returns(0, Blocker(Reason.PENDING, "No bookie is created until the metadata store is checked"))
    ordinals = tuple(ordinals)
    own, every, emptied = own_bookies(ctx), await claims(ctx, ordinals), await _emptied(ctx)
    free, through, blocked, waiting, foreign = 0, 0, False, None, None
    for place, ordinal in enumerate(ordinals, 1):
        bookie, own_claims = own.id(ordinal), [claim for claim in every if claim.ordinal == ordinal]
        gone = emptied is not None and own.ordinal(emptied) == ordinal
        found = may_return(bookie, own_claims, cookie=bookie in cookies, instance_id=instance_id, emptied=gone)
        if found.free and bookie not in own.present and own.count(ordinal).spent:
            text = f"Bookie {bookie} is not created until its next incarnation is recorded"
            found = Return(blocker=Blocker(Reason.PENDING, text))
        blocked = blocked or not found.free
        free += not blocked
        for claim in found.delete:
            await _delete(ctx, claim, f"bookie {bookie} is marked as empty and starts again with a new volume")
            waiting = waiting or still_exists(claim)
        waiting, foreign = waiting or found.blocker, foreign or found.foreign
        through = place if found.free and waiting is None else through
    return Returns(free, waiting, foreign, through)


async def _emptied(ctx: PhaseContext) -> str | None:
    """Returns the bookie that no ledger referenced when its cookie was deleted, and whose claims may not be marked
    yet."""
    store = local_store(ctx)
    try:
        session = await ctx.actor.deps.zookeeper.session(store.servers, store.chroot)
        node = await session.get(DECOMMISSION_RECORD_PATH)
    except PortError:
        return None
    record = parse_decommission_record(node.data) if node is not None else None
    return record.bookie if record is not None and record.forgot and record.renewal is None else None


async def mark(ctx: PhaseContext, own_claims: list[Claim], bookie: str) -> None:
    """Marks claims as empty, or deletes them if the specification asks for that. Raises PortError."""
    metadata, actor = ctx.view.metadata, ctx.actor
    assert metadata is not None and metadata.instance_id is not None
    mark = EmptyMark.of(bookie, metadata.instance_id, actor.deps.clock.now())
    for claim in own_claims:
        if claim.going or claim.mark is not None:
            continue
        if ctx.facts.spec.reclaim_policy is ReclaimPolicy.DELETE:
            await _delete(
                ctx, claim, f"bookie {bookie} is removed, no ledger references it, and reclaimPolicy is Delete"
            )
            continue
        text = (
            f"PersistentVolumeClaim {claim.name} as empty, because bookie {bookie} is removed and no ledger "
            "references it"
        )
        if not actor.act:
            actor.pending.append(f"Mark {text}")
            continue
        await annotate(ctx, claim, {ANNOTATION_VERIFIED_EMPTY: mark.text()})
        await actor.record_event(Reason.BOOKIE_DECOMMISSIONED, f"Marked {text}")


async def annotate(ctx: PhaseContext, claim: Claim, annotations: dict[str, str]) -> None:
    """Applies the operator's annotations at a claim; its earlier ones that are not given are removed. Raises
    PortError."""
    where = {"name": claim.name, "namespace": ctx.facts.owner.namespace, "uid": claim.uid}
    await ctx.actor.deps.kube.apply(
        {"apiVersion": PVCS.api_version, "kind": PVCS.kind, "metadata": {**where, "annotations": annotations}}
    )


async def discard(ctx: PhaseContext, own_claims: list[Claim], why: str) -> None:
    """Deletes claims; each exists until its pod ends (finalizer pvc-protection). Raises PortError."""
    for claim in own_claims:
        if not claim.going:
            await _delete(ctx, claim, why)


async def refused_again(ctx: PhaseContext, there: Json, uid: str) -> Blocker | None:
    """Returns why the API server would not create a bookie's pod again; None also if the pod does not exist, is being
    deleted, or is beyond the replicas of its StatefulSet. Raises PortError."""
    pod = next((each for each in pods_of(there, ctx.live.pods(Component.BOOKIE)) if each.uid == uid), None)
    if pod is None or pod.terminating or pod.ordinal >= int(there["spec"].get("replicas", 1)) or not ctx.actor.act:
        return None
    return await refused_successor(ctx.actor, there, dict(pod.raw))


async def claims_there(ctx: PhaseContext, uids: Mapping[str, str]) -> list[str]:
    """Returns which claims of these names still have these UIDs. Raises PortError."""
    kube, namespace = ctx.actor.deps.kube, ctx.facts.owner.namespace
    found = {name: await kube.get(PVCS, namespace, name) for name in sorted(uids)}
    return [name for name, claim in found.items() if claim is not None and claim["metadata"]["uid"] == uids[name]]


async def _delete(ctx: PhaseContext, claim: Claim, why: str) -> None:
    meta = {"name": claim.name, "namespace": ctx.facts.owner.namespace, "uid": claim.uid}
    await ctx.actor.delete(PVCS, {"metadata": meta}, why, reason=Reason.DELETED)
