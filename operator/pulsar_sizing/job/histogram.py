"""Histograms of costs that can be merged, with a bounded relative error.

Buckets are logarithmic, as in DDSketch (Masson, Rim, Lee: "DDSketch", VLDB 2019): bucket i > 0 holds the costs in
(GAMMA^(i-1), GAMMA^i] and answers with 2 * GAMMA^i / (GAMMA + 1), which is within RELATIVE_ERROR of all of them. Bucket
0 holds costs of at most one byte a second and answers 0. A histogram is two arrays, the buckets that hold anything and
how much: merging is adding counts, so it is exact, associative and commutative, and a quantile of merged histograms has
the same error as one of all values together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

RELATIVE_ERROR: Final = 0.02
GAMMA: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
LN_GAMMA: Final = math.log(GAMMA)

Array = np.ndarray[Any, Any]


def buckets_of(costs: Array) -> Array:
    """Bucket (int16) of each cost; costs are finite, >= 0 and below e^1300."""
    return np.ceil(np.log(np.maximum(costs, 1.0)) / LN_GAMMA).astype(np.int16)


def values_of(buckets: Array) -> Array:
    """The cost that each bucket answers with."""
    middle = np.power(GAMMA, buckets.astype(np.float64)) * (2 / (GAMMA + 1))
    return np.where(buckets > 0, middle, 0.0)


def counted(keys: Array, buckets: Array, many: int) -> tuple[Array, Array, Array]:
    """Returns histograms of `many` keys (0 to many - 1) from one key and bucket a sample, in any order.

    Gives for key k the buckets and counts at offsets[k] to offsets[k + 1], buckets ascending.
    """
    width = int(buckets.max(initial=0)) + 1
    found = np.sort(keys.astype(np.int64) * width + buckets)
    starts = np.flatnonzero(np.diff(found, prepend=-1))
    distinct = found[starts]
    counts = np.diff(starts, append=len(found))
    offsets = np.searchsorted(distinct, np.arange(many + 1, dtype=np.int64) * width)
    return offsets.astype(np.int32), (distinct % width).astype(np.int16), counts.astype(np.int32)


@dataclass(frozen=True)
class Histograms:
    """Histograms of some keys, one after the other, each from its least bucket to its greatest."""

    starts: Array
    """Index of each key's first count, and behind the last one's last."""
    least: Array
    """Bucket of each key's first count; any number where it has none."""
    counts: Array
    """Samples by key and bucket; 0 where buckets between hold nothing."""


def merged(keys: Array, offsets: Array, buckets: Array, counts: Array, many: int) -> Histograms:
    """Sums of histograms by key (0 to many - 1), in any order.

    Histogram n is of keys[n] and has the buckets, ascending, and counts at offsets[n] to offsets[n + 1].
    """
    lengths = np.diff(offsets)
    some = np.flatnonzero(lengths)
    # Costs of a topic are within some dozens of buckets, those of all topics within hundreds: as rows of one width most
    # of the numbers would be 0.
    least = np.full(many, np.iinfo(np.int16).max, np.int64)
    most = np.full(many, -1, np.int64)
    np.minimum.at(least, keys[some], buckets[offsets[:-1][some]])
    np.maximum.at(most, keys[some], buckets[offsets[1:][some] - 1])
    starts = np.append(0, np.cumsum(np.maximum(most - least + 1, 0)))
    places = np.repeat((starts[:-1] - least)[keys], lengths) + buckets
    return Histograms(starts, least, np.bincount(places, weights=counts, minlength=int(starts[-1])))


def quantiles(histograms: Histograms, share: float) -> Array:
    """The cost of each key that `share` of its samples do not exceed; 0 without samples.

    The value at index floor(share * (n - 1)) of the n sorted ones, as NumPy's method "lower". Raises ValueError unless
    0 <= share <= 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: must be between 0 and 1")
    # Whole numbers below 2^53, so that sums of floating-point numbers are exact.
    reached = np.append(0.0, np.cumsum(histograms.counts))
    before, after = reached[histograms.starts[:-1]], reached[histograms.starts[1:]]
    targets = before + np.floor((after - before - 1) * share)
    places = np.searchsorted(reached[1:], targets, side="right")
    found = histograms.least + places - histograms.starts[:-1]
    return values_of(np.where(after > before, found, 0))
