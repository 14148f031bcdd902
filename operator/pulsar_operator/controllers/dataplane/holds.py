"""What a cluster that has pods to replace waits for before it takes the next step: a maintenance window, the
configuration store, a bookie of its own that leaves, another cluster of its instance.

Clusters of one instance roll one after another: what breaks one must be seen before it reaches the next. Nobody keeps a
lock that could outlive its holder. A cluster that may go says so in its status first, with the time (``status.rollout.
since``), and takes a step only in a pass that finds this already stored; of several the one goes that has replaced pods
already, else the earliest, by name where the times are equal. Each looks at the API server after it wrote, so of two
that begin at once at least one sees the other. One that does not go on need not be waited for by all (neighbours.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import instance_of, members
from pulsar_operator.controllers.core.objects import meta_of
from pulsar_operator.controllers.dataplane.facts import ClusterFacts
from pulsar_operator.controllers.dataplane.neighbours import changes_of, waits_for
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.turns import Held
from pulsar_operator.domain.render import RenderedCluster
from pulsar_operator.domain.windows import held_until
from pulsar_operator.ports import CUSTOM, Json


async def held_for(facts: ClusterFacts, hand: Actor, live: Live, rendered: RenderedCluster) -> Held | None:
    """Why nothing is begun now; None = go on. Asked only while there is something to replace, which follows from what
    there is and what is rendered. Raises PortError."""
    opening = held_until(facts.spec.maintenance_windows, hand.deps.clock.now())
    if opening is not None:
        return Held(Reason.MAINTENANCE_WINDOW, opening)
    store = facts.instance.store
    if not store.ready:
        return Held(Reason.CONFIGURATION_STORE_AWAY, f"the instance's configuration store: {store.message}")
    leaving = next((row for row in (facts.obj.get("status") or {}).get("bookies") or () if row.get("step")), None)
    if leaving is not None:
        return Held(Reason.BOOKIE_LEAVING, f"bookie {leaving.get('id')} to have left")
    return await _others(facts, hand, live, rendered)


async def _others(facts: ClusterFacts, hand: Actor, live: Live, rendered: RenderedCluster) -> Held | None:
    """Another cluster of the instance that rolls; and whether this one has said that it would."""
    kube, key = hand.deps.kube, instance_of(facts.obj)
    instance = await kube.get(CUSTOM[Kind.INSTANCE], key.namespace, key.name) if key is not None else None
    if instance is None:
        return None
    # One that the instance does not allow, or not any more, has no store to roll with, whatever its status says.
    found = members(await kube.list(CUSTOM[Kind.CLUSTER], None), instance)
    others = [each for each in found if each["metadata"]["uid"] != facts.meta.uid]
    if not others:
        return None
    mine = _began(facts.obj)
    if mine is None:
        return Held(Reason.WAITING_FOR_CLUSTERS, "the status to say that this cluster rolls")
    earlier = [(began, each) for each in others if (began := _began(each)) is not None and began < mine]
    for _, each in sorted(earlier, key=lambda found: found[0]):
        words = await waits_for(hand.deps, each, partial(changes_of, facts.obj, facts.spec.version, live, rendered))
        if words is not None:
            return Held(Reason.WAITING_FOR_CLUSTERS, words)
    return None


def _began(cluster: Json) -> tuple[bool, str, str, str] | None:
    """When it began to roll, as its status says, and what tells it from others that began then; None = it does not roll
    now. One that is paused or being deleted takes no step."""
    meta = meta_of(cluster)
    rollout: dict[str, Any] = (cluster.get("status") or {}).get("rollout") or {}
    since = rollout.get("since")
    if not since or meta.paused or meta.dry_run or meta.deleting:
        return None
    return not rollout.get("podsDone"), str(since), meta.namespace, meta.name
