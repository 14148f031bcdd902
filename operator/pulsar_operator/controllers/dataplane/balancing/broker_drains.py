"""Drains brokers before they are replaced or removed, and gives added brokers a share of the bundles.

Used by rollout/rollout_phase.py and scaling/scale.py. balance/execution/drain.py decides; a PulsarRebalance that
belongs to the cluster does the moves, as for all moves. While it exists, Pulsar's own balancer is off
(load_balancer.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from pulsar_operator.api.constants import Component, Kind, Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import DrainStatus
from pulsar_operator.balance.execution.drain import (
    DRAIN,
    FILL,
    DrainFacts,
    broker_id,
    decide,
    drain_manifest,
    fill_manifest,
    fill_name,
    future_ids,
    outgrown,
    purpose_of,
)
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.observation import SYSTEM_NAMESPACE
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.broker_reads import ask_each
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.dataplane.observed.outage import answers_since
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.cluster.applied_config import load_managers
from pulsar_operator.domain.render.child_names import workload_name
from pulsar_operator.ports import CUSTOM, AdminEndpoint, Deps, Json, PortError

FEW: Final = 20
"""Maximum number of namespaces whose boundaries are read to separate existing bundles from former ones."""


@dataclass(frozen=True)
class DrainProgress:
    """The progress of a drain."""

    go: bool
    status: DrainStatus | None = None
    """Status while the brokers may not stop, and until they are gone if they stop with bundles left."""
    blocker: Blocker | None = None
    """Why they may not stop yet."""


@dataclass(frozen=True)
class _Observation:
    """What the brokers report about those that are drained."""

    ids: tuple[str, ...] = ()
    bundles: int | None = None
    failure: str = ""
    """Why a fact is not known."""
    others: int = 1
    """Number of brokers that can take bundles."""
    excluded: tuple[str, ...] = ()
    """Ids of brokers that stay and take no bundles."""


class BrokerDrains:
    """The drains of one cluster, for one phase of a pass."""

    def __init__(
        self,
        deps: Deps,
        actor: Actor,
        cluster: Json,
        spec: PulsarClusterSpec,
        endpoint: AdminEndpoint,
        before: DrainStatus | None,
    ) -> None:
        """``endpoint`` is the brokers' Service, ``before`` the drain in the status."""
        assert spec.broker is not None
        self._deps, self._actor, self._cluster, self._drain = deps, actor, cluster, spec.broker.drain
        self._replicas, self._before = spec.broker.replicas, before
        self._traffic = Traffic(deps, endpoint)
        self._name = cluster["metadata"]["name"]
        self._namespace = cluster["metadata"]["namespace"]
        self.counts_from: Callable[[datetime], datetime | None] = lambda now: None
        """Time from which a drain's timeout counts, given the time of the pass: before it, no bundle could be moved."""
        self.mixed_managers = False
        """Whether the brokers run more than one load manager, as they do while ``spec.loadBalancing.manager``
        changes."""
        self._used: set[str] = set()
        """Names of PulsarRebalances that are needed."""

    @property
    def asked(self) -> frozenset[str]:
        """Names of PulsarRebalances that the requested drains and fills need."""
        return frozenset(self._used)

    @property
    def enabled(self) -> bool:
        """Whether the user enabled drains."""
        return self._drain.enabled

    async def _owned(self, broker: str) -> set[BundleId]:
        return {each for each in await self._traffic.owned(broker) if each.namespace != SYSTEM_NAMESPACE}

    async def _bundles(self, broker: str) -> int:
        return len(await self._owned(broker))

    async def _left(self, owned: set[BundleId]) -> set[BundleId]:
        """Returns the bundles that can be moved. A broker may list bundles of a deleted namespace, or from before a
        split, which no plan knows. Checked only at the end of a drain, when few namespaces are left."""
        namespaces = sorted({each.namespace for each in owned})
        if len(namespaces) > FEW:
            return owned
        live: set[BundleId] = set()
        for name, found in (await ask_each(namespaces, self._traffic.boundaries)).items():
            if isinstance(found, PortError):  # the broker is believed
                live.update(each for each in owned if each.namespace == name)
                continue
            live.update(BundleId(name, lower, upper) for lower, upper in itertools.pairwise(found or ()))
        return owned & live

    async def emptiest(self, pods: Sequence[str]) -> str | None:
        """Returns the broker with the fewest bundles among those that list them; None if none does.

        The leader comes last: it decides which broker gets a bundle without owner, keeps the destinations of bundles
        only in memory (class ModularLoadManagerImpl of Pulsar 4.0.8, setNamespaceBundleAffinity), and so is elected
        only once.
        """
        try:
            registered = await self._traffic.brokers()
            leader = await self._traffic.leader()
        except PortError:
            return None
        pods = [pod for pod in pods if not leader or broker_id(pod, registered) != leader] or pods
        ids = {pod: broker_id(pod, registered) for pod in pods}
        found = await ask_each([each for each in ids.values() if each], self._bundles)
        answers = [(found[broker] if broker else 0, pod) for pod, broker in ids.items()]
        counts = [(count, pod) for count, pod in answers if not isinstance(count, PortError)]  # unknown
        # Equal ones go in the usual order: the highest ordinal first.
        least = min((count for count, _ in counts), default=0)
        return max((pod for count, pod in counts if count == least), key=lambda pod: (len(pod), pod), default=None)

    async def drain(self, pods: Collection[str], name: str, *, avoid: Collection[str] = ()) -> DrainProgress:
        """Ask for the drain ``name`` of some pods' brokers where it is needed; whether they may go.

        ``avoid`` are pods whose brokers get nothing, for they go next. Raises PortError for Kubernetes alone.
        """
        if not self.enabled or not pods:
            return DrainProgress(True)
        now = self._deps.clock.now()
        since = self._since(name, now)
        observation = await self._observe(pods, avoid)
        live, foreign = None, False
        if observation.bundles:
            live = await self._deps.kube.get(CUSTOM[Kind.REBALANCE], self._namespace, name)
            foreign = live is not None and purpose_of(live, self._cluster) != DRAIN
            if foreign:
                self._actor.refused.append(
                    f"PulsarRebalance {name} exists and is not owned by this cluster, so brokers cannot be drained "
                    "before they stop. Delete the PulsarRebalance"
                )
                live = None
        age = (now - since).total_seconds()
        facts = DrainFacts(
            tuple(sorted(pods)),
            age,
            observation.bundles,
            observation.others,
            mixed_managers=self.mixed_managers,
            rebalance=live,
            failure=observation.failure,
        )
        decision = decide(facts, self._drain)
        if decision.go:
            if not decision.why:
                return DrainProgress(True)
            incomplete = await self._incomplete(name, now, decision.why)
            # Something else may keep them: then the drain is over all the same, and its time does not start again.
            status = self._status(pods, name, since, observation.bundles)
            return DrainProgress(True, status.model_copy(update={"incomplete_since": incomplete}))
        if decision.recreate and live is not None:
            self._used.add(name)
            await self._actor.delete(
                CUSTOM[Kind.REBALANCE], live, "bundles that were assigned later require another plan"
            )
        if decision.ask:
            self._used.add(name)
            if live is None and not foreign:
                manifest = drain_manifest(self._cluster, name, observation.ids, observation.excluded, self._drain)
                if await self._actor.apply(manifest, None) is not None:
                    text = (
                        f"{len(pods)} brokers move their bundles to other brokers before they stop. See "
                        f"PulsarRebalance {name}"
                    )
                    await self._actor.record_event(Reason.DRAINING, text)
        asked = name if decision.ask or decision.recreate else None
        status = self._status(pods, name, since, observation.bundles, asked)
        return DrainProgress(False, status, Blocker(Reason.DRAINING, decision.why))

    async def _incomplete(self, name: str, now: datetime, why: str) -> str | None:
        """Returns the time at which the pods were allowed to stop with bundles left. An event reports it once for each
        drain, however long a PodDisruptionBudget or a refusal keeps the pods. None if nothing is acted on, so that the
        event is still to be recorded."""
        old = self._stored(name)
        if old is not None and old.incomplete_since is not None:
            return old.incomplete_since
        await self._actor.warn(Reason.DRAIN_INCOMPLETE, f"Proceeding without full drain, because {why}")
        return timestamp(now) if self._actor.act else None

    def _stored(self, name: str) -> DrainStatus | None:
        """The drain of the status, where it is the one of this occasion."""
        return self._before if self._before is not None and self._before.occasion == name else None

    def _status(
        self, pods: Collection[str], name: str, since: datetime, bundles: int | None, asked: str | None = None
    ) -> DrainStatus:
        old = self._stored(name)
        return DrainStatus(
            pods=sorted(pods),
            occasion=name,
            since=timestamp(since),
            bundles=bundles,
            rebalance=asked,
            incomplete_since=old.incomplete_since if old is not None else None,
        )

    def _since(self, name: str, now: datetime) -> datetime:
        """Returns the start of the drain of this occasion, from the status: it stays the same whichever of the brokers
        answer, and is replaced by the current time if the clock was set back."""
        old = self._stored(name)
        since = parse_time(old.since) if old is not None else None
        since = now if since is None else max(since, self.counts_from(now) or since)
        return min(since, now)

    async def _observe(self, pods: Collection[str], avoid: Collection[str]) -> _Observation:
        try:
            registered = await self._traffic.brokers()
            ids = tuple(found for pod in sorted(pods) if (found := broker_id(pod, registered)))
            excluded = tuple(found for pod in sorted(avoid) if (found := broker_id(pod, registered)))
            owned: set[BundleId] = set()
            for answer in (await ask_each(ids, self._owned)).values():
                if isinstance(answer, PortError):
                    raise answer
                owned |= answer
            bundles = len(await self._left(owned))
        except PortError as error:
            return _Observation(failure=str(error)[:300])
        return _Observation(ids, bundles, others=len(set(registered) - {*ids, *excluded}), excluded=excluded)

    async def fill(self, tag: str, pods: Sequence[str], *, there: bool) -> None:
        """Requests a share of the bundles for brokers that are new (or, ``there``, about to be restarted).

        Nothing is requested if no broker has bundles; a broker that does not answer may have some. Raises PortError for
        Kubernetes alone.
        """
        if not self.enabled or not pods:
            return
        name = fill_name(self._name, tag)
        if await self._deps.kube.get(CUSTOM[Kind.REBALANCE], self._namespace, name) is not None:
            self._used.add(name)
            return
        try:
            registered = await self._traffic.brokers()
            if there:
                ids = [found for pod in pods if (found := broker_id(pod, registered))]
            else:
                ids = future_ids(pods, registered)
        except PortError:
            return  # whoever balances later finds the new broker idle
        if ids and await self._may_serve(registered):
            self._used.add(name)
            await self._actor.apply(fill_manifest(self._cluster, name, ids, self._drain), None)

    async def _may_serve(self, registered: Sequence[str]) -> bool:
        """Whether any broker has bundles, or does not list what it has."""
        for broker in registered:
            try:
                if await self._bundles(broker):
                    return True
            except PortError:
                return True
        return False

    async def clean(self, asked: Collection[str], *, changing: bool) -> None:
        """Deletes drains of earlier occasions, and fills that name an undesired broker while brokers change.

        ``asked`` are those that this pass needs. A broker that was added and removed again before it got a bundle needs
        no drain.
        """
        desired = {f"{workload_name(self._name, Component.BROKER)}-{ordinal}" for ordinal in range(self._replicas)}
        for each in await reader_of(self._deps).every(Kind.REBALANCE, allowed_by=self._cluster):
            meta = each["metadata"]
            purpose = purpose_of(each, self._cluster)
            if purpose is None or meta["name"] in asked or "deletionTimestamp" in meta:
                continue
            if purpose == DRAIN or (purpose == FILL and (changing or outgrown(each, desired))):
                await self._actor.delete(CUSTOM[Kind.REBALANCE], each, "it is no longer needed")


def drains_of(ctx: PhaseContext) -> BrokerDrains | None:
    """Returns the drains of the cluster of a pass; None if no broker can be asked."""
    brokers, facts = ctx.live.facts(Component.BROKER), ctx.facts
    if facts.spec.broker is None or brokers is None or not brokers.ready:
        return None
    endpoint = facts.brokers(ctx.manifests)
    if facts.spec.mode is ClusterMode.STANDALONE or endpoint is None:
        return None
    drains = BrokerDrains(ctx.actor.deps, ctx.actor, facts.obj, facts.spec, endpoint, facts.before.drain)
    drains.mixed_managers = len(load_managers(ctx.live)) > 1
    drains.counts_from = partial(answers_since, facts, Component.BROKER)
    return drains
