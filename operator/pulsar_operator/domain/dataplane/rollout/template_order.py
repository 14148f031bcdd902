"""Whose turn it is to get the newest pod template, and what every other workload keeps meanwhile. Pure.

For each component, in the order of the roll:

* What does not exist is created as rendered, and what has the newest rendering keeps it.
* Where it is not known what the newest must say, a component keeps what it has, whatever its pods do.
* A component whose roll to this rendering stopped goes back to the last template that all its pods ran, where that is
  no jump between versions that nobody tested. Those that depend on it wait; those before it may hold the cure.
* One whose template is broken takes the newest at once, unless something before it waits for its own turn and some of
  its pods serve: a broken template must not block its own correction. Broken means that no pod was ever ready with it,
  by the record and by the pods there are. Pods that are all unready in their current container do not say that: they
  ran out of memory, were evicted, or lost their node. Where the record is lost, nothing counts as broken.
* One of which no pod has served for as long as the progress deadline waits neither for other pods to be ready nor for a
  bookie that leaves: they may wait for it, as a bookie without its volume does for auto-recovery. It does wait for its
  turn among templates, for everything else that holds the cluster, and for what is watched.
* Else it is its turn when everything before it in the order is up to date, ready, settled and watched for as long as
  was asked (canary.py), and nothing holds the
  cluster (a maintenance window, another cluster of the instance, a store that is away, a roll that stopped).
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
    """A component's workload, as it is and as it is rendered."""

    component: Component
    rendered: Json
    """The StatefulSet to be."""
    record: TemplateRecord
    live: Json | None = None
    """The StatefulSet that is; None = there is none."""
    state: ComponentState | None = None
    """What its pods say; None = there is no StatefulSet."""
    may_go_back: bool = True
    """Whether the last template that all its pods ran may follow the newest: not where that is a jump between versions
    that nobody tested."""
    down: bool = False
    """Whether no pod has served for as long as the progress deadline (progress.py)."""
    answers_since: datetime | None = None
    """Since when the configuration store answers that its pods read to start; None = they need none, or it is not
    known. Until then a pod that did not start, or ended, says nothing of its template."""

    @cached_property
    def newest(self) -> str:
        """Hash of the newest rendering."""
        return template_hash(self.rendered)

    @property
    def applied(self) -> str | None:
        """Hash of the rendering that it has; None where that is not known, or it has none of ours."""
        if self.live is None:
            return None
        found = applied_hash(self.live)
        if found is None and first_difference(self.rendered["spec"]["template"], self.live["spec"]["template"]) is None:
            return self.newest
        return found

    @property
    def back(self) -> str | None:
        """Hash of the template that it goes back to, where its roll stopped."""
        good = self.record.good
        return good if self.stop is not None and self.may_go_back and good != self.newest else None

    @property
    def proven(self) -> bool:
        """Whether the template that it has ran well in all its pods: what is wrong now is not its fault."""
        return self.applied is not None and self.applied == self.record.good

    @property
    def broken(self) -> bool:
        """Whether the template that it has is why pods are not ready: no pod was ever ready with it, in any container.

        Where no template ran well in all pods yet, one pod that was never ready suffices, or one that is missing while
        no other is ready: nobody depends on the tier.
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
        """Whether the newest rendering is not the one it has."""
        return self.applied != self.newest

    @property
    def stop(self) -> Stop | None:
        """Why its roll to the newest rendering stopped."""
        return self.record.stopped(self.newest)


@dataclass(frozen=True)
class TierOrder:
    """What a component's workload gets now."""

    template: str | None
    """Hash of the template; None = none of ours is known, and the workload stays as it is."""
    pending: bool = False
    """Whether the newest rendering is still to come."""
    blocker: Blocker | None = None
    """What the newest waits for."""
    reason: str = ""
    """Why pods are to be replaced, while it is pending."""


@dataclass(frozen=True)
class TemplateOrder:
    """Of all components of a cluster."""

    of: Mapping[Component, TierOrder]
    blocker: Blocker | None = None
    """Why the roll does not go on, for people; see `holds`."""
    stopped: Component | None = None
    """The component whose roll stopped."""
    stop: Stop | None = None
    order: RollOrder = FORWARDS
    watched: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components whose first pod of another version is under observation."""
    unplaced: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components that have a pod more than they had and no node for it."""
    stopping: Mapping[Component, Blocker] = field(default_factory=dict)
    """Components that a stop holds."""
    canaries: Sequence[CanaryStatus] = ()
    """What is remembered of those whose first pod is watched."""
    back: Component | None = None
    """The component that goes back, which no stop and no window holds."""
    other_blocker: Blocker | None = None
    """What holds the components that no stop does."""

    def blocker_of(self, component: Component) -> Blocker | None:
        """Why no pod of a component is replaced; pods that were never ready are."""
        if self.stop is None:
            return self.blocker
        return None if component is self.back else self.stopping.get(component, self.other_blocker)

    @property
    def pending(self) -> Component | None:
        """The first component that does not have the newest rendering yet."""
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
    """What each workload gets; ``tiers`` in bring-up order, ``blocker`` what holds the whole cluster, ``watched`` those
    whose first pod is under observation, ``unplaced`` those that have no node for a pod that was added, ``fixed`` those
    that get no other template."""
    watched, unplaced, fixed = watched or {}, unplaced or {}, fixed or {}
    by_component = {tier.component: tier for tier in tiers}
    ordered = [by_component[component] for component in order.sorted(by_component)]
    stopped = next((tier for tier in ordered if tier.stop is not None and tier.state is not None), None)
    stop = stopped.stop if stopped is not None else None
    stopping: dict[Component, Blocker] = {}
    shown = blocker
    if stopped is not None and stop is not None:
        text = (
            f"The rollout of {stopped.component.value} pods failed: {stop.message}. Change the specification to "
            "continue"
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
    """What holds a component: a bookie that leaves may wait for one that is down."""
    return None if tier.down and blocker is not None and blocker.reason is Reason.DECOMMISSIONING_BOOKIE else blocker


def _kept(tier: Tier, blocker: Blocker | None) -> TierOrder:
    """As it is: of the rendering that it has, or untouched where that is not on record."""
    applied = tier.applied
    known = applied if applied is not None and applied in tier.record.kept else None
    return TierOrder(known, pending=True, blocker=blocker, reason=_reason(tier))


def _reason(tier: Tier) -> str:
    """The first difference between a pod and the newest rendering, in words."""
    pods = tier.state.pods if tier.state is not None else ()
    return replacement_reason(pods[0].raw, tier.rendered["spec"]["template"]) if pods else "the pod template changed"
