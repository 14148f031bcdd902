"""Changes the number of bookies: upwards as far as the existing volumes allow, and down by one."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_racks import not_written
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import Returns, returns
from pulsar_operator.controllers.dataplane.objects.children import apply_children
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.rollout.templates import rendered_with_record
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.decommission.volume_sizes import new_claims
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of, with_replicas
from pulsar_operator.ports import PODS, STATEFUL_SETS, ConflictError, Json


async def raise_to(ctx: PhaseContext, there: Json, replicas: int, cookies: frozenset[str]) -> Returns:
    """Adds as many bookies as are allowed (bookkeeper/bookie_volumes.py). Raises NameConflictError, PortError."""
    have = replicas_of(there)
    missing = not_written(ctx, range(have, replicas))
    if missing is not None:
        return Returns(0, Blocker(Reason.PENDING, missing))
    found = await returns(ctx, range(have, replicas), cookies)
    if found.free:
        templates, name = there["spec"].get("volumeClaimTemplates") or (), there["metadata"]["name"]
        for text in new_claims(templates, ctx.facts.claims, name, range(have, have + found.free)):
            await ctx.actor.warn(Reason.SMALLER_VOLUME, text)
        await _resize(ctx, there, have + found.free)
    return found


async def lower_by_one(ctx: PhaseContext, there: Json) -> bool:
    """Removes one bookie; False if the StatefulSet has changed.

    It is read again directly before, and changed only at that version: removing two would remove a bookie that was not
    emptied. Raises NameConflictError, PortError.
    """
    meta, now = there["metadata"], there
    if ctx.actor.act:
        found = await ctx.actor.deps.kube.get(STATEFUL_SETS, meta["namespace"], meta["name"])
        if found is None or found["metadata"]["uid"] != meta["uid"] or replicas_of(found) != replicas_of(there):
            return False
        now = found
    try:
        await _resize(ctx, now, replicas_of(now) - 1, at=("uid", "resourceVersion"))
    except ConflictError:
        return False
    return True


async def is_without_pod(ctx: PhaseContext, there: Json, ordinal: int) -> bool:
    """Whether the StatefulSet currently has neither the ordinal nor its pod. Raises PortError."""
    kube, meta = ctx.actor.deps.kube, there["metadata"]
    now = await kube.get(STATEFUL_SETS, meta["namespace"], meta["name"])
    pod = await kube.get(PODS, meta["namespace"], f"{meta['name']}-{ordinal}")
    return now is not None and now["metadata"]["uid"] == meta["uid"] and replicas_of(now) <= ordinal and pod is None


async def _resize(ctx: PhaseContext, there: Json, replicas: int, *, at: Sequence[str] = ("uid",)) -> None:
    manifests = workload(await rendered_with_record(ctx, Component.BOOKIE), there, ctx.rendered.of(Component.BOOKIE))
    sized = [with_replicas(each, replicas) for each in manifests]
    await apply_children(ctx.actor, ctx.live.having(there), sized, at=at)


def workload(applied: list[Json], there: Json, manifests: list[Json]) -> list[Json]:
    """Returns the workload alone; with its current template if that must stay and is not recorded."""
    found = [each for each in applied if each["kind"] == STATEFUL_SETS.kind]
    if found:
        return found
    rendered = next(each for each in manifests if each["kind"] == STATEFUL_SETS.kind)
    return [{**rendered, "spec": {**copy.deepcopy(rendered["spec"]), "template": there["spec"]["template"]}}]
