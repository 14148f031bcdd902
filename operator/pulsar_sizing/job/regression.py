"""The true cost of topics for brokers, by regression of the CPU that they use over the traffic that they carry. Pure.

One observation is a broker in an hour: its CPU is an idle part, plus a price times the cost of its traffic, each
topic's cost times an unknown factor. Factors are assumed to be similar, and how similar is itself estimated: ridge
regression whose penalties are the likeliest ones (restricted likelihood, empirical Bayes). So topics that the hours
cannot distinguish stay similar: those that stay on one broker and whose traffic rises and falls together. Each broker
has its own price, assumed to be near that of all (another machine, other pods on it): the cost of topics shows in those
that are added, removed, rise and fall. Errors are relative, and those of an hour may be those of the next in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pulsar_sizing.job.histogram import Array

BOUND: Final = 4.0
"""Largest factor of a topic; its inverse is the smallest."""
INFORMATIVE: Final = 0.5
"""Maximum share of the prior variance that a factor's variance may have to be used: the hours then contain at least as
much information on it as the other topics do. Its standard error may have at most this share of the factor."""
MIN_HOURS: Final = 24
"""Before a day is recorded nothing is learned."""
BLOCKS: Final = 6
"""Stretches of time, each left out in turn to see whether the factors hold where they were not learned."""
PENALTIES: Final = tuple(10.0 ** (n / 2) for n in range(-8, 9))
"""Variance of an observation over that of a factor."""
BROKERS: Final = (1.0, 10.0, 100.0, 1000.0)
"""How many times the penalty of a topic that of a broker is."""
IDLE_PENALTY: Final = 0.05
"""Of the idle part, over the mean CPU: enough to say it is nothing where all brokers carry the same at all times."""
MOST_CORRELATED: Final = 0.9
FAR: Final = 1e4
"""Multiple of the median from which a figure is invalid, as is one below the inverse."""


@dataclass(frozen=True)
class Evidence:
    """Observations, as arrays of one length, by hour and broker."""

    hours: Array
    """Since 1970."""
    brokers: Array
    """Any number that identifies a broker."""
    cpu: Array
    """CPU used: its share, times the capacity of the broker (1 on average)."""
    cost: Array
    """Mean of all that it carried, in byte-equivalents per second."""
    names: tuple[str, ...] = ()
    """Topics, each with all of its partitions."""
    topics: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Of the cost, that of each topic: a row an observation, a column a name."""


@dataclass(frozen=True)
class Factor:
    """What a topic costs for what its traffic says; 1 is what the traffic of the cluster costs on average."""

    factor: float
    error: float
    """Standard error."""


@dataclass(frozen=True)
class Learned:
    """What is believed from now on."""

    factors: Mapping[str, Factor] = field(default_factory=dict)
    """By topic, without its partitions; only those that are used."""
    others: float = 1.0
    """Factor of all other topics, so that the total stays what it is."""
    brokers: int = 0
    observations: int = 0
    before: float | None = None
    """Mean deviation of brokers' shares of the CPU from those expected by the cost, relative to the latter, over hours
    that were not learned from; None if there are too few hours or brokers."""
    after: float | None = None
    """The same with the factors, and where they are no better without."""


@dataclass(frozen=True)
class _Fit:
    """CPU = idle + price * cost, and what was found of the topics."""

    idle: float
    price: float
    factors: dict[int, Factor]
    """By column of the evidence."""
    others: float = 1.0

    def expected(self, evidence: Evidence) -> Array:
        """The CPU of each observation."""
        more = np.zeros(len(evidence.names))
        more[list(self.factors)] = [each.factor - self.others for each in self.factors.values()]
        found: Array = self.idle + self.price * (evidence.cost * self.others + evidence.topics @ more)
        return found


def learn(evidence: Evidence) -> Learned:
    """Returns factors of the topics with enough information; none if they do not explain other hours better. A value
    that is not finite or not above 0 is no observation, nor is a broker with topics that cost more than all it carries.
    Multiplying all CPU or all cost with a number changes nothing.
    """
    evidence = _sound(evidence)
    nothing = Learned(brokers=len(np.unique(evidence.brokers)), observations=len(evidence.cpu))
    if nothing.brokers < 2 or len(np.unique(evidence.hours)) < MIN_HOURS:
        return nothing
    evidence = _scaled(evidence)
    before, after = deviations(evidence)
    fit = _fit(evidence)
    used = after < before and bool(fit.factors)
    return Learned(
        {evidence.names[column]: each for column, each in fit.factors.items()} if used else {},
        fit.others if used else 1.0,
        nothing.brokers,
        nothing.observations,
        before,
        after if used else before,
    )


def deviations(evidence: Evidence) -> tuple[float, float]:
    """The deviation in hours that were not learned from, without factors and with those of the other hours."""
    hours = np.unique(evidence.hours)
    blocks = np.searchsorted(hours, evidence.hours) * BLOCKS // len(hours)
    sums = np.zeros(2)
    for block in range(BLOCKS):
        rest, out = _take(evidence, blocks != block), _take(evidence, blocks == block)
        sums += [_deviations(fit.expected(out), out).sum() for fit in (_plain(rest), _fit(rest))]
    before, after = (sums / len(evidence.cpu)).tolist()
    return before, after


def _deviations(expected: Array, evidence: Evidence) -> Array:
    """Of each observation, the share of its hour's CPU against the expected one."""
    _, hour = np.unique(evidence.hours, return_inverse=True)
    ratios = evidence.cpu / expected
    levels = np.bincount(hour, evidence.cpu) / np.bincount(hour, expected)
    found: Array = np.abs(ratios / levels[hour] - 1)
    return found


def _sound(evidence: Evidence) -> Evidence:
    cpu, cost = (np.isfinite(values) & (values > 0) for values in (evidence.cpu, evidence.cost))
    evidence = _take(evidence, np.flatnonzero(cpu & cost))
    if not len(evidence.cpu):
        return evidence
    near = [
        (values > np.median(values) / FAR) & (values < np.median(values) * FAR)
        for values in (evidence.cpu, evidence.cost)
    ]
    # False for NaN.
    parts = (evidence.topics >= 0).all(axis=1) & (evidence.topics.sum(axis=1) <= evidence.cost * (1 + 1e-9))
    return _take(evidence, np.flatnonzero(near[0] & near[1] & parts))


def _take(evidence: Evidence, rows: Array) -> Evidence:
    return Evidence(
        evidence.hours[rows],
        evidence.brokers[rows],
        evidence.cpu[rows],
        evidence.cost[rows],
        evidence.names,
        evidence.topics[rows],
    )


def _scaled(evidence: Evidence) -> Evidence:
    """CPU and cost of 1 on average."""
    unit = evidence.cost.mean()
    cpu = evidence.cpu / evidence.cpu.mean()
    return Evidence(evidence.hours, evidence.brokers, cpu, evidence.cost / unit, evidence.names, evidence.topics / unit)


def _plain(evidence: Evidence) -> _Fit:
    """Without factors. The second time observations count by what they are expected to be."""
    weights = np.ones(len(evidence.cpu))
    idle, price = 0.0, 1.0
    for _ in range(2):
        columns = np.stack([np.ones_like(weights), evidence.cost], axis=1) * weights[:, None]
        normal = columns.T @ columns + np.diag([IDLE_PENALTY, 0.0])
        targets = columns.T @ (evidence.cpu * weights)
        idle, price = _solved(normal, targets).tolist()
        if idle < 0 or price <= 0:
            idle, price = 0.0, float(targets[1] / normal[1, 1])
        weights = 1 / np.maximum(idle + price * evidence.cost, 0.2)
    return _Fit(idle, price, {})


def _solved(normal: Array, targets: Array) -> Array:
    """Returns the solution, or zeros if there is none: the figures differ by more than floats can represent."""
    try:
        return np.linalg.solve(normal, targets)
    except np.linalg.LinAlgError:
        return np.zeros_like(targets)


def _fit(evidence: Evidence) -> _Fit:
    """Fits the model with the own effects of brokers and topics; without them if the figures allow no solution."""
    plain = _plain(evidence)
    try:
        return _with_own(evidence, plain)
    except np.linalg.LinAlgError:
        return plain


def _with_own(evidence: Evidence, plain: _Fit) -> _Fit:
    """Raises LinAlgError where there is no solution that is one."""
    weights = 1 / np.maximum(plain.expected(evidence), 0.2)
    _, broker = np.unique(evidence.brokers, return_inverse=True)
    own = np.zeros((len(broker), int(broker.max()) + 1))
    own[np.arange(len(broker)), broker] = evidence.cost
    first = [np.ones_like(evidence.cost)] if plain.idle else []
    columns = np.concatenate([np.stack([*first, evidence.cost], axis=1), evidence.topics, own], axis=1)
    columns *= weights[:, None]
    targets = evidence.cpu * weights
    flat, many = len(first) + 1, len(evidence.names)
    normal = columns.T @ columns
    normal[: len(first), : len(first)] += IDLE_PENALTY
    if len(targets) <= flat:
        return plain
    variance, penalties = _likeliest(normal, columns.T @ targets, float(targets @ targets), len(targets), flat, many)
    inverse = np.linalg.inv(normal + np.diag(penalties))
    values, covariance = inverse @ (columns.T @ targets), variance * inverse
    believed = float(np.sqrt(variance / penalties[flat]))
    price = values[flat - 1]
    # Linear in what was found: what a mean byte costs, and of each topic by how much it costs more than that.
    shares = evidence.topics.sum(axis=0) / evidence.cost.sum()
    mean = np.concatenate([np.zeros(flat - 1), [1.0], shares, np.zeros(own.shape[1])])
    level = float(mean @ values)
    if price <= 0 or level <= 0:
        return plain
    factors = (price + values[flat : flat + many]) / level
    parts = np.zeros((many, len(values)))
    parts[:, flat - 1] = 1
    parts[np.arange(many), flat + np.arange(many)] = 1
    parts = (parts - factors[:, None] * mean) / level
    residuals = targets - columns @ values
    errors = np.sqrt(np.einsum("ij,jk,ik->i", parts, covariance, parts) * _repeated(residuals, evidence))
    good = (errors <= believed / level * np.sqrt(INFORMATIVE)) & (errors <= factors * INFORMATIVE)
    used = {int(n): Factor(_bounded(float(factors[n])), float(errors[n])) for n in np.flatnonzero(good)}
    left = 1 - float(shares[good].sum())
    # What rounding leaves of nothing is nothing.
    others = (1 - float(shares[good] @ factors[good])) / left if left > 1e-9 else 1.0
    return _Fit(values[0] if first else 0.0, level, used, _bounded(others))


def _bounded(factor: float) -> float:
    return min(max(factor, 1 / BOUND), BOUND)


def _likeliest(normal: Array, targets: Array, square: float, rows: int, flat: int, many: int) -> tuple[float, Array]:
    """Variance of an observation and the penalty of each column, at which the observations are likeliest.

    `normal` and `wanted` are the normal equations, `square` the square of what is explained, `flat` the number of
    columns without a penalty, which come first, `many` that of the topics behind them.
    """
    left = rows - flat
    alone = np.linalg.solve(normal[:flat, :flat], np.column_stack([normal[:flat, flat:], targets[:flat]]))
    # Of the other columns what the first ones do not explain.
    inner = normal[flat:, flat:] - normal[flat:, :flat] @ alone[:, :-1]
    target = targets[flat:] - normal[flat:, :flat] @ alone[:, -1]
    square -= float(targets[:flat] @ alone[:, -1])
    best = -np.inf, 1.0, np.zeros(len(targets))
    for broker in BROKERS:
        scale = np.concatenate([np.ones(many), np.full(len(target) - many, broker**-0.5)])
        lengths, turned = np.linalg.eigh(inner * scale[:, None] * scale)
        lengths, parts = np.maximum(lengths, 0.0), (turned.T @ (target * scale)) ** 2
        for penalty in PENALTIES:
            variance = max((square - float((parts / (lengths + penalty)).sum())) / left, 1e-12)
            likelihood = -np.log1p(lengths / penalty).sum() - left * np.log(variance)
            if likelihood > best[0]:
                best = likelihood, variance, np.concatenate([np.zeros(flat), penalty / scale**2])
    return best[1:]


def _repeated(residuals: Array, evidence: Evidence) -> float:
    """Returns by what factor observations contain less information than their number suggests, since errors of
    consecutive hours are correlated."""
    order = np.lexsort((evidence.hours, evidence.brokers))
    now, hour, broker = residuals[order], evidence.hours[order], evidence.brokers[order]
    next_to = (np.diff(hour) == 1) & (np.diff(broker) == 0)
    both = float((now[1:] * now[:-1])[next_to].sum())
    each = float(((now[1:] ** 2 + now[:-1] ** 2) / 2)[next_to].sum())
    share = min(max(both / each, 0.0), MOST_CORRELATED) if each > 0 else 0.0
    return (1 + share) / (1 - share)
