"""Which server of a managed ZooKeeper ensemble may be replaced now: asked of the servers themselves, at each step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.replacement import roll_plan
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.rollout import FORWARDS, RollOrder, RollPlan
from pulsar_operator.domain.dataplane.zookeeper_roll import ServerState, leader_of, synced
from pulsar_operator.domain.render.names import pod_host, workload_name
from pulsar_operator.ports import PortError

CLIENT_PORT = 2181


async def servers_gate(
    hand: Actor,
    live: Live,
    plan: RollPlan,
    cluster_domain: str,
    components: Sequence[Component],
    order: RollOrder = FORWARDS,
) -> tuple[RollPlan, str | None]:
    """The plan, perhaps with another server, and what that one waits for, in words; None = it may go.

    The leader goes last, so that the ensemble elects once; and nobody while a server is behind. One that does not
    answer serves nobody, which is why it is replaced: then the others must do without it already.
    """
    assert plan.replace is not None and plan.component is not None
    meta = hand.owner["metadata"]
    workload = workload_name(meta["name"], plan.component)

    async def state(ordinal: int) -> ServerState | None:
        host = pod_host(workload, ordinal, meta["namespace"], cluster_domain)
        try:
            return await hand.deps.zookeeper.server_state(f"{host}:{CLIENT_PORT}")
        except PortError:
            return None

    total = plan.pods_total
    found = await asyncio.gather(*(state(ordinal) for ordinal in range(total)))
    states = {f"{workload}-{ordinal}": each for ordinal, each in enumerate(found)}
    if states.get(plan.replace.name) is None:
        if plan.replace.repair:
            return plan, None
        del states[plan.replace.name]
        return plan, synced(states, total - 1) if states else None
    waiting = synced(states, total)
    if waiting is not None:
        return plan, waiting
    again = roll_plan(live, components, order=order, leader=leader_of(states))
    return (again if again.component is plan.component and again.replace is not None else plan), None
