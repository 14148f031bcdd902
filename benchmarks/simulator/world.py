"""The cluster itself: owners, load reports with their lag, brokers that come and go, and what every minute cost.

One step is one minute: brokers come and go, traffic flows, figures are taken, reports and averages follow, the policy
acts. What it does counts from the next minute on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from typing import NamedTuple

from benchmarks.simulator.faults import MetricFault
from benchmarks.simulator.state import Averages, Cut, Host, Policy, Rates, Report, Settings, State, Unload
from benchmarks.simulator.traffic import Recording, Window
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.ranges import boundary_points, even_boundaries

REPORTS_A_MINUTE = 12
"""The extensible manager's brokers move their averages on every 5 seconds."""


class Change(NamedTuple):
    """Brokers that come or go."""

    minute: int
    joins: tuple[Host, ...] = ()
    fails: tuple[str, ...] = ()
    """Lost at once, with all they serve."""
    leaves: tuple[str, ...] = ()
    """Shut down in order at this minute."""
    announces: tuple[str, ...] = ()
    """Will leave soon; known to who scales."""


class Minute(NamedTuple):
    """What was measured."""

    busiest: float
    """Highest load / capacity, what is no traffic included."""
    mean: float
    """Total load / total capacity; load is what brokers truly pay, hidden costs included."""
    bound: float
    """The least busiest that whole topics allow: the mean, of all or of the namespaces that isolation keeps to some
    brokers; the hottest topic alone on the largest broker; or what a broker uses for what is no traffic."""

    @property
    def ratio(self) -> float:
        """Busiest over mean."""
        return self.busiest / self.mean if self.mean > 0 else 1.0

    @property
    def bound_ratio(self) -> float:
        """The ratio that cannot be beaten."""
        return self.bound / self.mean if self.mean > 0 else 1.0


@dataclass
class Account:
    """What a policy did and what came of it."""

    minutes: list[Minute] = field(default_factory=list)
    unloads: int = 0
    """Bundles moved by decision of the policy: shedding, filling, emptying ahead of a departure."""
    split_unloads: int = 0
    """Pieces unloaded right after an automatic split."""
    displaced: int = 0
    """Bundles that had to move because their broker was lost or shut down with them."""
    splits: int = 0
    moved: float = 0.0
    """Weight moved by decision, as a share of all weight at that minute; 1 = as much as everything once."""
    overloaded: int = 0
    """Minutes in which some broker was above `Settings.overloaded_percent`."""
    unavoidable: int = 0
    """Of these, minutes in which the bound was above it too: a topic too hot for any broker, or too few brokers."""


def even_bundles(namespaces: Iterable[str], count: int) -> list[BundleId]:
    """Bundles as Pulsar cuts a new namespace."""
    bounds = boundary_points(even_boundaries(count))
    return [BundleId(namespace, lower, upper) for namespace in namespaces for lower, upper in pairwise(bounds)]


class World:
    """One policy's cluster."""

    def __init__(
        self,
        recording: Recording,
        hosts: Sequence[Host],
        bundles: Sequence[BundleId],
        policy: Policy,
        settings: Settings | None = None,
        changes: Sequence[Change] = (),
        owners: Mapping[BundleId, str] | None = None,
        allowed: Mapping[str, frozenset[str]] | None = None,
        fault: MetricFault | None = None,
    ) -> None:
        self.state = State(settings or Settings(), allowed=allowed or {})
        self.fault = fault
        self.account = Account()
        self.policy = policy
        self.recording = recording
        self._changes: dict[int, list[Change]] = {}
        for change in changes:
            self._changes.setdefault(change.minute, []).append(change)
        self.slices = {bundle: recording.slice(bundle) for bundle in bundles}
        for host in hosts:
            self._join(host)
        for bundle in bundles:
            self._own(bundle, owners[bundle] if owners is not None else policy.place(bundle, self.state))

    def run(self, minutes: int | None = None) -> Account:
        """Some minutes, or all recorded ones that are left."""
        for _ in range(len(self.recording) - self.state.minute if minutes is None else minutes):
            self.step()
        return self.account

    def step(self) -> None:
        """One minute."""
        state = self.state
        for change in self._changes.get(state.minute, ()):
            self._change(change)
        window = Window(self.recording, self.slices, state.minute)
        self._take_figures()
        grace = state.settings.grace_minutes
        state.unloaded = {bundle: minute for bundle, minute in state.unloaded.items() if state.minute - minute < grace}
        for action in self.policy.act(state, window):
            if isinstance(action, Cut):
                self._cut(action)
            else:
                self._unload(action, window)
        state.minute += 1

    def _join(self, host: Host) -> None:
        self.state.hosts[host.id] = host
        self.state.reports[host.id] = Report(self.state.minute)

    def _change(self, change: Change) -> None:
        state = self.state
        for host in change.joins:
            self._join(host)
        state.leaving = tuple(broker for broker in (*state.leaving, *change.announces) if broker not in change.leaves)
        gone = (*change.fails, *change.leaves)
        for broker in gone:
            del state.hosts[broker]
            del state.reports[broker]
            state.preallocated.pop(broker, None)
            for counts in state.counts.values():
                counts.pop(broker, None)
        for bundle, owner in list(state.owners.items()):
            if owner in gone:
                self._own(bundle, self.policy.place(bundle, state))
                self.account.displaced += 1

    def _own(self, bundle: BundleId, broker: str) -> None:
        self.state.owners[bundle] = broker
        self.state.preallocated.setdefault(broker, {})[bundle] = None
        counts = self.state.counts.setdefault(bundle.namespace, {})
        counts[broker] = counts.get(broker, 0) + 1

    def _unload(self, move: Unload, window: Window) -> None:
        state = self.state
        if state.owners.get(move.bundle) in (None, move.destination) or move.destination not in state.hosts:
            return
        state.unloaded[move.bundle] = state.minute
        self.account.unloads += 1
        self.account.moved += window.cost(move.bundle) / self._total()
        self._own(move.bundle, move.destination)

    def _cut(self, cut: Cut) -> None:
        state = self.state
        parent, owner = cut.bundle, state.owners.get(cut.bundle)
        inside = sorted({position for position in cut.positions if parent.lower < position < parent.upper})
        if owner is None or not inside:
            return
        bounds = [parent.lower, *inside, parent.upper]
        for known in (state.owners, state.averages, state.unloaded, self.slices):
            known.pop(parent, None)
        state.reports[owner].bundles.pop(parent, None)
        state.preallocated.get(owner, {}).pop(parent, None)
        self.account.splits += len(inside)
        for lower, upper in pairwise(bounds):
            child = BundleId(parent.namespace, lower, upper)
            self.slices[child] = self.recording.slice(child)
            self._own(child, self.policy.place(child, state) if cut.unload else owner)
            self.account.split_unloads += cut.unload

    def _total(self) -> float:
        return self.recording.at(self.state.minute).costs[-1]

    def _take_figures(self) -> None:
        """What every broker carries in this minute: the measurement, the averages and the reports."""
        state = self.state
        fresh = {broker: Report(state.minute) for broker in state.hosts}
        costs = dict.fromkeys(state.hosts, 0.0)
        inward, outward = dict.fromkeys(state.hosts, 0.0), dict.fromkeys(state.hosts, 0.0)
        silent = self._silent()
        state.counts = {}
        messages, messages_out, bytes_in, bytes_out, _, paid = self.recording.at(state.minute)
        # The inner loop of every benchmark: one pass, no calls that can be spared.
        for bundle, owner in state.owners.items():
            start, end = self.slices[bundle]
            into, out = bytes_in[end] - bytes_in[start], bytes_out[end] - bytes_out[start]
            rates = Rates(messages[end] - messages[start], messages_out[end] - messages_out[start], into, out)
            count = rates[0] + rates[1]
            if owner not in silent:
                average = state.averages.get(bundle)
                if average is None:
                    average = state.averages[bundle] = Averages()
                average.update(count, into + out)
            report = fresh[owner]
            report.bundles[bundle] = rates
            report.messages += count
            costs[owner] += paid[end] - paid[start]
            inward[owner] += into
            outward[owner] += out
            counts = state.counts.get(bundle.namespace)
            if counts is None:
                counts = state.counts[bundle.namespace] = {}
            counts[owner] = counts.get(owner, 0) + 1
        busiest = 0.0
        for broker, report in fresh.items():
            host = state.hosts[broker]
            report.cpu = costs[broker] / host.capacity + host.foreign
            report.bandwidth_in, report.bandwidth_out = inward[broker] / host.nic, outward[broker] / host.nic
            report.throughput = inward[broker] + outward[broker]
            busiest = max(busiest, report.cpu)
            self._falsify(broker, report)
        state.fresh = {broker: report for broker, report in fresh.items() if broker not in silent}
        self._measure(busiest)
        self._report(state.fresh)

    def _silent(self) -> frozenset[str]:
        """The brokers that report nothing in this minute."""
        fault, state = self.fault, self.state
        return frozenset(each for each in state.hosts if fault is not None and fault.silent(state.minute, each))

    def _falsify(self, broker: str, report: Report) -> None:
        """What the broker says instead of what it measured."""
        if self.fault is None:
            return
        figure = self.fault.cpu(self.state.minute, broker, report.cpu)
        report.cpu, report.cpu_known = figure or 0.0, figure is not None
        report.minute = self.fault.clock(self.state.minute, broker)

    def _measure(self, busiest: float) -> None:
        hosts, paid = self.state.hosts, self.recording.at(self.state.minute).paid
        mean = self._mean_of(hosts, paid[-1])
        bound = max(mean, self.recording.hottest(self.state.minute) / max(host.capacity for host in hosts.values()))
        bound = max(bound, *(host.foreign for host in hosts.values()))
        for pool in set(self.state.allowed.values()):
            spans = [
                self.recording.namespaces.get(name, (0, 0))
                for name in self.state.allowed
                if self.state.allowed[name] <= pool
            ]
            bound = max(
                bound, self._mean_of(pool & hosts.keys(), fsum(paid[end] - paid[start] for start, end in spans))
            )
        self.account.minutes.append(Minute(busiest, mean, bound))
        limit = self.state.settings.overloaded_percent / 100
        self.account.overloaded += busiest > limit
        self.account.unavoidable += bound > limit

    def _mean_of(self, brokers: Iterable[str], paid: float) -> float:
        """Load / capacity of some brokers with what they are paid for and what is no traffic."""
        hosts = [self.state.hosts[broker] for broker in brokers]
        foreign = fsum(host.foreign * host.capacity for host in hosts)
        return (paid + foreign) / fsum(host.capacity for host in hosts) if hosts else 0.0

    def _report(self, fresh: Mapping[str, Report]) -> None:
        """Moving averages go on; a broker's report is written if its figures moved enough since the last one.

        The extensible manager's averages are always fresh here, which is kinder to it than a real cluster is.
        """
        state, settings = self.state, self.state.settings
        past = settings.history**REPORTS_A_MINUTE
        for broker, report in fresh.items():
            old = state.reports[broker]
            report.ema = old.ema * past + report.score * (1 - past)
            report.throughput_ema = old.throughput_ema * past + report.throughput * (1 - past)
            if report.minute - old.minute >= settings.report_minutes or _moved(old, report) > settings.report_percent:
                state.reports[broker] = report
                state.preallocated.pop(broker, None)
            else:
                old.ema, old.throughput_ema = report.ema, report.throughput_ema


def _moved(old: Report, new: Report) -> float:
    """Largest change in percent (load in points), which decides whether a report is written."""
    return max(
        100 * abs(old.score - new.score),
        _percent(old.messages, new.messages),
        _percent(old.throughput, new.throughput),
        _percent(len(old.bundles), len(new.bundles)),
    )


def _percent(old: float, new: float) -> float:
    if old == 0:
        return 0.0 if new == 0 else 100.0
    return 100 * abs(old - new) / old
