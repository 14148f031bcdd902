"""All facts that decide a rollout, in one frozen value. Pure.

controllers/dataplane/rollout/observe.py reads it. A fact that was not read is None, and blocks the replacement of a pod
that serves: unknown does not mean absent.
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
    """Revision that new pods get; None if the StatefulSet controller has not observed the newest spec."""
    total: int
    """Number of desired pods."""
    pods: tuple[PodFacts, ...]
    template: Json
    absent: Blocker | None = None
    """Why a pod is absent that is not being created, or whose node is lost; None if none is."""
    stale: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Why a pod of the newest revision is outdated, by its UID: a value that it read when it started has changed."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of desired pods that do not exist."""
        return missing_names(self.name, self.total, (pod.ordinal for pod in self.pods))

    @property
    def unsettled(self) -> str | None:
        """Returns why the facts are not complete, as a message: the spec is not observed yet, or pods are missing,
        terminating or surplus. None if they are complete."""
        if self.revision is None:
            return f"The StatefulSet controller has not observed the newest spec of {self.name} yet"
        for pod in self.pods:
            if pod.terminating:
                return f"Pod {pod.name} is terminating"
        for pod in self.pods:
            if pod.ordinal >= self.total:
                return f"Pod {pod.name} exceeds {self.total} replicas and is not removed yet"
        names = self.missing
        return f"Pod {names[0]} does not exist yet{and_more(names)}" if names else None

    @property
    def outdated(self) -> list[PodFacts]:
        """Pods with another revision than new pods get, or with other facts."""
        return [
            pod for pod in self.pods if not pod.terminating and (pod.revision != self.revision or pod.uid in self.stale)
        ]

    @property
    def unready(self) -> list[PodFacts]:
        """Pods that are not ready."""
        return [pod for pod in self.pods if not pod.ready]

    @property
    def idle(self) -> list[PodFacts]:
        """Pods that do no work: they have not been ready since their container started."""
        return [pod for pod in self.unready if not pod.terminating and not pod.serving_before]

    @property
    def unproven(self) -> bool:
        """Whether a pod of the newest revision is unready, does not exist yet, or replaces one that is ending."""
        current = (pod.revision == self.revision for pod in self.unready)
        return bool(self.missing) or any(pod.terminating for pod in self.pods) or any(current)

    @property
    def failing(self) -> bool:
        """Whether a pod of the newest revision was never ready and reports why. A pod without a node does not count:
        its template is not the cause."""
        new = [pod for pod in self.unready if pod.revision == self.revision and not pod.once_ready]
        return any(pod.problem is not None and pod.problem.reason not in NO_PLACE for pod in new)

    @property
    def quiet(self) -> bool:
        """Whether every pod exists, has the newest revision and is ready."""
        return self.unsettled is None and not self.outdated and not self.unready

    @property
    def done(self) -> int:
        """Pods of the newest revision that are not outdated."""
        if not self.revision:
            return 0
        return len([pod for pod in self.pods if not pod.terminating]) - len(self.outdated)

    @property
    def busy(self) -> Blocker | None:
        """Why it is not quiet without an outdated pod: the pod that is awaited."""
        if self.unsettled is not None:
            return self.absent or Blocker(Reason.NOT_READY, self.unsettled)
        return self.absent or Blocker(Reason.NOT_READY, not_ready(self.unready)) if self.unready else None


def component_state(
    component: Component, stateful_set: Json, pods: Iterable[Json], absent: Blocker | None = None
) -> ComponentState:
    """Returns the state of one component. ``pods`` may be all pods of the namespace: those of other owners are left
    out."""
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
    """Returns the sentence that pods are not ready; the first one with its problem."""
    first = pods[0]
    why = f". {first.problem.message}" if first.problem else ""
    return f"Pod {first.name} is not ready{and_more(pods)}{why}"


def and_more(names: Sequence[object]) -> str:
    """Returns the text for the number of others beside the first one."""
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


DEPENDS_ON: Final[Mapping[Component, frozenset[Component]]] = {
    Component.BOOKIE: frozenset({Component.ZOOKEEPER}),
    Component.AUTORECOVERY: frozenset({Component.ZOOKEEPER, Component.BOOKIE}),
    Component.BROKER: frozenset({Component.ZOOKEEPER, Component.BOOKIE}),
    Component.PROXY: frozenset({Component.ZOOKEEPER, Component.BOOKIE, Component.BROKER}),
}
"""Components whose pods must be settled, ready and up to date before a component's pods are replaced."""


@dataclass(frozen=True)
class RollOrder:
    """Order in which components are rolled out."""

    backwards: bool = False
    """Whether clients' components come first, as for a downgrade: a server must not use a storage that is older than
    itself."""

    def sorted(self, components: Iterable[Component]) -> list[Component]:
        """Returns components, given in bring-up order, in this order."""
        return list(components)[::-1] if self.backwards else list(components)

    def before(self, component: Component) -> frozenset[Component]:
        """Returns the components that must be done before this one."""
        if not self.backwards:
            return DEPENDS_ON.get(component, frozenset())
        return frozenset(other for other, needed in DEPENDS_ON.items() if component in needed)


FORWARDS: Final = RollOrder()


@dataclass(frozen=True)
class BookieFacts:
    """What the metadata store contains before a bookie is replaced."""

    storage: StorageFacts
    own: OwnBookies
    """Ids of the cluster's own bookies by ordinal and incarnation."""
    ids: tuple[str, ...]
    """Ids of the cluster's bookies: of all desired pods, and of removed ones that had data."""
    ensemble: int
    """Size of the largest ensemble, of the brokers' default and of all policies."""
    bound: tuple[Bound, ...] = ()
    """Namespaces that are bound to affinity groups of bookies."""
    groups_unknown: str | None = None
    """Why the bound namespaces are not known, as a message; None if they are."""
    racks: Mapping[str, str] = field(default_factory=dict)
    """Rack by pod name; a pod of an unknown rack is left out."""
    confirmation: UsedClusterConfirmation | None = None
    """Confirmation that bookies are replaced although copies are missing; None if there is none."""
    recorded: bool = False
    """Whether the status has it."""
    remedy: str = ""
    """How a user confirms it."""


@dataclass(frozen=True)
class PendingTemplate:
    """The first component that does not have its newest template yet."""

    component: Component
    reason: str
    """Why its pods are replaced."""
    blocker: Blocker | None
    """What blocks the template."""


@dataclass(frozen=True)
class RolloutFacts:
    """All facts that decide a rollout."""

    components: Sequence[ComponentState]
    """Existing components, in the order of the rollout."""
    order: RollOrder = FORWARDS
    blockers: Mapping[Component, Blocker] = field(default_factory=dict)
    """What blocks a component: a maintenance window, another cluster, the configuration store, a decommission, a failed
    rollout."""
    blocker: Blocker | None = None
    """What blocks the cluster; some components may be exempt."""
    pending: PendingTemplate | None = None
    """None if every component has its newest template."""
    decommission: Blocker | None = None
    """Blocker of a decommission that needs all other pods; None if there is none."""
    watched: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components whose first pod of another version is under observation."""
    unplaced: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components with an additional pod that no node can run."""
    stores: Blocker | None = None
    """Why a pod that reads the metadata store cannot start now; None if it can."""
    store_readers: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components that read the configuration store to start, while it is unavailable."""
    given_up: Mapping[Component, datetime] = field(default_factory=dict)
    """Time up to which outdated pods that restarted must have become unready to count as not recovering; without it,
    every pod may recover."""
    addresses: Blocker | None = None
    """Why a replaced broker could not start: an address of an external listener is not known."""
    stale: Mapping[str, str] = field(default_factory=dict)
    """Brokers that advertise an earlier address: see ComponentState.stale."""
    servers: Mapping[str, ServerState | None] | None = None
    """State of each ZooKeeper server, by pod; None for one that does not answer."""
    bookies: BookieFacts | None = None
    storage_problem: str | None = None
    """Why the metadata store gave no facts about bookies, if it was asked."""
    emptiest: str | None = None
    """Pod of the broker that is replaced first: the one with the fewest bundles, or whose drain has begun."""
    surplus_brokers: int | None = None
    """Number of desired brokers while there are more; None if there are not."""
    handover: Mapping[str, Blocker] = field(default_factory=dict)
    """Blockers of brokers that still own bundles, by UID."""
    deleted_claims: Mapping[str, str] = field(default_factory=dict)
    """Claims that are being deleted, by UID of their pod."""
    missing_claims: Mapping[str, str] = field(default_factory=dict)
    """Claims of a StatefulSet's pod that do not exist, by UID of the pod."""
    refused: Mapping[str, Blocker] = field(default_factory=dict)
    """Blockers that the API server reported for the replacement of a pod, by its UID."""

    def of(self, component: Component) -> ComponentState:
        """Returns the state of an existing component."""
        return next(state for state in self.components if state.component is component)

    def observed(self, components: Sequence[ComponentState]) -> RolloutFacts:
        """Returns a copy with newer states of the components."""
        states = [
            replace(each, stale=self.stale) if each.component is Component.BROKER else each for each in components
        ]
        return replace(self, components=states)

    def on_hold(self, component: Component) -> bool:
        """Whether restarted pods of a component keep their template. A decommission may be waiting for such a pod."""
        blocker = self.blockers.get(component)
        return component in self.watched or (
            blocker is not None and blocker.reason is not Reason.DECOMMISSIONING_BOOKIE
        )

    def refusing(self, uid: str, blocker: Blocker) -> RolloutFacts:
        """Returns a copy with a blocker that the API server reported for a pod."""
        return replace(self, refused={**self.refused, uid: blocker})


def given_up_since(
    components: Iterable[Component],
    now: datetime,
    deadline_seconds: float = 600.0,
    answers: Mapping[Component, datetime] | None = None,
) -> dict[Component, datetime]:
    """Returns the value of `RolloutFacts.given_up`.

    A restarted pod counts as not recovering after half of the progress deadline: servers of one quorum, which all need
    the newest template, have the other half before the rollout fails. ``answers`` has the time since which the stores
    answer that a component's pods read to start; earlier time does not count.
    """
    latest = now - timedelta(seconds=deadline_seconds / 2)
    return {each: latest for each in components if (answers or {}).get(each, latest) <= latest}
