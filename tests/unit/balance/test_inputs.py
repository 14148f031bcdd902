"""Weights that mean nothing: bundles that are not the sum of their cells, sums that no number holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.model.observation import Observed, model_of, weighing
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.plan import plan
from tests.support.balancing.planning import cluster

A, B = "a:8080", "b:8080"
WHOLE = BundleId("shop/orders", 0, 100)


def model(*cells: float, weight: float, other: float = 1.0) -> ClusterModel:
    inside = tuple(Cell(10 * number + 1, each) for number, each in enumerate(cells))
    bundles = (Bundle(WHOLE, weight, A, inside, len(cells)), Bundle(WHOLE._replace(lower=100, upper=200), other, B))
    return ClusterModel((Broker(A), Broker(B)), bundles)


@pytest.mark.parametrize("weight", [0.0, 2.9, 3.0001, 30.0])
def test_a_bundle_that_is_not_the_sum_of_its_cells_is_refused_by_name(weight: float) -> None:
    with pytest.raises(
        ValueError, match=r"shop/orders/0x00000000_0x00000064 weighs .*, but its cells weigh 3\. Take both"
    ):
        plan(model(1.0, 2.0, weight=weight), Options())


@pytest.mark.parametrize("cells", [(-1.0, 4.0), (float("nan"), 3.0)])
def test_a_cell_below_nothing_is_refused(cells: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"at 0x00000001 is (-1.0|nan), but must not be negative"):
        plan(model(*cells, weight=3.0), Options())


@pytest.mark.parametrize(
    ("cells", "weight", "other"),
    [((0.1,) * 10, 1.0, 1.0), ((1.0, 2.0), 3.0000001, 1.0), ((5e-324, 5e-324), 5e-324, 1.0), ((), 3.0, 1.0)],
)
def test_rounding_is_no_error(cells: tuple[float, ...], weight: float, other: float) -> None:
    plan(model(*cells, weight=weight, other=other), Options())


def test_weights_that_no_number_holds_are_refused_where_the_model_is_made() -> None:
    with pytest.raises(ValueError, match=r"more than a number can hold, and the heaviest is shop/orders.*1.6e\+308"):
        cluster({A: [1.6e308, 1.5e308], B: []})


def test_weights_that_no_capacity_divides_are_refused() -> None:
    small = cluster({A: [1e300], B: []}, capacity={A: 1e-10})
    with pytest.raises(ValueError, match=r"weights sum to 1e\+300, which is too much for a capacity of 1e-10"):
        plan(small, Options())


@pytest.mark.parametrize("heavy", [1e300, 1.7e308])
def test_what_is_heavy_and_has_a_sum_is_planned_on(heavy: float) -> None:
    found = plan(cluster({A: [heavy / 2, heavy / 2], B: []}), Options())
    assert [move.weight for move in found.moves] == [heavy / 2]


@settings(deadline=None)
@example(topics=[(0, 2.804113595762052e-180)], carried=0.0, smoothed=1.1618207060069265e-157)
@example(topics=[(0, 1.0), (1, 1.0)], carried=0.0, smoothed=5e-324)
@example(topics=[(0, 1.0), (1, 1.0)], carried=5e-324, smoothed=1.0)
@given(
    st.lists(st.tuples(st.integers(0, 0xFFFFFFFF), st.floats(0, 1e12)), max_size=8),
    st.floats(0.0, 1e12),
    st.floats(0.0, 1e12),
)
def test_what_is_observed_adds_up_whatever_was_carried(
    topics: list[tuple[int, float]], carried: float, smoothed: float
) -> None:
    """Topics are read once, and a bundle is their sum; remembered weights take the cells with them."""
    observed = Observed((A, B), boundaries={"shop/orders": (0, 1 << 31, 0xFFFFFFFF)})
    for position, weight in topics:
        observed.add("shop/orders", position, weight)
    first = BundleId("shop/orders", 0, 1 << 31)
    observed.owners = {first: A, BundleId("shop/orders", 1 << 31, 0xFFFFFFFF): B}
    found = model_of(observed, carried={first: carried})
    plan(found, Options())
    plan(replace(found, bundles=tuple(weighing(bundle, smoothed) for bundle in found.bundles)), Options())
