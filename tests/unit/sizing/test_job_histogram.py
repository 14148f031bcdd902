"""Histograms: the error they promise, and that merging changes nothing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_sizing.job.histogram import RELATIVE_ERROR, buckets_of, counted, merged, quantiles, values_of

SHARES = (0.0, 0.5, 0.95, 0.99, 1.0)
Array = np.ndarray[Any, Any]


def samples() -> dict[str, Array]:
    rng = np.random.default_rng(5)
    return {
        "one value": np.array([17.0]),
        "equal values": np.full(40, 12345.6),
        "uniform": rng.uniform(1.5, 1e6, 400),
        "log-normal": np.exp(rng.normal(12, 2, 400)),
        "pareto": (rng.pareto(0.8, 400) + 1.01) * 1000,
        "powers": 10.0 ** np.arange(0.5, 12, 0.5),
        "two far apart": np.array([1.1] * 94 + [1e12] * 6),
        "just above one": 1 + rng.uniform(1e-9, 1e-3, 50),
    }


@pytest.mark.parametrize("share", SHARES)
def test_every_quantile_is_within_the_relative_error(share: float) -> None:
    values = list(samples().values())
    keys = np.repeat(np.arange(len(values)), [len(each) for each in values])
    offsets, buckets, counts = counted(keys, buckets_of(np.concatenate(values)), len(values))
    found = quantiles(merged(np.arange(len(values)), offsets, buckets, counts, len(values)), share)
    exact = np.array([np.quantile(each, share, method="lower") for each in values])
    assert (np.abs(found - exact) <= (RELATIVE_ERROR + 1e-9) * exact).all(), list(samples())
    assert counts.sum() == len(keys)
    assert len(counts) < len(keys)


SAMPLES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 900), st.integers(0, 2)), max_size=60)


@given(SAMPLES)
def test_histograms_of_parts_add_up_to_that_of_all_in_any_order(content: list[tuple[int, int, int]]) -> None:
    rows = np.array(content, np.int64).reshape(-1, 3)
    found = merged(*histograms_of_parts(rows), 4)
    assert {
        (key, int(found.least[key]) + place): n
        for key, (first, end) in enumerate(itertools.pairwise(found.starts.tolist()))
        for place, n in enumerate(found.counts[first:end].tolist())
        if n
    } == {(k, b): sum(1 for row in content if row[:2] == (k, b)) for k, b, _ in content}


def histograms_of_parts(rows: Array) -> tuple[Array, Array, Array, Array]:
    """Keys, offsets, buckets and counts of a histogram for each key and part, parts in another order."""
    keys, lengths, buckets, counts = [], [], [], []
    for part in (2, 0, 1):
        mine = rows[rows[:, 2] == part]
        offsets, held, many = counted(mine[:, 0], mine[:, 1].astype(np.int16), 4)
        assert all(np.diff(held[a:b]).min(initial=1) > 0 for a, b in itertools.pairwise(offsets))
        keys.append(np.arange(4))
        lengths.append(np.diff(offsets))
        buckets.append(held)
        counts.append(many)
    return (
        np.concatenate(keys),
        np.append(0, np.cumsum(np.concatenate(lengths))),
        np.concatenate(buckets),
        np.concatenate(counts),
    )


@given(SAMPLES, st.one_of(st.sampled_from(SHARES), st.floats(0, 1)))
def test_a_quantile_is_the_value_of_the_sample_at_its_place(content: list[tuple[int, int, int]], share: float) -> None:
    rows = np.array(content, np.int64).reshape(-1, 3)
    found = quantiles(merged(*histograms_of_parts(rows), 4), share)
    for key, value in enumerate(found.tolist()):
        held = sorted(bucket for k, bucket, _ in content if k == key)
        wanted = held[math.floor(share * (len(held) - 1))] if held else 0
        assert value == values_of(np.array([wanted]))[0]


def test_what_costs_nothing_answers_nothing() -> None:
    buckets = buckets_of(np.array([0.0, 0.5, 1.0]))
    assert buckets.tolist() == [0, 0, 0]
    found = merged(np.zeros(3, np.int64), np.arange(4), buckets, np.ones(3), 2)
    assert quantiles(found, 1.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        quantiles(merged(np.zeros(1, np.int64), np.array([0, 1]), np.zeros(1, np.int16), np.ones(1), 1), share)
