"""The rest of a proposal against the live state, before each of its steps: what is still right, done, or to be dropped.

Between two steps anybody may have split a bundle, a broker may be gone, traffic may have moved on. Nothing is searched
here: a step that does not fit any more is dropped with its reason, and a new proposal can replace it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pulsar_operator.balance.cuts import split_bundle
from pulsar_operator.balance.goals import AllowedBrokers
from pulsar_operator.balance.model import Broker, Bundle, BundleId, ClusterModel
from pulsar_operator.balance.options import Options
from pulsar_operator.balance.outcome import as_asked, utilizations
from pulsar_operator.balance.placement import Placement
from pulsar_operator.balance.proposal import Move, Split
from pulsar_operator.balance.verify import EXACT, must_leave


@dataclass(frozen=True, slots=True)
class Dropped:
    """A step that is not to be done."""

    step: Split | Move
    reason: str
    done: bool = False
    """The live state is already as the step would make it: no surprise."""


@dataclass(frozen=True)
class Remaining:
    """The steps that are left, in their order."""

    splits: tuple[Split, ...]
    moves: tuple[Move, ...]
    dropped: tuple[Dropped, ...]

    @property
    def surprises(self) -> tuple[Dropped, ...]:
        """Steps that were dropped for another reason than being done."""
        return tuple(each for each in self.dropped if not each.done)


def revalidate(model: ClusterModel, splits: Sequence[Split], moves: Sequence[Move], options: Options) -> Remaining:
    """Which of the remaining steps still hold on the live state, given that those before them are done."""
    model = as_asked(model, options)
    bundles = {bundle.id: bundle for bundle in model.bundles}
    boundaries: defaultdict[str, set[int]] = defaultdict(set)
    for bundle in bundles:
        boundaries[bundle.namespace].update((bundle.lower, bundle.upper))
    good: list[Split] = []
    dropped: list[Dropped] = []
    for split in splits:
        if verdict := _judge_split(model, split, bundles, boundaries[split.bundle.namespace], options):
            dropped.append(Dropped(split, *verdict))
            continue
        good.append(split)
        boundaries[split.bundle.namespace].add(split.boundary)
        bundles.update((piece.id, piece) for piece in _pieces(bundles.pop(split.bundle), split.boundary))
    kept = _judge_moves(model, bundles, moves, options, dropped)
    return Remaining(tuple(good), tuple(kept), tuple(dropped))


def _judge_split(
    model: ClusterModel, split: Split, bundles: Mapping[BundleId, Bundle], boundaries: set[int], options: Options
) -> tuple[str, bool] | None:
    """(why to drop it, whether it is done), None for a good one."""
    ident = split.bundle
    if {ident.lower, split.boundary, ident.upper} <= boundaries:
        return f"{ident} is cut at 0x{split.boundary:08x} already", True
    bundle = bundles.get(ident)
    if bundle is None:
        return f"{ident} is no bundle of the namespace any more: somebody changed its boundaries", False
    if not ident.lower < split.boundary < ident.upper:
        return f"0x{split.boundary:08x} is not inside {ident}", False
    if bundle.cells and len(bundle.cells) < 2:
        return f"{ident} has one topic only now: Pulsar splits no such bundle", False
    if why := _untouchable(model, ident, options):
        return why, False
    return None


def _untouchable(model: ClusterModel, ident: BundleId, options: Options) -> str:
    if ident.namespace in model.pinned:
        return f"{ident} is pinned now"
    if options.namespaces is not None and ident.namespace not in options.namespaces:
        return f"{ident.namespace} is not selected any more"
    return ""


def _pieces(bundle: Bundle, boundary: int) -> tuple[Bundle, Bundle]:
    """The pieces of a cut; when the weights inside are not known, the lower one has it all."""
    if not bundle.cells:
        lower, upper = bundle.id._replace(upper=boundary), bundle.id._replace(lower=boundary)
        return replace(bundle, id=lower), Bundle(upper, 0.0, bundle.owner)
    return split_bundle(bundle, boundary)


def _judge_moves(
    model: ClusterModel,
    bundles: Mapping[BundleId, Bundle],
    moves: Sequence[Move],
    options: Options,
    dropped: list[Dropped],
) -> list[Move]:
    """The good ones of the moves; the others are added to `dropped`."""
    live = replace(model, bundles=tuple(bundles.values()))
    placement = Placement(live)
    number = {bundle.id: index for index, bundle in enumerate(placement.bundles)}
    brokers = {broker.id: broker for broker in live.brokers}
    good: list[Move] = []
    for move in moves:
        if verdict := _judge_move(live, move, bundles.get(move.bundle), brokers.get(move.destination), options):
            dropped.append(Dropped(move, *verdict))
        elif placement.conflicts(number[move.bundle], placement.number[move.destination]):
            reason = f"{move.bundle} would now meet another namespace of its anti-affinity group at {move.destination}"
            dropped.append(Dropped(move, reason))
        else:
            placement.move(number[move.bundle], placement.number[move.destination], "")
            good.append(move)
    urgent = [m for m in good if m.source in brokers and must_leave(live, m.bundle.namespace, brokers[m.source])]
    now = max(_busiest(live, []), _busiest(live, urgent))
    if len(urgent) == len(good) or _busiest(live, good) <= now * (1 + EXACT):
        return good
    for move in good:
        if move not in urgent:
            dropped.append(Dropped(move, "traffic has changed: with what is left the busiest broker would be busier"))
    return urgent


def _judge_move(
    model: ClusterModel, move: Move, bundle: Bundle | None, destination: Broker | None, options: Options
) -> tuple[str, bool] | None:
    """(why to drop it, whether it is done), None for a good one."""
    if bundle is None:
        return f"{move.bundle} is no bundle of the namespace any more: somebody changed its boundaries", False
    if bundle.owner == move.destination:
        return f"{move.bundle} is at {move.destination} already", True
    if destination is None:
        return f"broker {move.destination} is gone", False
    if destination.draining:
        return f"broker {move.destination} gives everything away now", False
    if bundle.owner is None:
        return f"no broker serves {move.bundle} now", False
    if bundle.owner != move.source:
        return f"{move.bundle} is at {bundle.owner}, not at {move.source}", False
    if not AllowedBrokers(model.allowed).permits(move.bundle.namespace, move.destination):
        return f"{move.destination} may not serve {move.bundle.namespace} any more", False
    if why := _untouchable(model, move.bundle, options):
        return why, False
    return None


def _busiest(model: ClusterModel, moves: Sequence[Move]) -> float:
    going = {move.bundle: move.destination for move in moves}
    bundles = (replace(b, owner=going[b.id]) if b.id in going else b for b in model.bundles)
    return max(utilizations(model.brokers, bundles).values(), default=0.0)
