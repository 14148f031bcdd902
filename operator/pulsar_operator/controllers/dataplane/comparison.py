"""Errors of a canary beside those of its peers: metrics are read while one is watched, and at no other time
(domain/dataplane/canary.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster_status import CanaryStatus, PulsarClusterStatus
from pulsar_operator.domain.dataplane.canary import (
    Reading,
    Watch,
    Window,
    about_to_go,
    begun,
    compare,
    over,
    peers_of,
    remembered,
    replaced_soon,
    upgrading,
    with_comparison,
)
from pulsar_operator.domain.dataplane.counters import PATHS, SORTS, counts, names_of
from pulsar_operator.domain.dataplane.pods import PodFacts
from pulsar_operator.domain.dataplane.turns import Tier
from pulsar_operator.domain.stored import readable
from pulsar_operator.ports import CountersPort, Deps, Json, PortError

_PORT = "http"
"""Name of the port at which a container of ours has its metrics."""
_MAX_WORDS = 200


def stored_canaries(obj: Json) -> dict[str, CanaryStatus]:
    """What a PulsarCluster's status remembers of the watched pods, by component."""
    canaries = (obj.get("status") or {}).get("canaries") or []
    rows = readable(PulsarClusterStatus, {"canaries": canaries}).get("canaries") or ()
    return {row.component: row for row in map(CanaryStatus.model_validate, rows)}


async def compared(
    deps: Deps, tier: Tier, seen: Watch | None, stored: CanaryStatus | None, minutes: int
) -> tuple[Watch | None, CanaryStatus | None]:
    """A watch with what errors say, and what is to be remembered of it. Nothing is read but while a pod is watched, and
    once before the only pod of a component is replaced. Never raises: what cannot be read is not compared."""
    counters = deps.counters
    if counters is None or not upgrading(tier, minutes):
        return seen, None
    if seen is None:
        return None, await _unwatched(counters, tier, stored)
    if seen.pod is None:
        return seen, None
    pods = [seen.pod, *peers_of(tier)]
    readings, problem = await _read(counters, tier.component, pods)
    row = begun(tier.component, stored, pods, readings)
    windows = [
        Window(remembered(row.counters, pod.uid) if row is not None else {}, readings.get(pod.uid)) for pod in pods
    ]
    before = remembered(row.before) if row is not None else {}
    found = compare(tier.component, windows[0], windows[1:], before, deps.clock.now(), problem)
    return with_comparison(tier, seen, found), row


async def _unwatched(counters: CountersPort, tier: Tier, stored: CanaryStatus | None) -> CanaryStatus | None:
    """What is remembered before there is a first pod to be watched, and until it is ready."""
    old = about_to_go(tier)
    if old is None or stored is not None:
        return None if over(tier) else stored
    readings, _ = await _read(counters, tier.component, [old])
    return replaced_soon(tier.component, old, readings[old.uid]) if old.uid in readings else None


async def _read(
    counters: CountersPort, component: Component, pods: Sequence[PodFacts]
) -> tuple[dict[str, Reading], str]:
    """Counters by UID, of all pods at once, and what kept one from being read, in words."""
    if component not in SORTS:
        return {}, ""
    answers = await asyncio.gather(*(_one(counters, component, pod) for pod in pods))
    problems = [each for each in answers if isinstance(each, str)]
    readings = {pod.uid: each for pod, each in zip(pods, answers, strict=True) if isinstance(each, Reading)}
    return readings, problems[0] if problems else ""


async def _one(counters: CountersPort, component: Component, pod: PodFacts) -> Reading | str:
    url = metrics_url(component, pod)
    if url is None:
        return f"pod {pod.name} has no port for metrics"
    try:
        scrape = await counters.read(url, names_of(component))
    except PortError as error:
        return f"metrics of pod {pod.name}: {error}"[:_MAX_WORDS]
    return Reading(scrape.at, counts(component, scrape.samples))


def metrics_url(component: Component, pod: PodFacts) -> str | None:
    """Where a pod has its metrics; None where it has none, as a ZooKeeper server without ``metrics``."""
    address = str((pod.raw.get("status") or {}).get("podIP") or "")
    containers = (pod.raw.get("spec") or {}).get("containers") or ()
    ports = [port for each in containers if each.get("name") == component.value for port in each.get("ports") or ()]
    port = next((each["containerPort"] for each in ports if each.get("name") == _PORT), None)
    if not address or port is None:
        return None
    return f"http://{f'[{address}]' if ':' in address else address}:{port}{PATHS.get(component, '/metrics')}"
