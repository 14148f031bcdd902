"""Converts figures of pods to the number of pods that would carry the load. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, fsum

from pulsar_operator.balance.autoscaling.values import Input, Need, Policy, Signal, Workload
from pulsar_operator.domain.texts import sentence

STALE_INTERVALS = 2
"""Age in intervals above which inputs are not trusted."""
SATURATED = 0.95
"""Share of a pod's capacity above which a saturating figure is only a lower bound of the demand."""
IMPOSSIBLE = 1.5
"""Multiple of a pod's capacity above which a figure is invalid, of another unit or of another pod. A rate may slightly
exceed the limit, since the time between its readings is not exact."""
PERSISTS_INTERVALS = 1
"""Intervals for which the same pods must be saturated before more pods are added than the measured load needs: one
minute may be a garbage collection, or a backlog after a reconnect."""
ROUNDING = 1e-9
LARGEST = 1e18
"""Largest valid figure in any unit; a larger one is an error of its source, and cannot be used in calculations."""
SMALLEST = 1e-9
"""Smallest valid capacity of a pod: Kubernetes has no smaller amounts."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Predicted growth of the load; 1 if it does not grow."""

    soon: float = 1.0
    """Growth until a pod that is added now serves."""
    later: float = 1.0
    """Growth within the time for which removing a pod now would have to pay off."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """Number of pods that one signal requires."""

    signal: Signal
    pods: float
    """Pods that would carry the load at the target, as a real number."""
    total: float
    each: float
    """Mean capacity of a ready pod."""
    share: float
    """Mean used share of the ready pods' capacity."""
    busiest: str
    busiest_share: float
    """Used share of the busiest pod's capacity."""
    ahead: Ahead = Ahead()

    @property
    def saturated(self) -> bool:
        """Whether demand may exceed what can be measured."""
        return self.signal.saturates and self.share >= SATURATED


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a signal is unknown, or only partially known."""

    why: str
    pods: frozenset[str]
    """Pods for which it is unknown."""


def doubt(signal: Signal, workload: Workload, policy: Policy) -> Doubt | None:
    """Returns the ready pods for which a signal is unknown, and why; None if it is known for all.

    A missing value is not zero. An outdated one counts as missing, and so does one that is invalid or exceeds what a
    pod can have.
    """
    ready = workload.ready
    if not 0 <= signal.age <= STALE_INTERVALS * policy.interval:
        age = f"{signal.name} is {signal.age:.0f} s old, which is more than {STALE_INTERVALS * policy.interval:.0f} s"
        return Doubt(f"{signal.name} is not known" if not signal.values else age, ready)
    for pod in sorted(ready):
        if not SMALLEST <= _carries(signal, pod) <= LARGEST:
            return Doubt(f"the capacity of {pod} for {signal.name} is not known", ready)
    missing = sorted(ready - signal.values.keys())
    strange = sorted(pod for pod in ready - set(missing) if not _possible(signal, pod))
    if not missing and not strange:
        return None
    words = [f"{signal.name} is not known for {_few(missing)}"] if missing else []
    words += [
        f"{signal.name} of {pod} is {signal.values[pod]:.6g}, which is not a possible value" for pod in strange[:1]
    ]
    return Doubt("; ".join(words), frozenset((*missing, *strange)))


def _possible(signal: Signal, pod: str) -> bool:
    value = signal.values[pod]
    return 0 <= value <= LARGEST and not (signal.saturates and value > IMPOSSIBLE * _carries(signal, pod))


def needed(
    signals: Sequence[Signal], workload: Workload, policy: Policy, need: Callable[[Sequence[Signal]], Need]
) -> Need:
    """Returns the need for the signals, computed by ``need``, even if a signal is unknown for some pods.

    For a scale-out, pods that do not report count like the others; if most do not, or if some have just started, they
    count as idle. A scale-in requires that the others suffice even if the silent pods are fully loaded, and that half
    of the pods report. If the number is then still uncertain, there is no decision.
    """
    if not workload.ready:
        return Need(None, "no pod is ready")
    if not signals:
        return Need(None, "there is no input")
    doubts = [doubt(signal, workload, policy) for signal in signals]
    if not any(doubts):
        return need(signals)
    why = "; ".join(dict.fromkeys(each.why for each in doubts if each is not None))
    pairs = list(zip(signals, doubts, strict=True))
    few = all(found is None or 2 * len(found.pods) <= len(workload.ready) for found in doubts)
    assumed = at_least(signals, workload, policy)
    least = need(assumed) if assumed else None
    if least is not None and least.replicas is not None and least.replicas > workload.replicas:
        words = "with the mean load of the other pods" if few and not workload.unsure else "as idle"
        return replace(
            least,
            message=(f"{least.message}. {sentence(why)}, so the scale-out counts the pods without a value {words}"),
        )
    if few:
        most = need([_full(*each) for each in pairs])
        if most.replicas is not None and most.replicas < workload.replicas:
            return replace(
                most,
                message=(
                    f"{most.message}. {sentence(why)}, so the scale-in counts the pods without a value as fully loaded"
                ),
            )
    return Need(None, why)


def at_least(signals: Sequence[Signal], workload: Workload, policy: Policy) -> list[Signal]:
    """Returns the signals that some pods report, with an assumption on the minimum load of the others."""
    found = []
    for signal in signals:
        unknown = doubt(signal, workload, policy)
        if unknown is None:
            found.append(signal)
        elif unknown.pods < workload.ready:
            like = 2 * len(unknown.pods) <= len(workload.ready) and not workload.unsure
            found.append(_assumed(signal, unknown, like=like))
    return found


def _known(signal: Signal, found: Doubt) -> tuple[dict[str, float], list[float]]:
    """Returns the figures of pods that report, and their used shares."""
    known = {pod: value for pod, value in signal.values.items() if pod not in found.pods}
    return known, [value / _carries(signal, pod) for pod, value in known.items() if _carries(signal, pod) > 0]


def _assumed(signal: Signal, found: Doubt, *, like: bool) -> Signal:
    """Returns a signal for a scale-out, which assumes that silent pods are ``like`` the others, or idle."""
    known, shares = _known(signal, found)
    each = fsum(shares) / len(shares) if like and shares else 0.0
    return replace(signal, values={**known, **{pod: each * _carries(signal, pod) for pod in found.pods}})


def _full(signal: Signal, found: Doubt | None) -> Signal:
    """Returns a signal for a scale-in, which assumes that silent pods are fully loaded, or as loaded as the busiest."""
    if found is None:
        return signal
    known, shares = _known(signal, found)
    each = max(1.0, *shares) if shares else 1.0
    return replace(signal, values={**known, **{pod: each * _carries(signal, pod) for pod in found.pods}})


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _carries(signal: Signal, pod: str) -> float:
    return signal.carries if isinstance(signal.carries, float | int) else signal.carries.get(pod, 0.0)


def pressure(signal: Signal, workload: Workload) -> Pressure:
    """Returns what a trusted signal requires, from the pods that are ready."""
    pods = sorted(workload.ready)
    carries = [_carries(signal, pod) for pod in pods]
    values = [signal.values[pod] for pod in pods]
    total, each = fsum(values), fsum(carries) / len(pods)
    busiest_share, busiest = max((value / most, pod) for value, most, pod in zip(values, carries, pods, strict=True))
    share = total / (each * len(pods))
    return Pressure(signal, total / (each * signal.target), total, each, share, busiest, busiest_share)


def inputs_of(pressures: Iterable[Pressure], workload: Workload) -> tuple[Input, ...]:
    """Returns the inputs for status."""
    return tuple(
        Input(
            each.signal.name,
            each.total,
            each.each * each.signal.target * workload.serving,
            each.signal.age,
            each.signal.unit,
        )
        for each in pressures
    )


def staying(found: Pressure, workload: Workload, tolerance: float) -> int:
    """Returns the number of pods of the lowest ordinals that carry the load with the tolerance kept free; more than
    exist if they do not suffice. Returns 0 if all pods have the same size, for which `replicas_for` decides."""
    sizes = {pod: _carries(found.signal, pod) for pod in workload.ready}
    if min(sizes.values()) == max(sizes.values()):
        return 0
    carries = [sizes[pod] for pod in sorted(sizes, key=_ordinal)]
    load = found.pods * found.each * max(found.ahead.soon, found.ahead.later)
    room = accumulate(each * (1 - tolerance) for each in carries)
    return next((n for n, most in enumerate(room, 1) if most >= load), len(carries) + 1)


def _ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def replicas_for(up: float, down: float, workload: Workload, tolerance: float, least: int = 1) -> int:
    """Returns the replicas for a load that needs ``up`` pods soon, and ``down`` for long enough to remove some.

    Within the tolerance the number is unchanged. A scale-out adds pods until the target is met. A scale-in keeps enough
    pods to meet the target with the tolerance free, so that a load that fluctuates within it does not revert the
    change, and at least ``least``. Lost pods carry nothing and are replaced; pods that do not start carry nothing
    either.
    """
    serving = workload.serving
    if up > serving * (1 + tolerance) + ROUNDING:
        return ceil(up - ROUNDING) + workload.lost
    fewer = max(ceil(max(up, down) / (1 - tolerance) - ROUNDING), least) + workload.stuck
    return (fewer if fewer < serving else max(serving, 1)) + workload.lost


def need_of(pressures: Sequence[Pressure], workload: Workload, policy: Policy, *, persists: bool = False) -> Need:
    """Returns the highest need of the signals. There must be at least one. ``persists`` means that the pods have been
    saturated for long enough to assume a higher need."""
    top = max(pressures, key=lambda each: each.pods * each.ahead.soon)
    keeps = max(pressures, key=lambda each: each.pods * each.ahead.later)
    least = max(1, *(staying(each, workload, policy.tolerance) for each in pressures))
    count = replicas_for(top.pods * top.ahead.soon, keeps.pods * keeps.ahead.later, workload, policy.tolerance, least)
    saturated = next((each for each in pressures if each.saturated), None)
    if saturated is not None:
        top = saturated
        if persists:
            # How much more is asked for cannot be seen; a half more at a time would take one start after another.
            count = max(count, 2 * len(workload.ready) + workload.lost)
    now = max(each.pods for each in pressures)
    known = ceil(now - ROUNDING) + workload.lost
    foreseen = count > replicas_for(now, now, workload, policy.tolerance) and not top.saturated
    more, until = (top.ahead.soon, "before a new pod serves")
    if foreseen and count <= workload.replicas:
        top = keeps
        more, until = (top.ahead.later, "within the time for which a pod is worth keeping")
    text = describe_load(top, workload)
    if foreseen:
        text += f". Recorded traffic grows {more:.2f} times {until}"
    if count != workload.replicas:
        text += f". {count} pods are needed"
    unseen = count > max(known, workload.replicas)
    plain = max(known, least + workload.lost) + workload.stuck
    inputs = inputs_of(pressures, workload)
    return Need(count, text, inputs, known=known if unseen else None, plain=plain, ahead=foreseen)


def describe_load(top: Pressure, workload: Workload) -> str:
    """Returns a message about the load of the pods by one signal."""
    signal = top.signal
    text = (
        f"according to {signal.name}, {len(workload.ready)} ready pods carry {top.share:.0%} of their capacity on "
        "average"
    )
    if signal.target != 1:
        text += f" and the target is {signal.target:.0%}"
    if top.saturated:
        text += ". Demand may exceed their capacity"
    if workload.lost:
        text += f". {workload.lost} pods are lost and carry nothing"
    if workload.stuck:
        text += f". {workload.stuck} pods do not start"
    return text
