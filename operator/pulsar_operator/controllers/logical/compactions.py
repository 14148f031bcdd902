"""Scheduled compaction of a topic. The operator triggers it in each cluster that has the topic. Used by topic.py."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import MAX_PENDING
from pulsar_operator.api.v1alpha1.compaction import ClusterCompaction, CompactionResult
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec, PulsarTopicStatus
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.scope import WAIT_SECONDS, AdminUnreachableError, Scope
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.logical.compaction import due, with_results
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import ConflictError, NotFoundError, RefusedError

RUNNING = "Compaction already in progress"
"""Message of Pulsar 4.0.8 while a compaction is running. For a partitioned topic it comes with HTTP 500, for others
with 409."""


async def compact(
    ctx: LogicalPass[PulsarTopicSpec, PulsarTopicStatus], scope: Scope, path: tuple[str, ...], clusters: Collection[str]
) -> float | None:
    """Triggers the compactions that are due in the clusters that have the topic. Returns the seconds until the next one
    may be due; None if none is scheduled.

    Pulsar compacts each partition of a partitioned topic (class PersistentTopicsBase, internalTriggerCompaction).
    """
    if ctx.spec.compaction is None:
        ctx.fields["compaction"] = None
        return None
    now = ctx.conditions.now
    try:
        found = due(ctx.spec.compaction.schedule, ctx.before.compaction, clusters, now)
    except ValueError:
        return None  # the plan says so
    ctx.fields["compaction"] = found.status
    if ctx.pause_reason is not None:
        _record(ctx, found.clusters)
        return None
    results = await asyncio.gather(*(_trigger(scope, path, c, moment) for c, moment in found.clusters.items()))
    done = [each for each in results if each is not None]
    ctx.fields["compaction"] = with_results(found.status, done)
    for each in done:
        text = f"The compaction due at {each.last_schedule_time} in cluster {each.name} ended with {each.result.value}"
        refused = each.result is CompactionResult.REFUSED
        await ctx.event(
            Reason.COMPACTION_TRIGGERED, f"{text}, {each.message}" if each.message else text, warning=refused
        )
    if len(done) < len(results):
        return WAIT_SECONDS
    upcoming = parse_time(found.status.next_schedule_time)
    return (upcoming - now).total_seconds() if upcoming is not None else None


def _record(ctx: LogicalPass[PulsarTopicSpec, PulsarTopicStatus], clusters: Collection[str]) -> None:
    """Records the compactions that are due while the object is paused or in dry run. They are triggered once
    afterwards."""
    if not clusters:
        return
    text = f"Trigger the compaction that is due in {', '.join(sorted(clusters))}"
    if ctx.meta.dry_run:
        ctx.fields["pending_actions"] = [*(ctx.fields.get("pending_actions") or ())[: MAX_PENDING - 1], text]
    if ctx.pause_reason is not None and ctx.conditions.is_true(ConditionType.READY):
        why = "paused" if ctx.pause_reason is Reason.PAUSED else "in dry run"
        ctx.conditions.set(
            ConditionType.READY, False, ctx.pause_reason, f"The object is {why}, so 1 action is pending: {text}"
        )


async def _trigger(scope: Scope, path: tuple[str, ...], cluster: str, moment: datetime) -> ClusterCompaction | None:
    """Triggers the compaction in one cluster and returns the result; None if the cluster does not answer, so that the
    operator retries soon."""
    result, message = CompactionResult.TRIGGERED, None
    try:
        await scope.admin.at(cluster, Call("PUT", (*path, "compaction")))
    except ConflictError:
        result = CompactionResult.ALREADY_RUNNING
    except NotFoundError:
        result = CompactionResult.NO_TOPIC
    except RefusedError as error:
        result, message = CompactionResult.REFUSED, str(error)[:1024]
    except AdminUnreachableError as error:
        if RUNNING not in str(error):
            return None
        result = CompactionResult.ALREADY_RUNNING
    return ClusterCompaction(name=cluster, last_schedule_time=timestamp(moment), result=result, message=message)
