"""What blocks the next step of a cluster that has pods to replace: a maintenance window, the configuration store, a
decommission, another cluster of its instance.

Clusters of one instance roll out one after another: a problem of one must show before it reaches the next. There is no
lock that could outlive its holder. A cluster first writes its intent with the time into its status
(``status.rollout.since``), and takes a step only in a pass that reads it as stored. Of several clusters the one
continues that has replaced pods already, else the earliest, by name if the times are equal. Each reads the API server
after it wrote, so of two that begin together at least one observes the other. A cluster that is paused or being deleted
blocks no other.
"""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.constants import ANNOTATION_PAUSE, ConditionType, Kind, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import instance_of, members
from pulsar_operator.controllers.core.objects import meta_of
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.rollout.checks import decommissioning
from pulsar_operator.domain.windows import closed_until
from pulsar_operator.ports import CUSTOM, Json


async def observe_blocker(facts: ClusterFacts, actor: Actor) -> Blocker | None:
    """Returns why nothing may begin now; None if it may. Called only while there are pods to replace. Raises
    PortError."""
    opening = closed_until(facts.spec.maintenance_windows, actor.deps.clock.now())
    if opening is not None:
        text = f"No maintenance window is open. The rollout waits for {opening}"
        return Blocker(Reason.MAINTENANCE_WINDOW, text)
    store = facts.instance.store
    if not store.ready:
        text = f"The configuration store of the instance is unavailable: {store.message}"
        return Blocker(Reason.CONFIGURATION_STORE_UNAVAILABLE, text)
    bookie = next((row for row in facts.before.bookies if row.step), None)
    return decommissioning(bookie.id) if bookie is not None else await _peer(facts, actor)


async def _peer(facts: ClusterFacts, actor: Actor) -> Blocker | None:
    """Returns another cluster of the instance that rolls out; and whether this one has written its intent."""
    kube, key = actor.deps.kube, instance_of(facts.obj)
    instance = await kube.get(CUSTOM[Kind.INSTANCE], key.namespace, key.name) if key is not None else None
    if instance is None:
        return None
    # One that the instance does not allow, or not any more, has no store to roll with, whatever its status says.
    found = members(await kube.list(CUSTOM[Kind.CLUSTER], None), instance)
    others = [each for each in found if each["metadata"]["uid"] != facts.meta.uid]
    own_start = _began(facts.obj)
    if not others:
        return None
    if own_start is None:
        text = (
            "The status does not show yet that this cluster is rolling out. The other clusters of the instance must "
            "see this before the rollout begins"
        )
        return Blocker(Reason.WAITING_FOR_CLUSTERS, text)
    earlier = [(began, each) for each in others if (began := _began(each)) is not None and began < own_start]
    return _waits_for(min(earlier, key=lambda each: each[0])[1]) if earlier else None


def _waits_for(other: Json) -> Blocker:
    meta, progressing = meta_of(other), condition_of(other, ConditionType.PROGRESSING) or {}
    text = (
        f"PulsarCluster {meta.namespace}/{meta.name} has been rolling out since "
        f"{other['status']['rollout']['since']} ({progressing.get('reason')}), and clusters of an instance are "
        f"rolled out one after another. To proceed without waiting for {meta.name}, pause that cluster (kubectl "
        f"-n {meta.namespace} annotate pulsarcluster/{meta.name} {ANNOTATION_PAUSE}=true) or delete it"
    )
    return Blocker(Reason.WAITING_FOR_CLUSTERS, text)


def _began(cluster: Json) -> tuple[bool, str, str, str] | None:
    """Returns when it began to roll out, from its status, and its name to order equal times; None if it does not roll
    out now. One that is paused or being deleted takes no step."""
    meta = meta_of(cluster)
    rollout: dict[str, Any] = (cluster.get("status") or {}).get("rollout") or {}
    since = rollout.get("since")
    if not since or meta.paused or meta.dry_run or meta.deleting:
        return None
    return not rollout.get("podsDone"), str(since), meta.namespace, meta.name
