"""Reads the loads of a cluster's pods, at its own interval: passes may follow each other within seconds.

The readings stay in memory, for rates need two. After a restart nothing is decided until there are two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, PulsarClusterSpec
from pulsar_operator.balance.autoscaling.policy import Measured
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.pods import PodFacts
from pulsar_operator.domain.dataplane.observed.pod_counters import metrics_url
from pulsar_operator.domain.dataplane.scaling.pod_loads import (
    KEPT_SECONDS,
    Readings,
    added,
    measured,
    names_of,
    reading,
)
from pulsar_operator.domain.dataplane.scaling.replicas import SCALED, Part, part_of
from pulsar_operator.ports import CountersPort, Deps, PortError

EVERY_SECONDS: Final = 30.0
"""Seconds between readings: a page may have a line for each topic."""
FORGOTTEN_SECONDS: Final = 3600.0
IN_FLIGHT: Final = 16
READ_SECONDS: Final = 10.0
"""Deadline in seconds for all pods of a component together, since a pass must not wait for pods that do not answer."""


def _reads(part: Part) -> bool:
    """Whether a decision uses the pods' pages; bookies are asked for their disks elsewhere."""
    if isinstance(part, BookKeeper):
        limits = part.autoscaling
        return limits is not None and limits.targets.write_latency_milliseconds is not None
    return part.autoscaling is not None


Loads = Mapping[Component, Mapping[str, Measured]]
"""By component, then by the name of the target."""


def _lately(readings: Readings, now: datetime) -> bool:
    return (now - readings[-1].at).total_seconds() <= KEPT_SECONDS


def _read_at(readings: Readings) -> float:
    return readings[-1].at.timestamp() if readings else 0.0


class Meters:
    """Readings of all clusters of one operator."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._read: dict[tuple[str, Component], datetime] = {}
        self._pods: dict[tuple[str, Component], dict[str, Readings]] = {}
        """By the UID of a pod."""
        self._gone: dict[tuple[str, Component], dict[str, Readings]] = {}
        """Readings of pods that were ready in the minutes before."""

    async def loads(self, cluster: str, spec: PulsarClusterSpec, live: Live) -> Loads:
        """Returns the figures of the components with autoscaling; ``cluster`` is its UID. Never raises PortError: for a
        pod that does not answer the last figures count, with their age."""
        found: dict[Component, Mapping[str, Measured]] = {}
        self._forget()
        for component in SCALED:
            part, facts, key = part_of(spec, component), live.facts(component), (cluster, component)
            if part is None or not _reads(part) or facts is None or self._deps.counters is None:
                self._read.pop(key, None)
                self._pods.pop(key, None)
                self._gone.pop(key, None)
                continue
            pods = [pod for pod in facts.pods if pod.ready and not pod.terminating]
            await self._read_pods(self._deps.counters, key, pods)
            known = self._pods.get(key, {})
            gone = self._gone.get(key, {}).values()
            figures = measured({pod.name: known.get(pod.uid, ()) for pod in pods}, self._deps.clock.now(), gone)
            found[component] = {name: Measured(values, age) for name, (values, age) in figures.items()}
        return found

    def _forget(self) -> None:
        """Discards the readings of clusters that are no longer read: they are deleted."""
        now = self._deps.clock.now()
        for key in [key for key, last in self._read.items() if (now - last).total_seconds() > FORGOTTEN_SECONDS]:
            del self._read[key]
            self._pods.pop(key, None)
            self._gone.pop(key, None)

    async def _read_pods(self, counters: CountersPort, key: tuple[str, Component], pods: Sequence[PodFacts]) -> None:
        """Reads the pods if their readings are old, or a pod is new. All are read together, since load moves from one
        to another."""
        now, last = self._deps.clock.now(), self._read.get(key)
        known = self._pods.get(key, {})
        fresh = last is not None and 0 <= (now - last).total_seconds() < EVERY_SECONDS
        if fresh and all(pod.uid in known for pod in pods):
            return
        self._read[key] = now
        slots, deadline = asyncio.Semaphore(IN_FLIGHT), asyncio.get_running_loop().time() + READ_SECONDS

        async def one(pod: PodFacts) -> Readings:
            before = known.get(pod.uid, ())
            url = metrics_url(key[1], pod)
            if url is None:
                return before
            try:
                async with asyncio.timeout_at(deadline), slots:
                    scrape = await counters.read(url, names_of(key[1]))
            except (PortError, TimeoutError):
                return before
            return added(before, reading(key[1], scrape.at, scrape.samples))

        # Those first that were not read for longest: where all take too long it would always be the same ones.
        pods = sorted(pods, key=lambda pod: _read_at(known.get(pod.uid, ())))
        answers = await asyncio.gather(*map(one, pods))
        # Also of those that do not answer: they take until the deadline, and are not asked again in every pass.
        found = {pod.uid: each for pod, each in zip(pods, answers, strict=True)}
        before = self._gone.get(key, {}) | known
        self._gone[key] = {
            uid: each for uid, each in before.items() if uid not in found and each and _lately(each, now)
        }
        self._pods[key] = found
