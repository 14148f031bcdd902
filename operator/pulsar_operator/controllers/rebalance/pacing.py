"""The pace of steps and their duration: balance/execution/pace.py applied to a status."""

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
"""Maximum seconds that a move can take, since its step fails long before."""


def pace_of(spec: PulsarRebalanceSpec) -> Pace:
    """Returns the pace of a rebalance. If brokers are added or removed, the moves follow one another immediately, since
    the change of brokers waits for them."""
    errand = spec.mode in (RebalanceMode.ADD_BROKERS, RebalanceMode.REMOVE_BROKERS)
    return Pace(spec.budget.moves_per_minute, 1.0 if errand else RECONNECTING)


def unload_seconds(tools: Tools, state: RebalancePass) -> float | None:
    """Returns the average seconds that the last moves in the cluster took, of any rebalance; None if it is unknown, or
    if the value in the status is impossible."""
    text = state.status.progress.unload_seconds if state.status.progress else None
    try:
        found = float(text) if text else tools.unloads.get(state.cluster_name)
    except ValueError:
        return None
    return found if found is not None and 0 <= found <= LONGEST else None


def expected(tools: Tools, state: RebalancePass, steps: Sequence[Step]) -> float:
    """Returns the expected seconds from the approval until the last step is verified."""
    balancer_off = state.of_cluster.balancer is not None
    return expected_seconds(steps, pace_of(state.spec), unload_seconds(tools, state), connected=balancer_off)


def pause(tools: Tools, state: RebalancePass, step: Step | None) -> float:
    """Returns the seconds until the step after ``step``, the last verified one, may be requested; 0 or less if now, or
    if a step is being executed."""
    progress = state.status.progress
    last = parse_time(progress.current_since) if progress and progress.current is None else None
    if last is None or step is None:
        return 0.0
    return pace_of(state.spec).after(step, unload_seconds(tools, state)) - seconds_since(last, state.now)


def measure(tools: Tools, state: RebalancePass, step: Step, seconds: float) -> None:
    """Records what a move took, in seconds from its request until its new broker had the bundle. A step that
    disconnects no client is not counted, since a bundle without clients is unloaded immediately."""
    if not disconnects(step):
        return
    average = averaged(unload_seconds(tools, state), seconds)
    tools.unloads[state.cluster_name] = average
    state.progress(unload_seconds=f"{average:.2f}")


def took(state: RebalancePass) -> str | None:
    """Returns the time since the approval, as a message; None if it is unknown, for example after the clock was set
    back."""
    started = parse_time(state.status.progress.started_time if state.status.progress else None)
    seconds = seconds_since(started, state.now) if started is not None else inf
    return duration_text(seconds) if isfinite(seconds) else None


def precisely(state: RebalancePass) -> str:
    """Returns the current time in the format of a status, in milliseconds: moves may be less than a second apart."""
    return state.now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
