"""The number of bookies is changed: upwards where the volumes that are there allow it, and down by one."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Component, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.controllers.dataplane.children import apply_children
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.templates import dressed
from pulsar_operator.controllers.dataplane.phases.tiers import replicas_of, with_replicas
from pulsar_operator.domain.bookkeeper.facts import OwnBookies
from pulsar_operator.domain.bookkeeper.volumes import Claim, EmptyMark, claims_of, may_return
from pulsar_operator.domain.render import selector_text
from pulsar_operator.domain.render.names import bookie_id, workload_name
from pulsar_operator.ports import PODS, PVCS, STATEFUL_SETS, Json


@dataclass(frozen=True)
class Numbered:
    """What came of it."""

    waiting_for: str | None = None
    """In words; None = nothing."""
    foreign: str | None = None
    """Why an ordinal cannot come back, in words."""


def own_bookies(step: Step) -> OwnBookies:
    """How the ids of the cluster's own bookies are made."""
    owner = step.facts.owner
    workload = workload_name(owner.name, Component.BOOKIE)
    return OwnBookies.of(bookie_id(workload, 0, owner.namespace, step.facts.spec.cluster_domain))


async def claims(step: Step) -> list[Claim]:
    """All claims of the bookies' volumes, as they are now. Raises PortError."""
    owner = step.facts.owner
    found = await step.hand.deps.kube.list(PVCS, owner.namespace, selector=selector_text(owner, Component.BOOKIE))
    return claims_of(workload_name(owner.name, Component.BOOKIE), found)


async def raise_to(step: Step, there: Json, replicas: int, cookies: frozenset[str]) -> Numbered:
    """More bookies, as many as may come: claims that are marked as empty are deleted first, and seen gone.

    ``cookies`` are the ids of bookies that have a cookie in the metadata store. Raises NameConflictError, PortError.
    """
    instance_id = step.view.metadata.instance_id if step.view.metadata is not None else None
    if instance_id is None:
        return Numbered("the metadata store to be known")
    own, every, have = own_bookies(step), await claims(step), replicas_of(there)
    reached, waiting, foreign = have, None, None
    for ordinal in range(have, replicas):
        mine = [claim for claim in every if claim.ordinal == ordinal]
        bookie = own.id(ordinal)
        found = may_return(bookie, mine, cookie=bookie in cookies, instance_id=instance_id)
        if found.free:
            reached = ordinal + 1 if reached == ordinal else reached
            continue
        for claim in found.delete:
            await _delete(step, claim, f"marked as empty; bookie {bookie} comes back with a new volume")
            waiting = waiting or f"PersistentVolumeClaim {claim.name} to be gone"
        waiting, foreign = waiting or found.waiting_for, foreign or found.foreign
    if reached > have:
        await _resize(step, there, reached)
    return Numbered(waiting, foreign)


async def lower_by_one(step: Step, there: Json) -> bool:
    """One bookie less; False where the StatefulSet is not what it was any more. Looked at again directly before.

    Raises NameConflictError, PortError.
    """
    meta = there["metadata"]
    if step.hand.act:
        now = await step.hand.deps.kube.get(STATEFUL_SETS, meta["namespace"], meta["name"])
        if now is None or now["metadata"]["uid"] != meta["uid"] or replicas_of(now) != replicas_of(there):
            return False
    await _resize(step, there, replicas_of(there) - 1)
    return True


async def is_without_pod(step: Step, there: Json, ordinal: int) -> bool:
    """Whether the StatefulSet has no such ordinal, and no such pod is there, as it is now. Raises PortError."""
    kube, meta = step.hand.deps.kube, there["metadata"]
    now = await kube.get(STATEFUL_SETS, meta["namespace"], meta["name"])
    pod = await kube.get(PODS, meta["namespace"], f"{meta['name']}-{ordinal}")
    return now is not None and now["metadata"]["uid"] == meta["uid"] and replicas_of(now) <= ordinal and pod is None


async def mark(step: Step, mine: list[Claim], bookie: str) -> None:
    """Say at claims that no ledger named the bookie, or delete them where the specification wants that.

    Raises PortError.
    """
    metadata, hand = step.view.metadata, step.hand
    assert metadata is not None and metadata.instance_id is not None
    said = EmptyMark.of(bookie, metadata.instance_id, hand.deps.clock.now())
    for claim in mine:
        if claim.going or claim.mark is not None:
            continue
        if step.facts.spec.reclaim_policy is ReclaimPolicy.DELETE:
            await _delete(step, claim, f"bookie {bookie} is removed, no ledger named it, and reclaimPolicy is Delete")
            continue
        text = f"PersistentVolumeClaim {claim.name} as empty: bookie {bookie} is removed and no ledger named it"
        if not hand.act:
            hand.pending.append(f"Mark {text}")
            continue
        await hand.deps.kube.apply(
            {
                "apiVersion": PVCS.api_version,
                "kind": PVCS.kind,
                "metadata": {
                    "name": claim.name,
                    "namespace": step.facts.owner.namespace,
                    "uid": claim.uid,
                    "annotations": {ANNOTATION_VERIFIED_EMPTY: said.text()},
                },
            }
        )
        await hand.record_event(Reason.BOOKIE_REMOVED, f"Marked {text}")


async def _delete(step: Step, claim: Claim, why: str) -> None:
    meta = {"name": claim.name, "namespace": step.facts.owner.namespace, "uid": claim.uid}
    await step.hand.delete(PVCS, {"metadata": meta}, why)


async def _resize(step: Step, there: Json, replicas: int) -> None:
    manifests = workload(await dressed(step, Component.BOOKIE), there, step.rendered.of(Component.BOOKIE))
    await apply_children(step.hand, step.live, [with_replicas(each, replicas) for each in manifests], same=True)


def workload(dressed_manifests: list[Json], there: Json, manifests: list[Json]) -> list[Json]:
    """The workload alone; where its template must stay and is not on record, with the template that it has."""
    found = [each for each in dressed_manifests if each["kind"] == STATEFUL_SETS.kind]
    if found:
        return found
    rendered = next(each for each in manifests if each["kind"] == STATEFUL_SETS.kind)
    return [{**rendered, "spec": {**copy.deepcopy(rendered["spec"]), "template": there["spec"]["template"]}}]
