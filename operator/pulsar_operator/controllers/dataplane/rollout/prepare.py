"""Prepares the replacement of a pod of a PulsarCluster: drains a broker, and delays BookKeeper's recovery of a missing
bookie."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import DrainStatus
from pulsar_operator.balance.execution.drain import drain_name
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.balancing.broker_drains import BrokerDrains
from pulsar_operator.controllers.dataplane.bookkeeper.recovery_delay import raise_delay, seconds_for
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.bookie_racks import ordinal_of
from pulsar_operator.domain.dataplane.cluster.cluster_view import DrainFact
from pulsar_operator.domain.dataplane.rollout.facts import RolloutFacts
from pulsar_operator.domain.dataplane.rollout.order import Candidate, Urgency
from pulsar_operator.domain.render import StoreAddress
from pulsar_operator.ports import PortError


@dataclass
class Preparation:
    """The preparation in one pass over a cluster."""

    facts: ClusterFacts
    store: StoreAddress | None
    """The cluster's own metadata store; None if it has none."""
    actor: Actor
    drains: BrokerDrains | None
    drain: DrainFact | None = None
    """The drain in progress, once it was requested."""
    drained: DrainStatus | None = None
    """A drain that ended with bundles left, in this pass."""

    async def prepare(self, found: RolloutFacts, candidate: Candidate) -> RolloutFacts:
        """Prepares the replacement of the next pod; returns the facts with its blockers. Raises PortError of Kubernetes
        alone."""
        if candidate.component is Component.BROKER and self.drains is not None:
            return await self._drain_broker(self.drains, found, candidate)
        if candidate.component is Component.BOOKIE and self.actor.act:
            return await self._delay_recovery(found, candidate)
        return found

    async def _drain_broker(self, drains: BrokerDrains, found: RolloutFacts, candidate: Candidate) -> RolloutFacts:
        state = found.of(Component.BROKER)
        outdated = [pod.name for pod in state.outdated if pod.serving]
        if candidate.name not in outdated or len(state.pods) < 2:
            return found  # it serves nothing, or nobody else could
        # Bundles go to brokers that are done, so that no bundle moves more often than it must.
        done = any(pod.ready and not pod.terminating and pod.revision == state.revision for pod in state.pods)
        pod = next(each for each in state.pods if each.uid == candidate.uid)
        occasion = drain_name(self.facts.meta.name, pod.raw)
        progress = await drains.drain(
            [pod.name], occasion, avoid=[e for e in outdated if e != pod.name] if done else ()
        )
        if progress.status is None or progress.blocker is None:
            self.drained = progress.status
            return found
        if outdated == [pod.name]:
            # It comes back empty; what it gets then is asked for while it is clear that it is the last.
            await drains.fill(pod.uid[-5:], [pod.name], there=True)
        self.drain = DrainFact(progress.status, progress.blocker)
        return replace(found, handover={**found.handover, pod.uid: progress.blocker})

    async def _delay_recovery(self, found: RolloutFacts, candidate: Candidate) -> RolloutFacts:
        bookies = found.bookies
        if bookies is None or self.store is None:
            return found  # a pod that was never ready, and nobody can be told
        registered = bookies.own.id(ordinal_of(candidate.name)) in bookies.storage.registered
        if candidate.urgency > Urgency.ROUTINE and not registered:
            return found
        try:
            session = await self.actor.deps.zookeeper.session(self.store.servers, self.store.chroot or None)
            await raise_delay(session, seconds_for(self.facts.spec))
        except PortError as error:
            if candidate.urgency is Urgency.NEVER_READY:
                return found
            text = f"The metadata store cannot be read: {error}. The rollout continues once the store answers"
            return found.refusing(candidate.uid, Blocker(Reason.METADATA_UNREACHABLE, text))
        return found
