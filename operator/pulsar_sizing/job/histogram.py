"""Histograms of costs that can be merged, with a bounded relative error.

Buckets are logarithmic, as in DDSketch (Masson, Rim, Lee: "DDSketch", VLDB 2019): bucket i > 0 holds the costs in
(GAMMA^(i-1), GAMMA^i] and answers with 2 * GAMMA^i / (GAMMA + 1), which is within RELATIVE_ERROR of all of them. Bucket
0 holds costs of at most one byte a second and answers 0. A histogram is two arrays, the buckets that hold anything and
how much: merging is adding counts, so it is exact, associative and commutative, and a quantile of merged histograms has
the same error as one of all values together.
"""

from __future__ import annotations

import math
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
    """Histograms of so many keys (0 to many - 1) from one key and bucket a sample, in any order.

    Gives for key k the buckets and counts at offsets[k] to offsets[k + 1], buckets ascending.
    """
    width = int(buckets.max(initial=0)) + 1
    found = np.sort(keys.astype(np.int64) * width + buckets)
    starts = np.flatnonzero(np.diff(found, prepend=-1))
    distinct = found[starts]
    counts = np.diff(starts, append=len(found))
    offsets = np.searchsorted(distinct, np.arange(many + 1, dtype=np.int64) * width)
    return offsets.astype(np.int32), (distinct % width).astype(np.int16), counts.astype(np.int32)


def merged(keys: Array, buckets: Array, counts: Array, many: int) -> Array:
    """Sum of histograms: an entry for each key (0 to many - 1) and bucket; samples by key and bucket as a matrix."""
    width = int(buckets.max(initial=0)) + 1
    sums = np.bincount(keys.astype(np.int64) * width + buckets, weights=counts, minlength=many * width)
    return sums.reshape(many, width)


def quantiles(histograms: Array, share: float) -> Array:
    """Of a matrix of :func:`merged` the cost of each key that `share` of its samples do not exceed; 0 without samples.

    The value at index floor(share * (n - 1)) of the n sorted ones, as NumPy's method "lower". Raises ValueError unless
    0 <= share <= 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: must be between 0 and 1")
    reached = np.cumsum(histograms, axis=1)
    index = np.floor((reached[:, -1:] - 1) * share)
    return values_of(np.argmax(reached > index, axis=1))
