"""Finds brokers that started too recently to have counted their traffic.

A broker writes its statistics once when it starts, empty, and then from statsUpdateInitialDelayInSecs on (class
BrokerService, startStatsUpdater; 60 s by default). Until then it reports no traffic, regardless of its load. A complete
restart would look like an idle cluster, and the bundles that a new broker took over like bundles without traffic.
"""

from __future__ import annotations

from datetime import datetime

from pulsar_operator.api.constants import Component
from pulsar_operator.balance.model.observation import Observed
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.controllers.rebalance.rebalance_pass import RebalancePass, Tools
from pulsar_operator.domain.conditions import parse_time, seconds_since
from pulsar_operator.domain.render import selector_text
from pulsar_operator.ports import PODS, Json

MARGIN_SECONDS = 5
"""Seconds to write the statistics of many topics, and for the difference between the clocks of a node and the
operator."""


async def uncounted(tools: Tools, state: RebalancePass, observed: Observed) -> dict[str, str]:
    """Returns the brokers whose statistics do not contain their traffic yet, with the reason as a message. Raises
    PortError.

    A broker without bundles is left out: it has no traffic, as it reports.
    """
    assert state.traffic is not None
    owners = set(observed.owners.values())
    carrying = {broker: broker.partition(".")[0] for broker in observed.brokers if broker in owners}
    if not carrying:
        return {}
    selector = selector_text(owner_of(state.cluster, part_of=""), Component.BROKER)
    pods = await tools.deps.kube.list(PODS, state.cluster["metadata"]["namespace"], selector=selector)
    started = {pod["metadata"]["name"]: since for pod in pods if (since := _started(pod)) is not None}
    ages = {broker: seconds_since(started[pod], state.now) for broker, pod in carrying.items() if pod in started}
    if not ages:
        return {}
    delay = await state.traffic.first_statistics()
    why = f"the statistics of a broker contain its traffic only {delay} s after its start"
    warming_up = (each for each in sorted(ages) if ages[each] < delay + MARGIN_SECONDS)
    return {each: f"{each} started {ages[each]:.0f} s ago, and {why}" for each in warming_up}


def _started(pod: Json) -> datetime | None:
    """Returns when the broker in a pod started; None if Kubernetes does not report it."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == Component.BROKER.value:
            return parse_time(((status.get("state") or {}).get("running") or {}).get("startedAt"))
    return None
