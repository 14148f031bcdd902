"""Which component gets the newest pod template next, and which template every other workload keeps until then. Pure.

For each component, in the order of the rollout:

* A workload that does not exist is created as rendered, and one with the newest rendering keeps it.
* If the newest rendering is incomplete because a fact is not known, a component keeps its template, whatever its pods
  do.
* A component whose rollout to this rendering failed returns to the last template that all its pods ran, unless that is
  an untested jump between versions. Components that depend on it wait; those before it may fix it.
* A component whose template is broken takes the newest immediately, unless a component before it waits and some of its
  pods serve: a broken template must not block its own correction. Broken means that no pod was ever ready with it, by
  the record and by the existing pods. Pods that are all unready in their current container do not prove that: they ran
  out of memory, were evicted, or lost their node. If the record is lost, nothing counts as broken.
* A component of which no pod has served for the progress deadline waits neither for other pods to be ready nor for a
  decommission: they may wait for it, as a bookie without its volume does for auto-recovery. It does wait for its place
  in the order of templates, for everything else that blocks the cluster, and for an observation.
* Any other component takes the newest once every component before it is up to date, ready, settled and observed for the
  required time (canary.py), and nothing blocks the cluster (a maintenance window, another cluster of the instance, an
  unavailable store, a failed rollout).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import CanaryStatus
from pulsar_operator.domain.apply import first_difference
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.objects.template_record import (
    Json,
    Stop,
    TemplateRecord,
    applied_hash,
    template_hash,
)
from pulsar_operator.domain.dataplane.rollout.facts import FORWARDS, ComponentState, RollOrder
from pulsar_operator.domain.dataplane.rollout.pod_diff import replacement_reason


@dataclass(frozen=True)
class Tier:
    """A component's workload, live and rendered."""

    component: Component
    rendered: Json
    """The rendered StatefulSet."""
    record: TemplateRecord
    live: Json | None = None
    """The live StatefulSet; None if there is none."""
    state: ComponentState | None = None
    """State of its pods; None if there is no StatefulSet."""
    may_go_back: bool = True
    """Whether the last template that all its pods ran may follow the newest: not if that is an untested jump between
    versions."""
    down: bool = False
    """Whether no pod has served for as long as the progress deadline (progress.py)."""
    answers_since: datetime | None = None
    """Time since which the configuration store answers that its pods read to start; None if they need none, or it is
    not known. A pod that did not start, or ended, before that time does not prove its template wrong."""

    @cached_property
    def newest(self) -> str:
        """Hash of the newest rendering."""
        return template_hash(self.rendered)

    @property
    def applied(self) -> str | None:
        """Hash of the applied rendering; None if it is not known, or the operator did not render it."""
        if self.live is None:
            return None
        found = applied_hash(self.live)
        if found is None and first_difference(self.rendered["spec"]["template"], self.live["spec"]["template"]) is None:
            return self.newest
        return found

    @property
    def back(self) -> str | None:
        """Hash of the template that it returns to, if its rollout failed."""
        good = self.record.good
        return good if self.stop is not None and self.may_go_back and good != self.newest else None

    @property
    def proven(self) -> bool:
        """Whether its template ran well in all its pods, so that it is not the cause of a problem."""
        return self.applied is not None and self.applied == self.record.good

    @property
    def broken(self) -> bool:
        """Whether its template is why pods are not ready: no pod was ever ready with it, in any container.

        If no template ran well in all pods yet, one pod that was never ready suffices, or one that is missing while no
        other is ready: no component depends on it.
        """
        state, applied, record = self.state, self.applied, self.record
        if state is None or state.revision is None or applied not in record.kept or applied == record.good:
            return False
        pods = [pod for pod in state.pods if pod.revision == state.revision and not pod.terminating]
        tried = [pod for pod in pods if not (pod.serving_before or pod.once_ready)]
        served = applied == record.ready or len(tried) < len(pods)
        if record.good is None:
            return bool(tried) or (bool(state.missing) and not served)
        return bool(tried) and not served

    @property
    def changed(self) -> bool:
        """Whether the newest rendering differs from the applied one."""
        return self.applied != self.newest

    @property
    def stop(self) -> Stop | None:
        """Why its rollout to the newest rendering failed."""
        return self.record.stopped(self.newest)


@dataclass(frozen=True)
class TierOrder:
    """The template that a component's workload gets now."""

    template: str | None
    """Hash of the template; None if it is not known, and the workload stays as it is."""
    pending: bool = False
    """Whether the newest rendering is not applied yet."""
    blocker: Blocker | None = None
    """What blocks the newest rendering."""
    reason: str = ""
    """Why pods are to be replaced, while it is pending."""


@dataclass(frozen=True)
class TemplateOrder:
    """The templates of all components of a cluster."""

    of: Mapping[Component, TierOrder]
    blocker: Blocker | None = None
    """Why the rollout does not continue."""
    stopped: Component | None = None
    """The component whose rollout failed."""
    stop: Stop | None = None
    order: RollOrder = FORWARDS
    watched: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components whose first pod of another version is under observation."""
    unplaced: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components with an additional pod that no node can run."""
    stopping: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components that a failed rollout blocks."""
    canaries: Sequence[CanaryStatus] = ()
    """Records of the components whose first pod is observed."""
    back: Component | None = None
    """The component that returns to an earlier template, which no failure and no window blocks."""
    other_blocker: Blocker | None = None
    """What blocks the components that no failed rollout blocks."""

    def blocker_of(self, component: Component) -> Blocker | None:
        """Returns why no pod of a component is replaced; pods that were never ready are exempt."""
        if self.stop is None:
            return self.blocker
        return None if component is self.back else self.stopping.get(component, self.other_blocker)

    @property
    def pending(self) -> Component | None:
        """Returns the first component that does not have the newest rendering yet."""
        return next((component for component, turn in self.of.items() if turn.pending), None)


def template_order(
    tiers: Sequence[Tier],
    *,
    blocker: Blocker | None = None,
    order: RollOrder = FORWARDS,
    watched: Mapping[Component, Blocker] | None = None,
    unplaced: Mapping[Component, Blocker] | None = None,
    fixed: Mapping[Component, Blocker] | None = None,
) -> TemplateOrder:
    """Decides which template each workload gets.

    ``tiers`` are in bring-up order. ``blocker`` blocks the whole cluster. ``watched`` are components whose first pod is
    under observation, ``unplaced`` those with an additional pod that no node can run, ``fixed`` those that get no other
    template.
    """
    watched, unplaced, fixed = watched or {}, unplaced or {}, fixed or {}
    by_component = {tier.component: tier for tier in tiers}
    ordered = [by_component[component] for component in order.sorted(by_component)]
    stopped = next((tier for tier in ordered if tier.stop is not None and tier.state is not None), None)
    stop = stopped.stop if stopped is not None else None
    stopping: dict[Component, Blocker] = {}
    shown = blocker
    if stopped is not None and stop is not None:
        text = (
            f"The rollout of the {stopped.component.value} pods failed. {stop.message}. Change the specification "
            "to continue"
        )
        shown = Blocker(stop.reason, text)
        above = order.before(stopped.component)
        stopping = {tier.component: shown for tier in ordered if tier.component not in above}
    of: dict[Component, TierOrder] = {}
    behind: set[Component] = set()
    busy: dict[Component, Blocker] = {}
    for tier in ordered:
        before = order.before(tier.component)
        waiting = [blocker for component, blocker in busy.items() if component in before]
        if tier.down:
            waiting = [watched[component] for component in before if component in watched]
            waiting += [busy[component] for component in before & behind]
        if tier.state is not None and tier.changed and tier.component in fixed:
            of[tier.component] = _kept(tier, fixed[tier.component])
        else:
            of[tier.component] = _turn(
                tier, before & behind, waiting, _blocker_for(tier, stopping.get(tier.component, blocker))
            )
        if tier.state is None:
            continue
        if tier.changed or tier.state.outdated:
            behind.add(tier.component)
        if tier.changed or not tier.state.quiet or tier.component in watched:
            text = f"The {tier.component.value} pods are not all up to date and ready"
            waits = unplaced.get(tier.component) or tier.state.busy or Blocker(Reason.NOT_READY, text)
            busy[tier.component] = watched.get(tier.component, waits)
    back = stopped.component if stopped is not None and stopped.back is not None else None
    component = stopped.component if stopped is not None else None
    return TemplateOrder(
        of, shown, component, stop, order, watched, unplaced, stopping, back=back, other_blocker=blocker
    )


def _turn(tier: Tier, behind: frozenset[Component], busy: Sequence[Blocker], blocker: Blocker | None) -> TierOrder:
    state, newest = tier.state, tier.newest
    if state is None or (not tier.changed and tier.stop is None):
        return TierOrder(newest)
    if tier.stop is not None:
        if tier.back is None:
            return _kept(tier, None) if tier.changed else TierOrder(newest)
        return TierOrder(tier.back, pending=True, reason=_reason(tier))
    if tier.broken and not (behind and any(pod.ready or pod.serving_before for pod in state.pods)):
        return TierOrder(newest)
    if blocker is not None:
        return _kept(tier, blocker)
    if busy:
        return _kept(tier, busy[0])
    return TierOrder(newest)


def _blocker_for(tier: Tier, blocker: Blocker | None) -> Blocker | None:
    """Returns what blocks a component. A decommission may be waiting for a component that is down, so it does not block
    it."""
    return None if tier.down and blocker is not None and blocker.reason is Reason.DECOMMISSIONING_BOOKIE else blocker


def _kept(tier: Tier, blocker: Blocker | None) -> TierOrder:
    """Returns the current rendering, or no change if it is not recorded."""
    applied = tier.applied
    known = applied if applied is not None and applied in tier.record.kept else None
    return TierOrder(known, pending=True, blocker=blocker, reason=_reason(tier))


def _reason(tier: Tier) -> str:
    """The first difference between a pod and the newest rendering, as a message."""
    pods = tier.state.pods if tier.state is not None else ()
    return replacement_reason(pods[0].raw, tier.rendered["spec"]["template"]) if pods else "the pod template changed"
