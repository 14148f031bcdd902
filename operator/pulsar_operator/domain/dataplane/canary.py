"""The first pod of a component that runs another version, watched before the others follow. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.pods import PodFacts
from pulsar_operator.domain.dataplane.templates import Stop
from pulsar_operator.domain.dataplane.turns import Tier


@dataclass(frozen=True)
class Watch:
    """A component whose first pod is watched."""

    waiting_for: str = ""
    """What the others wait for, in words."""
    failed: Stop | None = None
    """Why the version is not for the others."""


def watch(tier: Tier, now: datetime, minutes: int) -> Watch | None:
    """Whether the others of a component still wait for its first pod of another version, or must not follow it.

    None where nothing is to be watched: no other version, no pod of it ready yet (the deadline of a roll is for that),
    or one that was ready for ``minutes``.
    """
    state, record = tier.state, tier.record
    if minutes <= 0 or state is None or tier.changed or tier.stop is not None or not _another_version(tier):
        return None
    pods = [pod for pod in state.pods if pod.revision == state.revision and not pod.terminating]
    since = min((_ready_since(pod, now) for pod in pods if pod.ready), default=None)
    over = since + timedelta(minutes=minutes) if since is not None else None
    if over is not None and now >= over:
        return None
    for pod in pods:
        if (why := _failed(pod)) is not None:
            version = record.kept[tier.newest].version
            return Watch(failed=Stop(tier.newest, f"pod {pod.name} of version {version} {why}", Reason.CANARY_FAILED))
    if over is None:
        return None
    first = min((pod for pod in pods if pod.ready), key=lambda pod: _ready_since(pod, now))
    return Watch(f"pod {first.name} to be ready until {timestamp(over)} (spec.upgrade.canary)")


def _another_version(tier: Tier) -> bool:
    """Whether the workload has the template of another version than the last one that all its pods ran well."""
    record = tier.record
    mine, good = record.kept.get(tier.newest), record.kept.get(record.good or "")
    if mine is None or good is None or mine.version is None or good.version is None:
        return False
    return mine.version != good.version


def _failed(pod: PodFacts) -> str | None:
    """What speaks against a pod that is watched."""
    why = f": {pod.problem.message}" if pod.problem else ""
    containers = (pod.raw.get("status") or {}).get("containerStatuses") or ()
    restarts = sum(int(each.get("restartCount") or 0) for each in containers)
    if restarts:
        return f"restarted {restarts} times{why}" if restarts > 1 else f"restarted{why}"
    return f"was ready and is not any more{why}" if not pod.ready and pod.serving_before else None


def _ready_since(pod: PodFacts, now: datetime) -> datetime:
    """Since when a ready pod is; ``now`` where it does not tell."""
    conditions = (pod.raw.get("status") or {}).get("conditions") or ()
    times = [parse_time(each.get("lastTransitionTime")) for each in conditions if each.get("type") == "Ready"]
    return next((each for each in times if each is not None), now)
