"""Every change of a bundle's broker, by Pulsar's own log, beside the steps the operator says it made.

A broker that takes a bundle writes a line of class OwnershipCache at level INFO, at each time (Pulsar 4.0.8,
acquireOwnership), and one of class OwnedBundle when it has let it go. Looking at the owners now and then misses what
changes twice in between, and counters of a broker end with its process: the log of each pod is followed instead.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from e2e.support.eventually import eventually
from e2e.support.kubectl import KubectlError
from e2e.support.podlog import Line, PodLog
from e2e.support.skew import NAMESPACE, Brokers

_GAINED = re.compile(r" INFO +\S*\bOwnershipCache - Successfully acquired ownership of OwnedBundle\(bundle=([^,]+),")
_RELEASED = re.compile(r" INFO +\S*\bOwnedBundle - Unloading (\S+) namespace-bundle with \d+ topics completed ")
_STEP = re.compile(r"^Step \d+ of \d+: move (\S+) from (\S+) to (\S+)")
_DRAIN_OR_FILL = re.compile(r"-(drain|fill)-")
STEP_DONE = "StepDone"


class Change(NamedTuple):
    """A broker took a bundle, or let it go; in the order of their times."""

    at: int
    bundle: str
    broker: str
    gained: bool


def change_of(line: Line, broker: str) -> Change | None:
    """What a line of a broker's log says about a bundle; None where it says nothing."""
    for pattern, gained in ((_GAINED, True), (_RELEASED, False)):
        if found := pattern.search(line.text):
            return Change(line.at, found[1], broker, gained)
    return None


def histories(before: Mapping[str, str], changes: Iterable[Change]) -> dict[str, list[str]]:
    """The owners of each bundle one after another, the first as it was ``before``.

    The same owner twice in sequence is a bundle that was let go and came back: its clients felt that too.
    """
    out = {bundle: [broker] for bundle, broker in before.items()}
    for change in sorted(changes):
        if change.gained:
            out.setdefault(change.bundle, []).append(change.broker)
    return out


def unseen(before: Mapping[str, str], changes: Iterable[Change]) -> list[str]:
    """Bundles that a broker let go and, by the log, never had: a line was missed. As sentences.

    The new owner may write its line before the old one does, so that only the set of owners tells.
    """
    changes = list(changes)
    owners = histories(before, changes)
    found = {
        f"{each.broker} let {each.bundle} go and was not seen to take it"
        for each in changes
        if not each.gained and each.broker not in owners.get(each.bundle, [])
    }
    return sorted(found)


class Step(NamedTuple):
    """A step of a drain or fill that the operator verified."""

    rebalance: str
    bundle: str


def steps_of(events: Iterable[Mapping[str, Any]]) -> Counter[Step]:
    """How often the operator made each move for a drain or fill, by the Events it wrote.

    Its PulsarRebalances go when what they were made for is over, and their status with them; the Events stay.
    """
    found: Counter[Step] = Counter()
    for event in events:
        name = event["involvedObject"].get("name", "")
        step = _STEP.match(event.get("message") or "")
        if event.get("reason") == STEP_DONE and _DRAIN_OR_FILL.search(name) and step:
            found[Step(name, step[1])] += int(event.get("count") or 1)
    return found


@dataclass(frozen=True)
class _Start:
    """As it was when counting began."""

    owners: dict[str, str]
    steps: Counter[Step]


class Moves:
    """Counts, while it is entered, how often each bundle of a namespace got an owner.

    ``with Moves(brokers) as moves:`` around an operation that may replace the brokers' pods; ``moves.caught_up()``
    before anything is read.
    """

    def __init__(self, brokers: Brokers, namespace: str = NAMESPACE) -> None:
        self._brokers = brokers
        self._namespace = namespace
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._start = _Start({}, Counter())
        self._logs: list[PodLog] = []

    def __enter__(self) -> Self:
        owners = eventually(lambda: self._brokers.owners(self._namespace), within=60, what="owners of the bundles")
        self._start = _Start(owners, self._steps())
        try:
            for broker in self._brokers.ids:
                self._logs.append(self._followed(broker))
                self._logs[-1].start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for log in self._logs:
            log.stop()

    def _followed(self, broker: str) -> PodLog:
        def take(line: Line) -> None:
            change = change_of(line, broker)
            if change is not None and change.bundle.startswith(f"{self._namespace}/"):
                with self._lock:
                    self._changes.append(change)

        pod = broker.split(".", 1)[0]
        return PodLog(self._brokers.kubectl, self._brokers.kubernetes_namespace, pod, take)

    def caught_up(self, *, within: float = 60) -> None:
        """Wait until the log agrees with the brokers on who owns what; raises AssertionError when it does not.

        A line that was missed is found here: the owners differ, or a broker let go what it never took.
        """

        def agreed() -> bool:
            errors = [log.error for log in self._logs if log.error]
            assert not errors, errors
            said = self._brokers.owners(self._namespace)
            logged = self.owners
            wrong = {b: (logged.get(b), owner) for b, owner in said.items() if logged.get(b) != owner}
            assert not wrong, f"owner by the log and by the broker differ: {wrong}"
            missed = unseen(self._start.owners, self.changes)
            assert not missed, missed
            return bool(said)

        eventually(agreed, within=within, what="the brokers' logs tell all changes of owners")

    @property
    def changes(self) -> list[Change]:
        """Those read so far, in the order in which they were read."""
        with self._lock:
            return list(self._changes)

    def _steps(self) -> Counter[Step]:
        return steps_of(self._brokers.kubectl.items("events", self._brokers.kubernetes_namespace))

    def _histories(self) -> dict[str, list[str]]:
        return histories(self._start.owners, self.changes)

    @property
    def owners(self) -> dict[str, str]:
        """Owner of each bundle by the log."""
        return {bundle: owners[-1] for bundle, owners in self._histories().items()}

    @property
    def by_bundle(self) -> dict[str, int]:
        """How often each bundle got an owner since the beginning."""
        counted = Counter(change.bundle for change in self.changes if change.gained)
        return {bundle: counted[bundle] for bundle in self._histories()}

    def per_bundle(self, until: int | None = None) -> float:
        """The mean of it; ``until`` in nanoseconds since 1970 leaves out what came later."""
        counted = [change for change in self.changes if change.gained and (until is None or change.at < until)]
        return len(counted) / len(self._histories())

    def counts(self) -> list[int]:
        """Bundles of each broker, the fewest first."""
        found = Counter(self.owners.values())
        return sorted(found.get(broker, 0) for broker in self._brokers.ids)

    def steps(self) -> Counter[Step]:
        """Moves the operator says it made since the beginning, for drains and fills. Raises KubectlError."""
        return self._steps() - self._start.steps

    def sources(self) -> str:
        """A table for people: the owners of each bundle by Pulsar's log beside the number of the operator's steps.

        More in the log than steps: Pulsar moved a bundle by itself, or gave it to the next best broker when its own
        was told to stop.
        """
        try:
            steps = self.steps()
        except KubectlError as error:
            return f"the operator's steps are not known: {error}"
        return side_by_side(self._histories(), self.by_bundle, steps, [(log.pod, log.lines) for log in self._logs])


def side_by_side(
    owners: Mapping[str, Sequence[str]],
    counted: Mapping[str, int],
    steps: Counter[Step],
    lines: Sequence[tuple[str, int]],
) -> str:
    """The rows of ``Moves.sources``; ``lines`` is how many were read of each pod's log."""
    by_operator = Counter(each.bundle for each in steps.elements())
    bundles = sorted({*owners, *by_operator})
    width = max([len("bundle"), *(len(bundle) for bundle in bundles)])
    out = [f"{'bundle':{width}}  by Pulsar's log  by the operator's steps  owners"]
    for bundle in bundles:
        names = " > ".join(owner.split(".", 1)[0] for owner in owners.get(bundle, []))
        out.append(f"{bundle:{width}}  {counted.get(bundle, 0):15}  {by_operator[bundle]:23}  {names}")
    out.append(f"{'all':{width}}  {sum(counted.values()):15}  {by_operator.total():23}")
    of = Counter(each.rebalance for each in steps.elements())
    out += [f"{count} steps of {name}" for name, count in sorted(of.items())]
    out.append("lines read: " + ", ".join(f"{pod} {count}" for pod, count in lines))
    return "\n".join(out)
