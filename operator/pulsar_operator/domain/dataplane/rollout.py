"""One-by-one replacement of pods of OnDelete StatefulSets: which pod to delete now, or what to wait for. Pure.

The algorithm, repeated at every pass from what is observed then:

1. Repair: an outdated pod that has not been ready since its container started does no work, so it is replaced at once,
   whatever else is unready, terminating or missing. Otherwise a broken revision could block its own correction. An
   outdated pod that was ready in an earlier container may come back without that. While something holds the component,
   it is not repaired. While a pod of the newest revision is unready, being made or being awaited, it is repaired only
   after it has been unready for half the progress deadline, and not at all while the newest revision fails to
   start: otherwise a version that does not start would take each pod that restarts.
2. Otherwise the first component, in bring-up order, that has something to replace and whose turn it is. A component is
   not settled while its StatefulSet controller has not seen the newest spec, or a pod is terminating, missing or too
   many. Not settled, unready or outdated, it keeps itself and those that depend on it from being rolled, and nobody
   else: a proxy on a node that is gone must not hold up the bookies.
3. In its turn all other pods of the component must be ready before a pod is taken. An outdated pod that is unready (but
   was ready) goes first, then the one the caller names, then the highest ordinal; the leader, where one is known, last.

So a pod that is ready is only ever deleted while every other pod of its component, and every pod of the components it
depends on, is ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.domain.dataplane.absent_pods import missing_names
from pulsar_operator.domain.dataplane.pod_diff import replacement_reason
from pulsar_operator.domain.dataplane.pods import NO_PLACE, PodFacts, pods_of, unready_since, update_revision

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Blocker:
    """What keeps the next pod of a roll from being replaced."""

    reason: Reason
    """Reason of condition Progressing; Rolling where the roll just takes its time."""
    message: str
    """State, cause and remedy in sentences."""


@dataclass(frozen=True)
class PodToReplace:
    """A pod that is to go, with the UID as precondition."""

    name: str
    uid: str
    reason: str
    """Why, in words; for log, event and status."""
    repair: bool = False
    """Whether it does no work: its container was never ready."""
    once_ready: bool = False
    """Whether the pod was ready in an earlier container, so that a restart says nothing of its template: what holds the
    component holds it too."""
    budget: bool = True
    """Whether it leaves by eviction, so that a PodDisruptionBudget has a say. Not where the pod was never ready, nor an
    unready pod that is alone, nor where sidecars of several are not ready: their budget answers 429 for ever (source:
    policy/v1, IfHealthyBudget)."""


@dataclass(frozen=True)
class ComponentPods:
    """A component's StatefulSet and pods, as read."""

    component: Component
    stateful_set: Json
    pods: Sequence[Json]
    """Pods of the namespace or of the component; those of others are left out."""
    leader: str | None = None
    """Name of the pod to replace last, such as ZooKeeper's leader; None = not known."""
    first: str | None = None
    """Name of the pod to replace first, such as the emptiest broker; None = the highest ordinal."""
    held: bool = False
    """Whether something holds the component, such as a maintenance window: then only pods that were never ready are
    repaired."""
    given_up: datetime | None = None
    """Pods that restarted and have been unready since then or longer do not come back; None = every pod may."""


@dataclass(frozen=True)
class RepairRules:
    """When outdated pods whose container restarted are repaired."""

    held: frozenset[Component] = frozenset()
    """Components that something holds: such pods are not repaired."""
    deadline_seconds: float = 600.0
    """The progress deadline. Such a pod is taken not to come back after half of it: servers of one quorum, which all
    need the newest template, have the other half before the rollout stops."""
    answers_since: Mapping[Component, datetime] = field(default_factory=dict)
    """Time since which the stores answer that a component's pods read to start. The time before does not count."""

    def given_up(self, component: Component, now: datetime | None) -> datetime | None:
        """Value of `ComponentPods.given_up`; ``now`` None = not known."""
        latest = now - timedelta(seconds=self.deadline_seconds / 2) if now is not None else None
        answers = self.answers_since.get(component)
        return None if latest is None or (answers is not None and answers > latest) else latest


NO_RULES: Final = RepairRules()


@dataclass(frozen=True)
class RollPlan:
    """The next step of a roll. Nothing to do when ``complete``."""

    component: Component | None = None
    """Component the step belongs to; None when everything is up to date and ready."""
    replace: PodToReplace | None = None
    """Pod that is to go now; None = wait, or nothing to do."""
    waiting_for: str | None = None
    """What has to happen first, in words."""
    reason: str | None = None
    """Why the component is rolled; None while nothing is outdated."""
    pods_done: int = 0
    """Pods of the newest revision, ready or not."""
    pods_total: int = 0
    """Pods wanted."""
    revision: str | None = None
    """Revision the pods shall have."""

    @property
    def complete(self) -> bool:
        """Whether every pod is of the newest revision and ready."""
        return self.component is None

    @property
    def rolling(self) -> bool:
        """Whether pods are outdated; False also while new pods of a first start are merely not ready yet."""
        return self.reason is not None


@dataclass(frozen=True)
class State:
    """One component, evaluated."""

    component: Component
    revision: str | None
    total: int
    pods: tuple[PodFacts, ...]
    unsettled: str | None
    """Why the picture is not complete: spec not observed, pods missing, terminating or too many."""
    template: Json
    leader: str | None
    first: str | None
    missing: tuple[str, ...] = ()
    """Names of wanted pods that do not exist."""
    held: bool = False
    given_up: datetime | None = None

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
        """Whether every pod is there, of the newest revision and ready."""
        return self.unsettled is None and not self.outdated and not self.unready

    @property
    def done(self) -> int:
        """Pods of the newest revision."""
        return sum(not pod.terminating and pod.revision == self.revision for pod in self.pods)


DEPENDS_ON: Final[Mapping[Component, frozenset[Component]]] = {
    Component.BOOKIE: frozenset({Component.ZOOKEEPER}),
    Component.AUTORECOVERY: frozenset({Component.ZOOKEEPER, Component.BOOKIE}),
    Component.BROKER: frozenset({Component.ZOOKEEPER, Component.BOOKIE}),
    Component.PROXY: frozenset({Component.ZOOKEEPER, Component.BOOKIE, Component.BROKER}),
}
"""Whose pods must be settled, ready and up to date before a component's are taken."""


@dataclass(frozen=True)
class RollOrder:
    """In which order components are rolled."""

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


def plan_roll(components: Sequence[ComponentPods], order: RollOrder = FORWARDS) -> RollPlan:
    """The next step for the components of one cluster, given in their order: one pod to replace at most."""
    states = [evaluate(item) for item in components]
    for state in states:
        idle = [pod for pod in state.outdated if _repaired(state, pod)] if state.revision is not None else []
        if idle:
            return _plan(state, pod=_order(idle, state)[0])
    busy: set[Component] = set()
    waiting: RollPlan | None = None
    for state in states:
        step = _plan(state, waiting_for=state.unsettled) if state.unsettled else _step(state)
        if step is None:
            continue
        held = bool(order.before(state.component) & busy)
        if step.replace is not None and not held:
            return step
        busy.add(state.component)
        # The first that waits speaks for all; one that is held has something before it that waits.
        waiting = waiting or step
    return waiting or RollPlan()


def _repaired(state: State, pod: PodFacts) -> bool:
    """Whether a pod is replaced at once. The template of one whose container restarted, and was ready before, need not
    be why: it waits with its component, and for the newest revision to prove itself."""
    if pod.serving_before or not pod.once_ready:
        return not pod.serving_before
    if state.held or not state.unproven:
        return not state.held
    return not state.failing and state.given_up is not None and unready_since(pod, state.given_up) <= state.given_up


def _step(state: State) -> RollPlan | None:
    """What the component needs; None when it is up to date and ready."""
    if not state.outdated:
        return _plan(state, waiting_for=_not_ready(state.unready)) if state.unready else None
    current_unready = [pod for pod in state.unready if pod.revision == state.revision]
    if current_unready:
        return _plan(state, waiting_for=_not_ready(current_unready))
    # One whose sidecar alone is not ready serves like the others, and goes in their order.
    stale_unready = [pod for pod in state.outdated if not pod.ready and not pod.serving]
    if len(stale_unready) > 1:
        # They were ready a moment ago and may come back together, as after an election: no quorum is taken apart.
        return _plan(state, waiting_for=_not_ready(stale_unready))
    return _plan(state, pod=(stale_unready or _order(state.outdated, state))[0])


def evaluate(item: ComponentPods) -> State:
    """One component as it is."""
    stateful_set = item.stateful_set
    spec = stateful_set.get("spec") or {}
    total = int(spec.get("replicas", 1))
    pods = pods_of(stateful_set, item.pods)
    revision = update_revision(stateful_set)
    return State(
        component=item.component,
        revision=revision,
        total=total,
        pods=pods,
        unsettled=_unsettled(stateful_set["metadata"]["name"], revision, total, pods),
        template=spec.get("template") or {},
        leader=item.leader,
        first=item.first,
        missing=missing_names(stateful_set["metadata"]["name"], total, (pod.ordinal for pod in pods)),
        held=item.held,
        given_up=item.given_up,
    )


def _unsettled(name: str, revision: str | None, total: int, pods: Sequence[PodFacts]) -> str | None:
    if revision is None:
        return f"the StatefulSet controller to observe the newest spec of {name}"
    for pod in pods:
        if pod.terminating:
            return f"pod {pod.name} to end"
    for pod in pods:
        if pod.ordinal >= total:
            return f"pod {pod.name}, which is beyond {total} replicas, to be removed"
    missing = missing_names(name, total, (pod.ordinal for pod in pods))
    if missing:
        return f"pod {missing[0]} to be created" + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
    return None


def _plan(state: State, *, pod: PodFacts | None = None, waiting_for: str | None = None) -> RollPlan:
    outdated = _order(state.outdated, state) if state.revision else []
    reason = replacement_reason((pod or outdated[0]).raw, state.template) if outdated else None
    return RollPlan(
        component=state.component,
        replace=_to_replace(state, pod, reason or "") if pod else None,
        waiting_for=waiting_for,
        reason=reason,
        pods_done=state.done if state.revision else 0,
        pods_total=state.total,
        revision=state.revision,
    )


def _to_replace(state: State, pod: PodFacts, reason: str) -> PodToReplace:
    alone = state.total == 1 and not pod.ready
    hidden = not pod.ready and pod.serving and len(state.unready) > 1
    budget = pod.serving_before and not alone and not hidden
    repair = not pod.serving_before
    return PodToReplace(pod.name, pod.uid, reason, repair, pod.once_ready, budget)


def _order(pods: Sequence[PodFacts], state: State) -> list[PodFacts]:
    """The one named first, then from the highest ordinal down, the leader last."""
    return sorted(pods, key=lambda pod: (pod.name == state.leader, pod.name != state.first, -pod.ordinal))


def _not_ready(pods: Sequence[PodFacts]) -> str:
    first = pods[0]
    why = f": {first.problem.message}" if first.problem else ""
    return f"pod {first.name} to become ready{why}" + (f" (and {len(pods) - 1} more)" if len(pods) > 1 else "")
