"""Compares the errors of a canary with those of its peers. Metrics are read only while a canary is observed
(domain/dataplane/rollout/canary.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster_status import CanaryStatus
from pulsar_operator.domain.dataplane.objects.pods import PodFacts
from pulsar_operator.domain.dataplane.observed.pod_counters import SORTS, Counts, counts, metrics_url, names_of
from pulsar_operator.domain.dataplane.rollout.canary import (
    Watch,
    begun,
    compare,
    counted,
    peers_of,
    remembered,
    with_comparison,
)
from pulsar_operator.domain.dataplane.rollout.template_order import Tier
from pulsar_operator.ports import CountersPort, Deps, PortError

_MAX_WORDS = 200


async def compared(
    deps: Deps, tier: Tier, watch: Watch | None, stored: CanaryStatus | None
) -> tuple[Watch | None, CanaryStatus | None]:
    """Returns a watch with the result of the comparison, and the record of it. Metrics are read only while a pod is
    observed. Never raises: metrics that cannot be read are not compared."""
    if deps.counters is None or watch is None or watch.pod is None:
        return watch, None
    pods = [watch.pod, *peers_of(tier)]
    readings, problem = await _read(deps.counters, tier.component, pods)
    row = begun(tier.component, stored, pods, readings)
    rows = row.counters if row is not None else ()
    now = {uid: counted(remembered(rows, uid), counts) for uid, counts in readings.items()}
    others = [now[pod.uid] for pod in pods[1:] if pod.uid in now]
    return with_comparison(tier, watch, compare(tier.component, now.get(watch.pod.uid), others, problem)), row


async def _read(
    counters: CountersPort, component: Component, pods: Sequence[PodFacts]
) -> tuple[dict[str, Counts], str]:
    """Returns counters by UID, of all pods at the same time, and why one could not be read, as a message."""
    if component not in SORTS:
        return {}, ""
    answers = await asyncio.gather(*(_one(counters, component, pod) for pod in pods))
    problems = [each for each in answers if isinstance(each, str)]
    readings = {pod.uid: each for pod, each in zip(pods, answers, strict=True) if not isinstance(each, str)}
    return readings, problems[0] if problems else ""


async def _one(counters: CountersPort, component: Component, pod: PodFacts) -> Counts | str:
    url = metrics_url(component, pod)
    if url is None:
        return f"pod {pod.name} has no port for metrics"
    try:
        scrape = await counters.read(url, names_of(component))
    except PortError as error:
        return f"the metrics of pod {pod.name} cannot be read ({error})"[:_MAX_WORDS]
    return counts(component, scrape.samples)
