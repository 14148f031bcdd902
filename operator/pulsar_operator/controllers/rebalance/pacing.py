"""When the next step may be asked for, and how long steps take: balance/execution/pace.py on a status."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from math import inf, isfinite
from typing import Final

from pulsar_operator.api.v1alpha1.rebalance import PulsarRebalanceSpec, RebalanceMode
from pulsar_operator.balance.execution.pace import RECONNECTING, Pace, averaged, duration_text, expected_seconds
from pulsar_operator.balance.execution.steps import Step, disconnects
from pulsar_operator.controllers.rebalance.rebalance_pass import RebalancePass, Tools
from pulsar_operator.domain.conditions import parse_time, seconds_since

LONGEST: Final = 3600.0
"""Seconds; no move takes longer, for its step is given up long before."""


def pace_of(spec: PulsarRebalanceSpec) -> Pace:
    """Returns the pace of a rebalance; brokers that join or leave are waited for, so their moves follow one another
    immediately."""
    errand = spec.mode in (RebalanceMode.ADD_BROKERS, RebalanceMode.REMOVE_BROKERS)
    return Pace(spec.budget.moves_per_minute, 1.0 if errand else RECONNECTING)


def unload_seconds(tools: Tools, state: RebalancePass) -> float | None:
    """Returns what the last moves in the cluster took, of this rebalance or of another one; None if not known. A number
    in the status that no move can have taken counts as not known."""
    text = state.status.progress.unload_seconds if state.status.progress else None
    try:
        found = float(text) if text else tools.unloads.get(state.cluster_name)
    except ValueError:
        return None
    return found if found is not None and 0 <= found <= LONGEST else None


def expected(tools: Tools, state: RebalancePass, steps: Sequence[Step]) -> float:
    """Returns the seconds from the approval until the last of the steps is verified."""
    balancer_off = state.of_cluster.balancer is not None
    return expected_seconds(steps, pace_of(state.spec), unload_seconds(tools, state), connected=balancer_off)


def pause(tools: Tools, state: RebalancePass, step: Step | None) -> float:
    """Returns the seconds until the step after this one, which was verified last, may be asked for; 0 or less = now, or
    one is under way."""
    progress = state.status.progress
    last = parse_time(progress.current_since) if progress and progress.current is None else None
    if last is None or step is None:
        return 0.0
    return pace_of(state.spec).after(step, unload_seconds(tools, state)) - seconds_since(last, state.now)


def measure(tools: Tools, state: RebalancePass, step: Step, seconds: float) -> None:
    """Records the duration of a move, from its request until its new broker had the bundle. A step that disconnects no
    client is not measured: a bundle without clients is unloaded immediately."""
    if not disconnects(step):
        return
    average = averaged(unload_seconds(tools, state), seconds)
    tools.unloads[state.cluster_name] = average
    state.progress(unload_seconds=f"{average:.2f}")


def took(state: RebalancePass) -> str | None:
    """Returns the time since the approval, as a message; None where it is not known, as after the clock was set
    back."""
    started = parse_time(state.status.progress.started_time if state.status.progress else None)
    seconds = seconds_since(started, state.now) if started is not None else inf
    return duration_text(seconds) if isfinite(seconds) else None


def precisely(state: RebalancePass) -> str:
    """Now, as a time of a status, in milliseconds: moves may be less than a second apart."""
    return state.now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
