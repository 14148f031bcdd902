"""Everything by which a rollout is decided, in one frozen value. Pure.

controllers/dataplane/rollout/observe.py reads it. What was not read is None, and keeps a pod that serves from being
replaced: unknown is not absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.confirmations import UsedClusterConfirmation
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.affinity import Bound
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.dataplane.objects.absent_pods import missing_names
from pulsar_operator.domain.dataplane.objects.pods import NO_PLACE, PodFacts, pods_of, update_revision
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ComponentState:
    """One component's StatefulSet and pods, as read."""

    component: Component
    name: str
    """Name of the StatefulSet."""
    revision: str | None
    """Revision that new pods get; None = the StatefulSet controller has not observed the newest spec."""
    total: int
    """Pods wanted."""
    pods: tuple[PodFacts, ...]
    template: Json
    absent: Blocker | None = None
    """Why a pod is absent that nobody creates, or whose node is lost; None = none is."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of wanted pods that do not exist."""
        return missing_names(self.name, self.total, (pod.ordinal for pod in self.pods))

    @property
    def unsettled(self) -> str | None:
        """Why the picture is not complete, as a sentence: spec not observed, pods missing, terminating or too many."""
        if self.revision is None:
            return f"The StatefulSet controller has not observed the newest spec of {self.name}"
        for pod in self.pods:
            if pod.terminating:
                return f"Pod {pod.name} is terminating"
        for pod in self.pods:
            if pod.ordinal >= self.total:
                return f"Pod {pod.name} is beyond {self.total} replicas and not removed yet"
        names = self.missing
        return f"Pod {names[0]} does not exist yet{and_more(names)}" if names else None

    @property
    def outdated(self) -> list[PodFacts]:
        """Pods of another revision than new ones get."""
        return [pod for pod in self.pods if not pod.terminating and pod.revision != self.revision]

    @property
    def unready(self) -> list[PodFacts]:
        """Pods that are not ready."""
        return [pod for pod in self.pods if not pod.ready]

    @property
    def idle(self) -> list[PodFacts]:
        """Pods that do no work: not ready since their container started."""
        return [pod for pod in self.unready if not pod.terminating and not pod.serving_before]

    @property
    def unproven(self) -> bool:
        """Whether a pod of the newest revision is unready, does not exist yet, or takes the place of one that ends."""
        current = (pod.revision == self.revision for pod in self.unready)
        return bool(self.missing) or any(pod.terminating for pod in self.pods) or any(current)

    @property
    def failing(self) -> bool:
        """Whether a pod of the newest revision was never ready and reports why. A pod without a node says nothing of
        its template."""
        new = [pod for pod in self.unready if pod.revision == self.revision and not pod.once_ready]
        return any(pod.problem is not None and pod.problem.reason not in NO_PLACE for pod in new)

    @property
    def quiet(self) -> bool:
        """Whether every pod exists, is of the newest revision and ready."""
        return self.unsettled is None and not self.outdated and not self.unready

    @property
    def done(self) -> int:
        """Pods of the newest revision."""
        return sum(not pod.terminating and pod.revision == self.revision for pod in self.pods) if self.revision else 0

    @property
    def busy(self) -> Blocker | None:
        """Why it is not quiet, where no outdated pod is: a pod it waits for."""
        if self.unsettled is not None:
            return self.absent or Blocker(Reason.NOT_READY, self.unsettled)
        return self.absent or Blocker(Reason.NOT_READY, not_ready(self.unready)) if self.unready else None


def component_state(
    component: Component, stateful_set: Json, pods: Iterable[Json], absent: Blocker | None = None
) -> ComponentState:
    """One component as it is. ``pods`` may be those of the namespace: those of others are left out."""
    spec = stateful_set.get("spec") or {}
    return ComponentState(
        component=component,
        name=stateful_set["metadata"]["name"],
        revision=update_revision(stateful_set),
        total=int(spec.get("replicas", 1)),
        pods=pods_of(stateful_set, pods),
        template=spec.get("template") or {},
        absent=absent,
    )


def not_ready(pods: Sequence[PodFacts]) -> str:
    """That pods are not ready, as a sentence; the first with what it reports."""
    first = pods[0]
    why = f": {first.problem.message}" if first.problem else ""
    return f"Pod {first.name} is not ready{why}{and_more(pods)}"


def and_more(names: Sequence[object]) -> str:
    """How many others there are beside the first one."""
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


DEPENDS_ON: Final[Mapping[Component, frozenset[Component]]] = {
    Component.BOOKIE: frozenset({Component.ZOOKEEPER}),
    Component.AUTORECOVERY: frozenset({Component.ZOOKEEPER, Component.BOOKIE}),
    Component.BROKER: frozenset({Component.ZOOKEEPER, Component.BOOKIE}),
    Component.PROXY: frozenset({Component.ZOOKEEPER, Component.BOOKIE, Component.BROKER}),
}
"""Whose pods must be settled, ready and up to date before a component's are taken."""


@dataclass(frozen=True)
class RollOrder:
    """In which order components are rolled out."""

    backwards: bool = False
    """From the clients to the storage, as an older version goes in: what serves clients must not meet a storage that
    is older than itself."""

    def sorted(self, components: Iterable[Component]) -> list[Component]:
        """Components that are given in bring-up order, in this one."""
        return list(components)[::-1] if self.backwards else list(components)

    def before(self, component: Component) -> frozenset[Component]:
        """Components that must be done before this one's turn."""
        if not self.backwards:
            return DEPENDS_ON.get(component, frozenset())
        return frozenset(other for other, needed in DEPENDS_ON.items() if component in needed)


FORWARDS: Final = RollOrder()


@dataclass(frozen=True)
class BookieFacts:
    """What the metadata store says before a bookie is replaced."""

    storage: StorageFacts
    own: OwnBookies
    """How ids of the cluster's own bookies are made."""
    ids: tuple[str, ...]
    """Ids of the cluster's bookies: of all pods that are wanted, and of those that are gone and had data."""
    ensemble: int
    """Bookies that the largest ensemble takes, of the brokers' default and of all policies."""
    bound: tuple[Bound, ...] = ()
    """Namespaces that are bound to affinity groups of bookies."""
    groups_unknown: str | None = None
    """Why these are not known, in words; None = they are."""
    racks: Mapping[str, str] = field(default_factory=dict)
    """Rack by the name of a pod; pods of an unknown rack are missing."""
    confirmation: UsedClusterConfirmation | None = None
    """The confirmation that bookies go although copies are missing; None = there is none."""
    recorded: bool = False
    """Whether the status has it."""
    remedy: str = ""
    """How a person confirms that."""


@dataclass(frozen=True)
class PendingTemplate:
    """The first component that has not got its newest template yet."""

    component: Component
    reason: str
    """Why its pods are to be replaced."""
    blocker: Blocker | None
    """What the template waits for."""


@dataclass(frozen=True)
class RolloutFacts:
    """What a rollout is decided by."""

    components: Sequence[ComponentState]
    """Those that exist, in the order in which they are rolled out."""
    order: RollOrder = FORWARDS
    blockers: Mapping[Component, Blocker] = field(default_factory=dict)
    """What holds a component: a maintenance window, another cluster, the configuration store, a decommission, a rollout
    that failed."""
    blocker: Blocker | None = None
    """What holds the cluster; it may leave some components free."""
    pending: PendingTemplate | None = None
    """None = every component has its newest template."""
    decommission: Blocker | None = None
    """That a bookie is being decommissioned that needs all other pods; None = none is."""
    watched: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components whose first pod of another version is under observation."""
    unplaced: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components that have a pod more than they had, and no node for it."""
    stores: Blocker | None = None
    """Why a pod that reads the metadata store cannot start now; None = it can."""
    store_readers: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components that read the configuration store to start, while it is unavailable."""
    given_up: Mapping[Component, datetime] = field(default_factory=dict)
    """Outdated pods that restarted and have been unready since then or longer do not come back; without it, every pod
    may."""
    servers: Mapping[str, ServerState | None] | None = None
    """State of each ZooKeeper server, by pod; None of one that does not answer."""
    bookies: BookieFacts | None = None
    storage_problem: str | None = None
    """Why the metadata store did not say that, where it was asked."""
    emptiest: str | None = None
    """Pod of the broker that goes first: the one with the fewest bundles, or whose drain has begun."""
    surplus_brokers: int | None = None
    """Brokers that are wanted, while there are more; None = there are not."""
    handover: Mapping[str, Blocker] = field(default_factory=dict)
    """Brokers that have not handed their bundles over, by UID."""
    deleted_claims: Mapping[str, str] = field(default_factory=dict)
    """Claims that are being deleted, by UID of the pod that has one."""
    missing_claims: Mapping[str, str] = field(default_factory=dict)
    """Claims of a StatefulSet's pod that do not exist, by UID of the pod."""
    refused: Mapping[str, Blocker] = field(default_factory=dict)
    """What the API server says against the replacement of a pod, by its UID."""

    def of(self, component: Component) -> ComponentState:
        """The state of a component that exists."""
        return next(state for state in self.components if state.component is component)

    def on_hold(self, component: Component) -> bool:
        """Whether pods of a component that restarted keep their template. A bookie that leaves may wait for such a
        pod."""
        blocker = self.blockers.get(component)
        return component in self.watched or (
            blocker is not None and blocker.reason is not Reason.DECOMMISSIONING_BOOKIE
        )

    def refusing(self, uid: str, blocker: Blocker) -> RolloutFacts:
        """The same with what the API server says against the replacement of a pod."""
        return replace(self, refused={**self.refused, uid: blocker})


def given_up_since(
    components: Iterable[Component],
    now: datetime,
    deadline_seconds: float = 600.0,
    answers: Mapping[Component, datetime] | None = None,
) -> dict[Component, datetime]:
    """Value of `RolloutFacts.given_up`. A pod that restarted is taken not to come back after half of the progress
    deadline: servers of one quorum, which all need the newest template, have the other half before the rollout fails.

    ``answers`` has the time since which the stores answer that a component's pods read to start. The time before does
    not count.
    """
    latest = now - timedelta(seconds=deadline_seconds / 2)
    return {each: latest for each in components if (answers or {}).get(each, latest) <= latest}
