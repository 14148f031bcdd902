"""What each phase of a pass reports beside its facts: whether it makes progress, and when to look again. Pure.

Reports fold in the order of the phases. What is under way comes before what is blocked, and that before what waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView, DecommissionFact, RolloutFact, ScaleFact
from pulsar_operator.domain.dataplane.rollout.checks import ROLLOUT_IN_PROGRESS
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder

AGAIN_SECONDS: Final = 1.0
"""Until the next pass where something was only begun."""
RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Finding:
    """Report of one phase, or of all of them."""

    requeue: float | None = None
    """Seconds until the next pass at the latest; None = the phase asks for none."""
    progressing: tuple[bool, Reason, str] | None = None
    """Condition Progressing; None = nothing is under way, and nothing waits."""
    under_way: bool = False
    """Whether it has begun."""

    @property
    def blocked(self) -> bool:
        """Whether it makes no progress that could be waited for."""
        return self.progressing is not None and not self.progressing[0]


def fold(findings: Iterable[Finding]) -> Finding:
    """One report of those of the phases, given in their order."""
    every = list(findings)
    reported = [each for each in every if each.progressing is not None]
    first = min(reported, key=lambda each: (not each.under_way, not each.blocked), default=Finding())
    requeue = min((each.requeue for each in every if each.requeue is not None), default=None)
    if first.progressing is None or not first.blocked:
        return Finding(requeue, first.progressing, first.under_way)
    # What is blocked may stay so for days, as until a window: it hides nothing else that a person has to see to.
    blocked, reason, text = first.progressing
    others = [each.progressing[2] for each in reported if each.progressing is not None and each.blocked]
    return Finding(requeue, (blocked, reason, ". ".join(dict.fromkeys((text, *others)))), first.under_way)


def findings_of(view: ClusterView) -> Iterator[Finding]:
    """Reports of the phases that ran, in their order."""
    if view.volumes is not None and view.volumes.foreign is not None:
        yield _foreign(view.volumes.foreign)
    if view.decommission is not None:
        yield _decommission(view.decommission)
    if view.rollout is not None:
        yield _rollout(view.rollout, view.template_order)
    if view.scale is not None:
        yield _scale(view.scale)
        if view.scale.foreign is not None:
            yield _foreign(view.scale.foreign)
    for fact in (view.racks, view.placement, view.balance, view.scaling):
        if fact is not None and fact.again:
            yield Finding(AGAIN_SECONDS)


def _foreign(text: str) -> Finding:
    return Finding(progressing=(False, Reason.FOREIGN_VOLUME, text))


def _decommission(fact: DecommissionFact) -> Finding:
    """What a bookie's removal, or its new volume, is about; one that is refused makes no progress."""
    begun = fact.step is not None
    condition = (fact.reason is None, fact.reason or fact.doing, fact.message) if begun or fact.message else None
    return Finding(AGAIN_SECONDS if fact.again else RETRY_SECONDS if fact.step else None, condition, begun)


def _rollout(fact: RolloutFact, template_order: TemplateOrder | None) -> Finding:
    """What a rollout is about. One that failed, or waits for its window, makes no progress."""
    rollout = fact.status
    if rollout is None:
        return Finding()
    if template_order is not None and template_order.stop is not None and template_order.blocker is not None:
        return Finding(progressing=(False, template_order.stop.reason, template_order.blocker.message), under_way=True)
    blocked = Reason(rollout.blocked_by) if rollout.blocked_by is not None else Reason.ROLLOUT_IN_PROGRESS
    text = f"Rollout of the {rollout.component} pods: {rollout.pods_done} of {rollout.pods_total} are done"
    text = f"{text}. {rollout.message}" if rollout.message is not None else text
    reason = Reason.ROLLOUT_IN_PROGRESS if blocked in ROLLOUT_IN_PROGRESS else blocked
    return Finding(progressing=(reason is not Reason.MAINTENANCE_WINDOW, reason, text), under_way=True)


def _scale(fact: ScaleFact) -> Finding:
    """What pods that are added or removed wait for."""
    requeue = RETRY_SECONDS if fact.blocker is not None else None
    blocker = fact.drain.blocker if fact.drain is not None else fact.blocker
    progressing = (True, blocker.reason, blocker.message) if blocker is not None else None
    return Finding(requeue, progressing, under_way=fact.drain is not None)
