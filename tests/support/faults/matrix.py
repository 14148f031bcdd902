"""Every fault at every place of every scenario, compared with the undisturbed run.

What is asked of a disturbed run: it ends as the undisturbed one; nothing was changed in Pulsar more often than there,
and nothing deleted that was not deleted there; it comes to rest; and no object is looked at much more often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.cluster.end_state import differences
from tests.support.core.journal import ADMIN, KUBERNETES
from tests.support.faults.gate import ADMIN_FAULTS, KUBE_FAULTS, UNTRUE_404, Fault
from tests.support.faults.scenarios import Scenario
from tests.support.faults.site import Place, Prepared, Story, play
from tests.support.faults.watch import WATCH_FAULTS

LAST_PLACE_SECONDS = {KUBERNETES: 245.0, ADMIN: 150.0, "watch": 245.0}
"""A fault after this leaves no time for what repairs it. The trigger is at 121 s, just after a resync; the next
comes before 240 s, and what it asks of Pulsar is what was asked before."""
WINDOW_SECONDS = 60.0
EXTRA_PASSES = 12
"""More passes of one object in a window than the undisturbed run had: a failure that lasts is tried again after 0.5 s,
1 s, 2 s and so on, eight times in a minute, and the events of what then succeeds come on top."""


@dataclass(frozen=True)
class Disturbance:
    """A fault at a place, in words."""

    place: Place
    name: str
    call: str
    repeats: bool

    def __str__(self) -> str:
        return f"{self.name} at {self.place[0]} call {self.place[1]} ({self.call})"


def disturbances(calm: Story, scenario: Scenario) -> list[Disturbance]:
    """Everything that can happen to what the undisturbed run did.

    A 404 in Pulsar's own words ends a deletion: there is nothing more to ask. That such words come from Pulsar alone is
    the adapter's to see (tests/integration/faults), so here the fault is left out where something is deleted.
    """
    admin = tuple(fault for fault in ADMIN_FAULTS if fault is not UNTRUE_404 or not scenario.deletes)
    return [*_of_calls(calm, KUBERNETES, KUBE_FAULTS), *_of_calls(calm, ADMIN, admin), *_of_watches(calm)]


def _of_calls(calm: Story, port: str, faults: tuple[Fault, ...]) -> Iterator[Disturbance]:
    for number, (time, call) in enumerate(calm.seen[port]):
        for fault in faults:
            if time <= LAST_PLACE_SECONDS[port] and fault.concerns(call):
                yield Disturbance((port, number, fault), fault.name, str(call), fault.repeats)


def _of_watches(calm: Story) -> Iterator[Disturbance]:
    for number, (time, event) in enumerate(calm.seen["watch"]):
        if time <= LAST_PLACE_SECONDS["watch"]:
            for fault in WATCH_FAULTS:
                yield Disturbance(("watch", number, fault), fault, str(event), False)


def problems(prepared: Prepared, calm: Story, disturbance: Disturbance) -> list[str]:
    """What is otherwise than it should be in a disturbed run."""
    story = play(prepared, disturbance.place)
    found = differences(calm.state, story.state)
    if disturbance.repeats or disturbance.name == UNTRUE_404.name:
        # A write that comes late undoes a newer one, and what Pulsar says is gone was taken by somebody: that is drift,
        # and its repair is counted.
        found = [text for text in found if "/status/repairs" not in text]
    if not story.happened:
        found.append("the fault did not happen")
    if story.late_writes:
        found.append(f"writes of a converged world: {story.late_writes[:5]}")
    found += _unwanted(calm.changes, story.changes, repeats=disturbance.repeats)
    found += _hot(calm, story)
    return found


def _unwanted(calm: Counter[str], found: Counter[str], *, repeats: bool) -> list[str]:
    out = []
    for call, times in found.items():
        deletes = "DELETE" in call or "delete" in call
        if _tried_again(calm, call, times):
            continue
        if call not in calm and deletes:
            out.append(f"deleted what nobody deleted: {call}")
        elif times > calm[call] and not repeats:
            out.append(f"changed {times} times instead of {calm[call]}: {call}")
    return out


def _tried_again(calm: Counter[str], call: str, times: int) -> bool:
    """A topic or namespace that is not deleted yet gets its list of clusters back, and loses it again with the next
    try. A topic without a list of its own gets it back by DELETE, a namespace by another POST."""
    verb, _, path = call.partition(" ")
    if not path.endswith("/replication"):
        return False
    reduced = calm[f"POST {path}"]
    if path.startswith("namespaces/"):
        return verb == "POST" and 0 < times <= 2 * reduced + 1 and reduced > 0
    return path.startswith("persistent/") and verb in ("POST", "DELETE") and 0 < times <= 2 * reduced


def _hot(calm: Story, story: Story) -> list[str]:
    """Objects that were looked at too often."""
    usual, most = _most(calm), _most(story)
    limit = max(usual.values(), default=0) + EXTRA_PASSES
    return [
        f"hot loop: {key} was looked at {times} times in {WINDOW_SECONDS:g} s, the limit is {limit}"
        for key, times in most.items()
        if times > limit
    ]


def _most(story: Story) -> dict[str, int]:
    """Most passes of each object in any window."""
    out: dict[str, int] = {}
    times: dict[str, list[float]] = {}
    for time, key in story.passes:
        recent = [t for t in times.get(str(key), []) if t > time - WINDOW_SECONDS]
        times[str(key)] = [*recent, time]
        out[str(key)] = max(out.get(str(key), 0), len(recent) + 1)
    return out
