"""Faults between the operator's ports and the servers: what may happen to call number i.

A :class:`Gate` numbers the calls that pass it and lets one fault happen at one of them. What a fault does lasts for the
one call, or, as a burst, for everything that passes during some seconds of the loop's clock (virtual in the matrices).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pulsar_operator.ports import ConflictError, Json, NotFoundError, PortError, RefusedError, UnavailableError
from tests.support.core.journal import EVICT, PortCall

DEADLINE_SECONDS = 15.0
"""After this an adapter gives a call up."""
LATE_SECONDS = 30.0
"""After this a call takes effect that was given up."""
BURST_SECONDS = 60.0
RETRY_AFTER_SECONDS = 20.0

Act = Callable[[], Awaitable[Any]]


class Effect(Protocol):
    """What happens to a call."""

    async def __call__(self, call: PortCall, act: Act, gate: Gate) -> Any:
        """The call's answer, or what it raises."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault."""

    name: str
    effect: Effect
    concerns: Callable[[PortCall], bool] = lambda call: True
    """Calls it makes sense at."""
    seconds: float = 0.0
    """0 = that call alone; else everything from then on for so long."""
    repeats: bool = False
    """Whether a write may take effect twice: what was given up happens late, beside the operator's next attempt."""


@dataclass
class Gate:
    """Numbers calls; disturbs what it was armed for."""

    seen: list[tuple[float, PortCall]] = field(default_factory=list)
    """Every call that came, with the loop's time."""
    happened: bool = False
    until: float = 0.0
    """When the disturbance ends, in the loop's time."""
    older: list[Json] = field(default_factory=list)
    """The objects as a stale list shows them."""
    late: set[asyncio.Task[Any]] = field(default_factory=set)
    kill: Callable[[], None] = lambda: None
    """Ends the operator's process."""
    _armed: tuple[int, Fault] | None = None

    def arm(self, place: int, fault: Fault) -> None:
        """Let the fault happen at the call of this number, counted from 0."""
        self._armed = (place, fault)

    async def through(self, call: PortCall, act: Act) -> Any:
        """Make the call, with what happens to it."""
        now = asyncio.get_running_loop().time()
        number = len(self.seen)
        self.seen.append((now, call))
        if self._armed is not None:
            place, fault = self._armed
            if number == place:
                self.happened, self.until = True, now + fault.seconds
            if number == place or (self.happened and now < self.until):
                return await fault.effect(call, act, self)
        return await act()

    def later(self, act: Act) -> None:
        """The server does it after all, when nobody waits any more."""

        async def do() -> None:
            await asyncio.sleep(LATE_SECONDS - DEADLINE_SECONDS)
            try:
                await act()
            except PortError:
                return  # what it was made for is not there any more

        task = asyncio.get_running_loop().create_task(do())
        self.late.add(task)
        task.add_done_callback(self.late.discard)


def raises(make: Callable[[], PortError]) -> Effect:
    """The call fails and nothing happened."""

    async def effect(call: PortCall, act: Act, gate: Gate) -> Any:
        raise make()

    return effect


async def lost_answer(call: PortCall, act: Act, gate: Gate) -> Any:
    """The call took effect, and the connection broke before the answer."""
    await act()
    raise UnavailableError("connection reset by peer; the call may have taken effect")


async def stalled(call: PortCall, act: Act, gate: Gate) -> Any:
    """No answer within the deadline, and nothing happened."""
    await asyncio.sleep(DEADLINE_SECONDS)
    raise UnavailableError(f"no answer within {DEADLINE_SECONDS:g} s")


async def late(call: PortCall, act: Act, gate: Gate) -> Any:
    """No answer within the deadline; what was asked for happens later."""
    await asyncio.sleep(DEADLINE_SECONDS)
    gate.later(act)
    raise UnavailableError(f"no answer within {DEADLINE_SECONDS:g} s")


async def killed_before(call: PortCall, act: Act, gate: Gate) -> Any:
    """The operator's process ends, and nothing happened."""
    gate.kill()
    await asyncio.Event().wait()  # nobody is there to go on


async def killed_after(call: PortCall, act: Act, gate: Gate) -> Any:
    """The call took effect, and the operator's process ends before it knows."""
    await act()
    gate.kill()
    await asyncio.Event().wait()


def writes_refused(make: Callable[[], PortError]) -> Effect:
    """Writes fail and nothing happened; reads pass."""

    async def effect(call: PortCall, act: Act, gate: Gate) -> Any:
        if call.is_write:
            raise make()
        return await act()

    return effect


def is_write(call: PortCall) -> bool:
    """Whether it may change something."""
    return call.is_write


def is_read(call: PortCall) -> bool:
    """Whether it changes nothing."""
    return not call.is_write


def is_eviction(call: PortCall) -> bool:
    """Whether a PodDisruptionBudget has a say."""
    return call.verb == EVICT


def is_list(call: PortCall) -> bool:
    """Whether it lists objects of Kubernetes."""
    return call.verb == "list"


RESET = raises(lambda: UnavailableError("connection reset by peer"))
TOO_MANY = raises(lambda: UnavailableError("HTTP 429: too many requests", retry_after=RETRY_AFTER_SECONDS))
COMMON = (
    Fault("killed before", killed_before, is_write),
    Fault("killed after", killed_after, is_write),
    Fault("dropped before", RESET),
    Fault("dropped after", lost_answer, is_write),
    Fault("409", raises(lambda: ConflictError("HTTP 409: the object has been modified")), is_write),
    Fault(
        "409 burst",
        writes_refused(lambda: ConflictError("HTTP 409: the object has been modified")),
        is_write,
        seconds=BURST_SECONDS,
    ),
    Fault("429", TOO_MANY),
    Fault("429 burst", TOO_MANY, seconds=RETRY_AFTER_SECONDS),
    Fault("500 burst", raises(lambda: UnavailableError("HTTP 500: internal error")), seconds=BURST_SECONDS),
    Fault("stall", stalled),
    Fault("stall, late effect", late, is_write, repeats=True),
)
"""Kinds of fault for Kubernetes and for admin REST."""

UNTRUE_404 = Fault("untrue 404", raises(lambda: NotFoundError("HTTP 404: not found")))
ADMIN_FAULTS = (
    *COMMON,
    Fault("412", raises(lambda: RefusedError("HTTP 412: precondition failed", status=412)), is_write),
    UNTRUE_404,
)
"""502 and 503 are one with 500 once an adapter has read them; they are told apart where HTTP is spoken."""


async def empty(call: PortCall, act: Act, gate: Gate) -> Any:
    """A list without anything in it."""
    await act()
    return []


async def truncated(call: PortCall, act: Act, gate: Gate) -> Any:
    """The first half of a list, rounded down."""
    found = await act()
    return found[: len(found) // 2]


async def stale(call: PortCall, act: Act, gate: Gate) -> Any:
    """A list of what was there some time ago."""
    await act()
    return copy.deepcopy([obj for obj in gate.older if obj["kind"] == call.kind])


LIST_FAULTS = (
    Fault("stale LIST", stale, is_list),
    Fault("empty LIST", empty, is_list),
    Fault("truncated LIST", truncated, is_list),
)


async def refused_by_budget(call: PortCall, act: Act, gate: Gate) -> Any:
    """A budget allows no pod less; everything else passes."""
    return "The disruption budget b needs 3 healthy pods and has 3 currently" if is_eviction(call) else await act()


BUDGET_FAULTS = (
    Fault("budget refuses", refused_by_budget, is_eviction),
    Fault("budget refuses burst", refused_by_budget, is_eviction, seconds=BURST_SECONDS),
)
KUBE_FAULTS = (*COMMON, *LIST_FAULTS, *BUDGET_FAULTS)
