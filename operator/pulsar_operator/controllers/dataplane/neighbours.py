"""Another cluster of the instance that rolls, or would: must this one wait for it?

While its roll goes on, yes. Where it does not (it stopped, its specification is refused or cannot be read, nothing
happened for longer than anything takes), only what it tried without success keeps the others waiting: a change that has
a part in common with that must not reach them, and any other need not wait for ever. What it tried is looked at in its
workloads and records, not in its status. Where that does not tell, the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from pulsar_operator.api.constants import ANNOTATION_PAUSE, ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import Broker, PulsarClusterSpec
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.core.objects import meta_of
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.dataplane.children import observe_children
from pulsar_operator.domain.conditions import parse_time, seconds_since
from pulsar_operator.domain.dataplane.changes import Change, tried, unfinished, wanted
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.render import RenderedCluster
from pulsar_operator.ports import Deps, Json

PATIENCE_SECONDS: Final = 1800
"""Longest time in which nothing happens in a roll that goes on: a bookie replays its journal (its startup probe)."""
_STOPS: Final = frozenset({Reason.ROLL_STOPPED.value, Reason.CANARY_FAILED.value})
_REFUSALS: Final = frozenset({Reason.INVALID_SPEC.value, Reason.VERSION_REFUSED.value})


async def waits_for(deps: Deps, other: Json, mine: Callable[[], Change | None]) -> str | None:
    """What this cluster waits for because of another that began to roll before it, in words with the remedy; None = it
    need not. ``mine`` says what this one would change, None = not known. Raises PortError."""
    meta = meta_of(other)
    name, since = f"PulsarCluster {meta.namespace}/{meta.name}", other["status"]["rollout"]["since"]
    why = _hangs(other, deps.clock.now())
    if why is None:
        return f"{name} to have rolled, which it does since {since}; {_remedy(meta.namespace, meta.name)}"
    common = await _in_common(deps, other, mine)
    if common is None:
        return None
    return (
        f"{name} to have rolled, which it does since {since}, but {why}, and {common}; correct it there, or "
        f"{_remedy(meta.namespace, meta.name)}"
    )


def _remedy(namespace: str, name: str) -> str:
    return (
        f"to go on without it, pause it (kubectl -n {namespace} annotate pulsarcluster/{name} {ANNOTATION_PAUSE}=true) "
        "or delete it"
    )


def _hangs(other: Json, now: datetime) -> str | None:
    """Why its roll does not go on, and since when; None = it does."""
    progressing = condition_of(other, ConditionType.PROGRESSING) or {}
    if progressing.get("status") == "False" and progressing.get("reason") in _STOPS:
        return f"its roll stopped at {progressing.get('lastTransitionTime')} ({progressing['reason']})"
    if not _readable(other):
        return f"its specification cannot be read since {_accepted_since(other)} (InvalidSpec)"
    # Not by Accepted: what the API server refuses of it does not keep a roll from going on.
    if progressing.get("status") == "False" and progressing.get("reason") in _REFUSALS:
        return f"its specification is refused since {_accepted_since(other)} ({progressing['reason']})"
    rollout: dict[str, Any] = other["status"]["rollout"]
    went_on = str(rollout.get("progressed") or rollout["since"])
    time = parse_time(went_on)
    hangs = time is not None and seconds_since(time, now) > _patience(other).total_seconds()
    return f"nothing happens since {went_on}" if hangs else None


def _accepted_since(other: Json) -> str:
    return str((condition_of(other, ConditionType.ACCEPTED) or {}).get("lastTransitionTime"))


def _readable(other: Json) -> bool:
    try:
        PulsarClusterSpec.model_validate(other.get("spec"))
    except ValidationError:
        return False
    return True


def _patience(other: Json) -> timedelta:
    """For a specification that can be read."""
    spec = PulsarClusterSpec.model_validate(other["spec"])
    canary = spec.upgrade.canary.minutes if spec.upgrade.canary is not None else 0
    # A broker that drains is still there, and nothing is seen to happen; its new pod has its own deadline.
    drain = (spec.broker or Broker()).drain
    longest = (drain.timeout_seconds if drain.enabled else 0) + spec.progress_deadline_seconds
    return timedelta(seconds=max(PATIENCE_SECONDS, longest), minutes=canary)


async def _in_common(deps: Deps, other: Json, mine: Callable[[], Change | None]) -> str | None:
    """What this cluster's change and what the other tried have in common, in words; None = nothing."""
    live = await observe_children(deps, other)
    if not unfinished(live):
        return None
    theirs, ours = tried(live, _names(other), meta_of(other).namespace), mine()
    if theirs is None or ours is None:
        return "it is not known whether it tries the same change"
    common = ours.common(theirs)
    if not common:
        return None
    more = f" (and {len(common) - 1} more)" if len(common) > 1 else ""
    return f"it tries what is changed here too: {common[0]}{more}"


def changes_of(cluster: Json, version: str, live: Live, rendered: RenderedCluster) -> Change | None:
    """What a cluster would change in the pods it has; None = not known."""
    return wanted(live, rendered.components, version, _names(cluster), meta_of(cluster).namespace)


def _names(cluster: Json) -> Collection[str]:
    return {cluster["metadata"]["name"], pulsar_name(cluster)}
