"""From what was observed to what the planner sees: brokers with what they can carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.rebalance import BrokerCapacity
from pulsar_operator.balance.model.capacity import capacities_of
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.model.observation import Observed, model_of
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.controllers.rebalance.rebalance_pass import RebalancePass, Tools
from pulsar_operator.domain.render import selector_text
from pulsar_operator.ports import PODS


async def modelled(
    tools: Tools,
    state: RebalancePass,
    observed: Observed,
    *,
    draining: Iterable[str] = (),
    carried: Mapping[BundleId, float] | None = None,
) -> ClusterModel:
    """The model of what was observed, with failure domains and what the brokers can carry. Raises PortError."""
    assert state.traffic is not None
    selector = selector_text(owner_of(state.cluster, part_of=""), Component.BROKER)
    pods = await tools.deps.kube.list(PODS, state.cluster["metadata"]["namespace"], selector=selector)
    declared = ((state.cluster.get("spec") or {}).get("loadBalancing") or {}).get("capacities")
    found = capacities_of(observed.brokers, pods, declared)
    state.set(capacities=[BrokerCapacity(broker=each, capacity=f"{found[each]:.2f}") for each in sorted(found)])
    domains = await state.traffic.domains()
    return model_of(observed, draining=draining, domains=domains, carried=carried, capacities=found)
