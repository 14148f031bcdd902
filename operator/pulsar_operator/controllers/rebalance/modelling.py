"""Builds the planner's model from an observation: brokers with their relative capacities."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from pulsar_operator.api.v1alpha1.rebalance import BrokerCapacity
from pulsar_operator.balance.execution.partial import answering
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.model.observation import Observed, model_of
from pulsar_operator.controllers.core.capacities import broker_capacities
from pulsar_operator.controllers.rebalance.rebalance_pass import RebalancePass, Tools


async def modelled(
    tools: Tools,
    state: RebalancePass,
    observed: Observed,
    *,
    draining: Iterable[str] = (),
    carried: Mapping[BundleId, float] | None = None,
) -> ClusterModel:
    """Returns the model of an observation, with failure domains and capacities, without brokers that do not answer.
    Raises PortError."""
    assert state.traffic is not None
    found = await broker_capacities(tools.deps, state.cluster, observed.brokers)
    state.set(capacities=[BrokerCapacity(broker=each, capacity=f"{found[each]:.2f}") for each in sorted(found)])
    domains = await state.traffic.domains()

    def known() -> ClusterModel:
        model = model_of(observed, draining=draining, domains=domains, carried=carried, capacities=found)
        return answering(model, observed.silent, unlisted=bool(observed.unlisted))

    # In a thread: it sorts the cells of all topics.
    return await asyncio.to_thread(known)
