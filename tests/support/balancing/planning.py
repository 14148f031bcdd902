"""Tiny named clusters for tests of the planner, random ones, and what must be true of every proposal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import fsum

from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import outcome
from pulsar_operator.balance.planner.proposal import Proposal

NAMESPACE = "shop/orders"
WIDTH = 1 << 20
ENDLESS = Budget(max_moves=100_000, max_moved_percent=1000.0, max_splits=10_000)
TINY = 1e-9


def cluster(
    loads: Mapping[str, Sequence[float | Sequence[float]]],
    *,
    namespace: str = NAMESPACE,
    capacity: Mapping[str, float] | None = None,
    unowned: Sequence[float] = (),
) -> ClusterModel:
    """Brokers with the weights of their bundles; a bundle given as a list has one topic of each weight.

    Bundles given as a number are of one topic. Their ranges follow one another.
    """
    number = count()

    def bundle(what: float | Sequence[float], owner: str | None) -> Bundle:
        lower = next(number) * WIDTH
        weights = [what] if isinstance(what, int | float) else list(what)
        step = WIDTH // (len(weights) + 1)
        cells = tuple(Cell(lower + (i + 1) * step, float(w)) for i, w in enumerate(weights))
        return Bundle(BundleId(namespace, lower, lower + WIDTH), fsum(weights), owner, cells, len(cells))

    bundles = [bundle(each, broker) for broker, weights in loads.items() for each in weights]
    bundles += [bundle(each, None) for each in unowned]
    brokers = tuple(Broker(broker, capacity=(capacity or {}).get(broker, 1.0)) for broker in loads)
    return ClusterModel(brokers, tuple(bundles))


def loads_of(model: ClusterModel) -> dict[str, float]:
    """Load by broker."""
    return {b.id: fsum(x.weight for x in model.bundles if x.owner == b.id) for b in model.brokers}


def after(model: ClusterModel, proposal: Proposal) -> ClusterModel:
    """The model that a proposal leads to."""
    return outcome(model, proposal.splits, proposal.moves)


def busiest(model: ClusterModel) -> float:
    """Highest utilization."""
    loads = loads_of(model)
    return max(loads[broker.id] / broker.capacity for broker in model.brokers)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterModel:
    """Up to five brokers and three namespaces, with everything that a model may say."""
    brokers = tuple(
        Broker(
            f"b{index}:8080",
            capacity=draw(st.sampled_from([1.0, 1.0, 2.0, 0.5])),
            domain=draw(st.sampled_from([None, "east", "west"])),
            draining=draw(st.integers(0, 7)) == 0,
        )
        for index in range(draw(st.integers(2, 5)))
    )
    ids = [broker.id for broker in brokers]
    weight = st.one_of(st.integers(0, 5), st.integers(0, 100), st.floats(0, 30)).map(float)
    bundles: list[Bundle] = []
    namespaces = [f"t/n{index}" for index in range(draw(st.integers(1, 3)))]
    skew = draw(st.booleans())
    for namespace in namespaces:
        for index in range(draw(st.integers(1, 10))):
            lower = index * WIDTH
            positions = sorted(draw(st.sets(st.integers(lower, lower + WIDTH - 1), max_size=4)))
            cells = tuple(Cell(position, draw(weight)) for position in positions)
            known = draw(st.integers(0, 4)) > 0
            owner = draw(st.sampled_from([*ids, ids[0], ids[0], None] if skew else ids))
            bundles.append(
                Bundle(
                    BundleId(namespace, lower, lower + WIDTH),
                    fsum(cell.weight for cell in cells),
                    owner,
                    cells if known else (),
                    len(cells),
                )
            )
    some = st.sets(st.sampled_from(ids), min_size=1).map(frozenset)
    return ClusterModel(
        brokers,
        tuple(bundles),
        allowed={ns: draw(some) for ns in namespaces if draw(st.integers(0, 4)) == 0},
        anti_affinity={ns: "apart" for ns in namespaces if draw(st.integers(0, 2)) == 0},
        pinned=frozenset(ns for ns in namespaces if draw(st.integers(0, 6)) == 0),
    )


@st.composite
def questions(draw: st.DrawFn, model: ClusterModel, *, budget: Budget | None = None) -> Options:
    """Any question to the planner about a cluster."""
    mode = draw(st.sampled_from([Mode.FULL, Mode.FULL, *Mode]))
    ids = [broker.id for broker in model.brokers]
    named = draw(st.sets(st.sampled_from(ids), min_size=1, max_size=2))
    return Options(
        mode=mode,
        budget=budget
        or Budget(
            max_moves=draw(st.sampled_from([0, 1, 3, 100])),
            max_moved_percent=draw(st.sampled_from([0.0, 9.0, 40.0, 100.0])),
            max_splits=draw(st.sampled_from([0, 1, 20])),
            max_bundles=draw(st.sampled_from([8, 4096])),
        ),
        namespaces=draw(st.sampled_from([None, None, frozenset({"t/n0"})])),
        brokers=frozenset(named) if mode in (Mode.ADD_BROKERS, Mode.REMOVE_BROKERS) else frozenset(),
        tolerance=draw(st.sampled_from([0.0, 0.02, 0.1, 0.3])),
        cooling=frozenset(draw(st.sets(st.sampled_from([b.id for b in model.bundles]), max_size=2))),
    )


def verify(model: ClusterModel, proposal: Proposal, options: Options) -> None:
    """What must be true of every proposal, found by other means than the planner's own check."""
    final = after(model, proposal)
    owner_before, owner_after = ({b.id: b.owner for b in m.bundles} for m in (model, final))
    parents = {split.bundle for split in proposal.splits}
    roots = [bundle.id for bundle in model.bundles]
    origin = {
        new: next(r for r in roots if r.namespace == new.namespace and r.lower <= new.lower < r.upper)
        for new in owner_after
    }
    drained = {b.id for b in model.brokers if b.draining}
    if options.mode is Mode.REMOVE_BROKERS:
        drained |= options.brokers
    moved = 0.0
    steps = Counter(move.bundle for move in proposal.moves)
    assert all(times == 1 for times in steps.values())
    for bundle in final.bundles:
        namespace, source = bundle.id.namespace, owner_before[origin[bundle.id]]
        allowed = model.allowed.get(namespace)
        leaving = source in drained or (allowed is not None and source not in allowed)
        changed = bundle.owner != source
        assert changed == bool(steps[bundle.id]), "a move that moves nothing, or a bundle that moved by itself"
        if changed:
            assert source is not None, "a bundle without owner is not moved"
            assert bundle.owner not in drained
            assert allowed is None or bundle.owner in allowed
            assert leaving or bundle.id not in options.cooling
            moved += bundle.weight
        if changed or origin[bundle.id] in parents:
            assert namespace not in model.pinned
            assert options.namespaces is None or namespace in options.namespaces
        if options.mode is Mode.ADD_BROKERS:
            assert not changed or bundle.owner in options.brokers, "others trade nothing"
        if options.mode is Mode.REMOVE_BROKERS:
            assert not changed or source in options.brokers
    total = fsum(b.weight for b in model.bundles if b.owner is not None)
    assert len(proposal.moves) <= options.budget.max_moves
    assert len(proposal.splits) <= options.budget.max_splits
    if options.mode is not Mode.REMOVE_BROKERS and (len(proposal.moves) != 1 or not options.budget.max_moved_percent):
        assert moved <= total * (options.budget.max_moved_percent / 100 + TINY)
    assert abs(moved - proposal.moved_weight) <= TINY * (1 + moved)
    for split in proposal.splits if options.mode is Mode.FULL else ():
        name = split.bundle
        pieces = [i for i in owner_after if i.namespace == name.namespace and name.lower <= i.lower < name.upper]
        assert len({owner_after[piece] for piece in pieces}) > 1, "a cut that parts nothing"
    sizes = Counter(b.id.namespace for b in final.bundles)
    grown = {split.bundle.namespace for split in proposal.splits}
    assert all(sizes[namespace] <= options.budget.max_bundles for namespace in grown)
    if not drained and not model.allowed:
        assert busiest(final) <= busiest(model) * (1 + TINY), "the busiest broker became busier"
    if not proposal.moves and not proposal.splits:
        assert proposal.withheld
    assert all(step.reason for step in (*proposal.splits, *proposal.moves))


def shuffled(model: ClusterModel) -> ClusterModel:
    """The same cluster in another order."""
    return replace(
        model,
        brokers=tuple(reversed(model.brokers)),
        bundles=tuple(sorted(model.bundles, key=lambda b: (b.id.upper, b.id.namespace), reverse=True)),
        allowed=dict(reversed(model.allowed.items())),
    )


def scaled(model: ClusterModel, factor: float) -> ClusterModel:
    """The same cluster with weights in another unit."""
    return replace(
        model,
        bundles=tuple(
            replace(b, weight=b.weight * factor, cells=tuple(c._replace(weight=c.weight * factor) for c in b.cells))
            for b in model.bundles
        ),
    )
