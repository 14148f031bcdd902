"""What each phase reports beside its facts: its progress, and when the next pass is needed. Pure.

What makes progress comes first, then what is blocked, then what waits for something else; within these, the order of
the phases. Status and reason of condition Progressing are those of the first report, and its message names all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.healing import HEALING, Healing
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView, DecommissionFact, RolloutFact, ScaleFact
from pulsar_operator.domain.dataplane.rollout.checks import ROLLOUT_IN_PROGRESS
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder

AGAIN_SECONDS: Final = 1.0
"""Seconds until the next pass after an action that was only started."""
RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Finding:
    """Report of one phase, or of all of them."""

    requeue: float | None = None
    """Seconds until the next pass at the latest; None if the phase needs none."""
    progressing: tuple[bool, Reason, str] | None = None
    """Status, reason and message of condition Progressing; None if nothing is in progress and nothing waits."""
    under_way: bool = False
    """Whether the work has begun and is not blocked by another phase, another cluster or a person."""

    @property
    def rank(self) -> tuple[bool, bool, bool, bool]:
        """Sort key of a report; the lowest comes first. Progress comes before blockers, which may last for days. Among
        blockers, one that a person must resolve comes before one that ends with time, such as a maintenance window."""
        allowed, reason, _ = self.progressing or (True, Reason.READY, "")
        progress = allowed and self.under_way
        return not progress, allowed, HEALING[reason] is Healing.ITSELF, not self.under_way


def fold(findings: Iterable[Finding]) -> Finding:
    """One report of those of the phases, given in their order."""
    every = list(findings)
    reported = sorted((each for each in every if each.progressing is not None), key=lambda each: each.rank)
    requeue = min((each.requeue for each in every if each.requeue is not None), default=None)
    texts = dict.fromkeys(each.progressing[2] for each in reported if each.progressing is not None)
    if not reported or reported[0].progressing is None:
        return Finding(requeue)
    allowed, reason, _ = reported[0].progressing
    return Finding(requeue, (allowed, reason, ". ".join(texts)), reported[0].under_way)


def findings_of(view: ClusterView) -> Iterator[Finding]:
    """Reports of the phases that ran, in their order."""
    if view.volumes is not None and view.volumes.foreign is not None:
        yield _foreign(view.volumes.foreign)
    if view.decommission is not None:
        yield _decommission(view.decommission)
    if view.rollout is not None:
        yield from _rollout(view.rollout, view.template_order)
    if view.scale is not None:
        yield from _scale(view.scale)
    if view.listeners is not None and view.listeners.known.missing:
        yield Finding(RETRY_SECONDS)
    if view.certificate is not None and view.certificate.blocker is not None:
        yield Finding(RETRY_SECONDS)
    for fact in (view.racks, view.placement, view.balance, view.scaling):
        if fact is not None and fact.again:
            yield Finding(AGAIN_SECONDS)


def _foreign(text: str) -> Finding:
    return Finding(progressing=(False, Reason.FOREIGN_VOLUME, text))


def _decommission(fact: DecommissionFact) -> Finding:
    """Returns the report of a decommission or of a volume replacement. A refused one makes no progress."""
    begun = fact.step is not None
    condition = (fact.reason is None, fact.reason or fact.doing, fact.message) if begun or fact.message else None
    return Finding(AGAIN_SECONDS if fact.again else RETRY_SECONDS if fact.step else None, condition, begun)


def _rollout(fact: RolloutFact, template_order: TemplateOrder | None) -> Iterator[Finding]:
    """Returns the reports of a rollout. It makes no progress if it failed, if it waits for its maintenance window, or
    while something outside of the rollout blocks its next pod."""
    rollout = fact.status
    if rollout is None:
        return
    blocked = Reason(rollout.blocked_by) if rollout.blocked_by is not None else Reason.ROLLOUT_IN_PROGRESS
    passes = blocked in ROLLOUT_IN_PROGRESS
    if template_order is not None and template_order.stop is not None and template_order.blocker is not None:
        stopped = template_order.stop.reason
        yield Finding(progressing=(False, stopped, template_order.blocker.message), under_way=True)
        if not passes or template_order.stopped is None or rollout.component in template_order.stopping:
            return  # otherwise the rollout of a component that the failed one needs continues
    text = f"The rollout of the {rollout.component} pods has replaced {rollout.pods_done} of {rollout.pods_total} pods"
    text = f"{text}. {rollout.message}" if rollout.message is not None else text
    reason = Reason.ROLLOUT_IN_PROGRESS if passes else blocked
    yield Finding(progressing=(reason is not Reason.MAINTENANCE_WINDOW, reason, text), under_way=passes)


def _scale(fact: ScaleFact) -> Iterator[Finding]:
    """Returns why pods are not added or removed yet."""
    if fact.drain is not None:
        draining = fact.drain.blocker
        yield Finding(progressing=(True, draining.reason, draining.message), under_way=True)
    for blocker in fact.blockers:
        yield Finding(RETRY_SECONDS, (True, blocker.reason, blocker.message))
    if fact.foreign is not None:
        yield _foreign(fact.foreign)
