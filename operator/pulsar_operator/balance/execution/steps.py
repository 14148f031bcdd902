"""Execution of a proposal step by step: what is done, what comes next, and when to stop. Pure. Only the number of
verified steps is stored: whether a step is done is read from Pulsar. So an execution that was interrupted at any point
continues from the list of steps and the observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from json import dumps
from typing import Any

from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.names import shortened
from pulsar_operator.balance.model.ranges import range_points
from pulsar_operator.balance.planner.proposal import Move, Split

Step = Split | Move
NAMED = 3
"""Brokers that a message names."""

SPLIT_ALGORITHM = "specified_positions_divide"
"""The only algorithm that cuts where the request says (Pulsar's class SpecifiedPositionsBundleSplitAlgorithm)."""


def to_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Returns steps for the ConfigMap."""
    out: list[dict[str, Any]] = []
    for step in steps:
        place = {"namespace": step.bundle.namespace, "range": step.bundle.range}
        if isinstance(step, Split):
            out.append({"split": {**place, "at": f"0x{step.boundary:08x}"}, "reason": step.reason})
        else:
            move = {**place, "from": step.source, "to": step.destination, "weight": round(step.weight)}
            counts = {"topics": step.topics, "clients": step.clients}
            move |= {name: count for name, count in counts.items() if count is not None}
            out.append({"move": move, "reason": step.reason})
    return out


def from_json(data: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Returns steps from the ConfigMap. Raises ValueError or KeyError when another client changed them."""
    out: list[Step] = []
    for item in data:
        reason = str(item.get("reason", ""))
        if "split" in item:
            out.append(Split(_bundle(item["split"]), int(str(item["split"]["at"]), 16), reason))
        else:
            move = item["move"]
            source = move.get("from")
            counts = _count(move, "topics"), _count(move, "clients")
            place = _bundle(move), str(source) if source else None, str(move["to"])
            out.append(Move(*place, float(move["weight"]), reason, *counts))
    return out


def _count(data: Mapping[str, Any], name: str) -> int | None:
    return int(data[name]) if name in data else None


def _bundle(data: Mapping[str, Any]) -> BundleId:
    return BundleId(str(data["namespace"]), *range_points(str(data["range"])))


def identify(steps: Sequence[Step], moment: str) -> str:
    """Returns the identity of a proposal: its steps and when it was computed. It is the same after `to_json` and
    `from_json`."""
    content = dumps([to_json(steps), moment], sort_keys=True)
    return sha256(content.encode()).hexdigest()[:12]


def brokers_of(steps: Iterable[Step]) -> set[str]:
    """Returns ids of the brokers that steps name."""
    moves = (step for step in steps if isinstance(step, Move))
    return {broker for move in moves for broker in (move.source, move.destination) if broker}


def short_step_text(step: Step, brokers: Iterable[str]) -> str:
    """Returns a step as text, with short names; ``brokers`` are the ids from which these must differ."""
    return shortened(step_text(step), brokers)


def disconnects(step: Step) -> bool:
    """Whether a step makes clients reconnect: a move of a bundle that has some. The pieces of a split stay on their
    broker, and so do their clients."""
    if isinstance(step, Split):
        return False
    return step.clients > 0 if step.clients is not None else step.weight > 0


def step_text(step: Step) -> str:
    """Returns a step as text, with the ids of brokers."""
    if isinstance(step, Split):
        return f"split {step.bundle} at 0x{step.boundary:08x}"
    return f"move {step.bundle} from {step.source or 'no broker'} to {step.destination}"


class State(StrEnum):
    """The observed state of a step."""

    TO_DO = "ToDo"
    DONE = "Done"
    UNASSIGNED = "Unassigned"
    """A move whose bundle has no owner now: it is being moved, or was unloaded and not looked up since."""
    ELSEWHERE = "Elsewhere"
    """A requested move that ended on a third broker: the destination was lost. The modular load manager keeps it in the
    leader's memory, and a broker without a leader decides alone (class NamespaceService, searchForCandidateBroker)."""
    UNKNOWN = "Unknown"
    """A move whose bundle may be on a broker that does not list its bundles; no other broker has it."""
    INVALIDATED = "Invalidated"


@dataclass(frozen=True)
class Ownership:
    """The broker that owns a bundle, as far as the brokers list theirs."""

    broker: str | None = None
    """None if none of those that listed their bundles has it."""
    unanswered: tuple[str, ...] = ()
    """Brokers that did not list theirs, if no other one has it: one of them may."""


@dataclass(frozen=True)
class StepState:
    """State of a step and, for an unexpected change, the difference."""

    state: State
    message: str = ""


def step_state(
    step: Step, boundaries: Sequence[int], ownership: Ownership, brokers: Sequence[str], *, asked: bool = False
) -> StepState:
    """Returns the state of a step, given the live boundaries of its namespace, its bundle's owner and the live brokers.
    ``ownership`` is used for moves only. ``asked``: whether the step was requested already.
    """
    bundle, owner = step.bundle, ownership.broker
    known = set(boundaries)
    if not {bundle.lower, bundle.upper} <= known:
        return StepState(
            State.INVALIDATED,
            f"{bundle} has a boundary that the namespace does not have, because another client changed the bundles",
        )
    inside = sorted(b for b in known if bundle.lower < b < bundle.upper)
    if isinstance(step, Split):
        if step.boundary in inside:
            return StepState(State.DONE)
        if inside:
            return StepState(State.INVALIDATED, f"{bundle} was split by another client, at 0x{inside[0]:08x}")
        return StepState(State.TO_DO)
    if inside:
        return StepState(
            State.INVALIDATED, f"{bundle} is no longer a bundle, because it was split at 0x{inside[0]:08x}"
        )
    if owner == step.destination:
        return StepState(State.DONE)
    if step.destination not in brokers:
        return StepState(
            State.INVALIDATED, f"broker {step.destination}, to which {bundle} should move, no longer exists"
        )
    if owner is None and ownership.unanswered:
        named, more = ", ".join(ownership.unanswered[:NAMED]), len(ownership.unanswered) - NAMED
        which = named + (f" and {more} more" if more > 0 else "")
        return StepState(State.UNKNOWN, f"no broker that answered owns {bundle}, and {which} did not answer")
    if owner is None:
        return StepState(State.UNASSIGNED)
    if owner != step.source and asked:
        return StepState(State.ELSEWHERE, f"{bundle} was assigned to {owner}")
    if owner != step.source:
        return StepState(State.INVALIDATED, f"{bundle} is on {owner} and no longer on {step.source}")
    return StepState(State.TO_DO)
