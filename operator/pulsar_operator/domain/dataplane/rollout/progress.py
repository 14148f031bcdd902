"""Whether a rollout makes progress: when it fails, and when a template has proved itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.objects.absent_pods import Absence
from pulsar_operator.domain.dataplane.objects.pods import NO_PLACE, PodFacts, unready_since
from pulsar_operator.domain.dataplane.objects.template_record import Stop
from pulsar_operator.domain.dataplane.rollout.canary import Watch
from pulsar_operator.domain.dataplane.rollout.facts import ComponentState
from pulsar_operator.domain.dataplane.rollout.template_order import Tier


def proved(tier: Tier, watched: Watch | None = None) -> str | None:
    """Returns the hash of the template that every pod has run, ready, for the required time, if the record does not
    have it yet; else None."""
    state, applied = tier.state, tier.applied
    if state is None or applied is None or applied not in tier.record.kept or applied == tier.record.good:
        return None
    return applied if state.quiet and state.total > 0 and watched is None else None


def first_ready(tier: Tier) -> str | None:
    """Returns the hash of the template with which a pod was ready, if the record does not have it yet; else None. Only
    during a rollout: before it, a template proves itself in all pods (`proved`).
    """
    state, applied, record = tier.state, tier.applied, tier.record
    if state is None or state.revision is None or applied not in record.kept or record.good is None:
        return None
    if applied in (record.good, record.ready):
        return None
    return applied if any(pod.once_ready and pod.revision == state.revision for pod in state.pods) else None


def grown(tier: Tier) -> int | None:
    """Returns how many pods run the last good template, if the record has another number; else None."""
    state, record = tier.state, tier.record
    if state is None or not tier.proven or not state.quiet or state.total in (0, record.ran):
        return None
    return state.total


def unplaced(tier: Tier) -> Blocker | None:
    """Returns the blocker if a component has an additional pod that no node can run; else None. Its changed template
    cannot be the cause, since no pod was replaced.
    """
    pods = tier.state.pods if tier.state is not None else ()
    pod = next((each for each in pods if not each.terminating and _never_placed(tier, each)), None)
    if pod is None or pod.problem is None:
        return None
    less = "" if tier.component is Component.BOOKIE else ", or lower the number of replicas"
    text = f"Pod {pod.name} was added to {tier.record.ran} pods. {pod.problem.message}. Add capacity for the pod{less}"
    return Blocker(Reason.UNSCHEDULABLE, text)


def _never_placed(tier: Tier, pod: PodFacts) -> bool:
    """Whether a pod is beyond those that ran the last good template, and no node can run it."""
    ran = tier.record.ran
    return ran is not None and pod.ordinal >= ran and pod.problem is not None and pod.problem.reason in NO_PLACE


def overcome(tier: Tier) -> bool:
    """Whether a recorded failure is of a change that was reverted: what replaced it runs and is ready."""
    state, record = tier.state, tier.record
    return record.stop is not None and tier.stop is None and not tier.changed and state is not None and state.quiet


def unneeded(tier: Tier) -> frozenset[str]:
    """Returns the hashes of recorded renderings that no pod uses or will use: those of reverted changes."""
    record = tier.record
    return frozenset(record.kept) - frozenset(record.only([tier.newest, tier.applied]).kept)


def down(tier: Tier, now: datetime, deadline: float, absent: Mapping[str, Absence]) -> bool:
    """Whether no pod of a component has served for ``deadline`` seconds. The time in which the configuration store was
    unavailable does not count."""
    state = tier.state
    if state is None or state.total == 0 or any(pod.ready or pod.serving_before for pod in state.pods):
        return False
    times = [unready_since(pod, now) for pod in state.pods]
    times += [absent[name].since if name in absent else now for name in state.missing]
    since = max(times, default=now)
    since = since if tier.answers_since is None else max(since, tier.answers_since)
    return (now - since).total_seconds() >= deadline


def stopped_by(tier: Tier, now: datetime, deadline: float, absent: Mapping[str, Absence] | None = None) -> Stop | None:
    """Returns why a rollout to the newest rendering fails: one of its pods was not ready within ``deadline`` seconds,
    or was not created. ``absent`` are pods that do not exist, by name.

    None while nothing is wrong, and if no earlier template is known: a first start waits. A pod that was ready and
    ceased to be is no failure of its template: its node may be gone. Neither is an additional pod that no node can run.
    Time in which the configuration store was unavailable does not count.
    """
    state, newest = tier.state, tier.newest
    if state is None or tier.stop is not None or tier.changed or tier.record.good in (None, newest):
        return None
    for pod in state.idle:
        if pod.revision != state.revision or _never_placed(tier, pod):
            continue
        since = unready_since(pod, now)
        since = since if tier.answers_since is None else max(since, tier.answers_since)
        age = (now - since).total_seconds()
        if age >= max(deadline, starting_for(pod)):
            why = f". {pod.problem.message}" if pod.problem else ""
            return Stop(
                newest, f"Pod {pod.name} was not ready within {deadline:g} s (spec.progressDeadlineSeconds){why}"
            )
    return _not_created(tier, state, now, deadline, absent or {})


def _not_created(
    tier: Tier, state: ComponentState, now: datetime, deadline: float, absent: Mapping[str, Absence]
) -> Stop | None:
    """Returns why a rollout fails because of a pod that does not exist; not for an additional pod, since the template
    is not the cause."""
    for name in state.missing if state.revision is not None else ():
        ordinal, absence = int(name.rpartition("-")[2]), absent.get(name)
        if absence is None or (tier.record.ran is not None and ordinal >= tier.record.ran):
            continue
        since = absence.since if tier.answers_since is None else max(absence.since, tier.answers_since)
        if (now - since).total_seconds() >= deadline:
            why = f": {absence.refusal}" if absence.refusal else ""
            text = f"Pod {name} was not created within {deadline:g} s (spec.progressDeadlineSeconds){why}"
            return Stop(tier.newest, text)
    return None


def starting_for(pod: PodFacts) -> float:
    """Returns the seconds that a starting pod's startup probe allows, since a bookie may replay its journal; 0 if its
    container ended before, or does not run."""
    status, spec = pod.raw.get("status") or {}, pod.raw.get("spec") or {}
    for container in status.get("containerStatuses") or ():
        running = (container.get("state") or {}).get("running") and not container.get("started")
        specs = {each.get("name"): each for each in spec.get("containers") or ()}
        probe = specs.get(container.get("name"), {}).get("startupProbe")
        if running and probe and not container.get("restartCount"):
            return float(probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10))
    return 0.0
