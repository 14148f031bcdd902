"""Advice beside the plan: topics hotter than a broker, brokers that are not emptied, a budget that was reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pulsar_operator.balance.model.cluster import Bundle, ClusterModel
from pulsar_operator.balance.planner.bundle_placement import Placement
from pulsar_operator.balance.planner.proposal import Advice, Balance

MORE_PARTITIONS: Final = "MorePartitions"
TOPICS_UNKNOWN: Final = "TopicsUnknown"
NOT_EMPTIED: Final = "NotEmptied"
BUDGET_REACHED: Final = "BudgetReached"
COARSE_BUNDLES: Final = "CoarseBundles"

MOST: Final = 10
"""Maximum number of topics and bundles that are named."""


def hot_topics(model: ClusterModel, balance: Balance, *, whole: bool = False) -> list[Advice]:
    """Returns topics that are heavier than the fair share of the largest broker, and bundles that may contain one. With
    ``whole`` the plan only moves bundles, and the topics in them were not read.
    """
    able = [broker.capacity for broker in model.brokers if not broker.draining]
    known = {broker.id for broker in model.brokers}
    share = balance.mean * max(able, default=0.0)
    if len(able) < 2 or share <= 0:
        return []
    limit = share * (1 + 1e-9)
    heavy = [bundle for bundle in model.bundles if bundle.weight > limit and bundle.owner in known]
    found: list[tuple[float, Advice]] = []
    for bundle in heavy:
        if not bundle.cells and not whole:
            found.append((bundle.weight, _unknown(bundle, share)))
        for cell in bundle.cells:
            if cell.weight > limit:
                subject = f"{bundle.id.namespace} at 0x{cell.position:08x}"
                found.append(
                    (cell.weight, Advice(MORE_PARTITIONS, subject, _hot(cell.weight / share, cell.topics, subject)))
                )
    found.sort(key=lambda each: (-each[0], each[1].subject))
    return [advice for _, advice in found[:MOST]]


def _hot(ratio: float, topics: int, subject: str) -> str:
    what = "the topic" if topics <= 1 else f"one of the {topics} topics"
    return (
        f"{what} of {subject} carries {ratio:.2f}x a broker's fair share, and no bundle can be smaller than a "
        "topic. Add partitions to the topic"
    )


def _unknown(bundle: Bundle, share: float) -> Advice:
    return Advice(
        TOPICS_UNKNOWN,
        str(bundle.id),
        f"bundle {bundle.id} carries {bundle.weight / share:.2f}x a broker's fair share, but cannot be split, "
        "because the traffic of its topics is not known. Collect topic statistics of its broker",
    )


def not_emptied(placement: Placement, stay: Iterable[int], blocked: Iterable[int]) -> list[Advice]:
    """Returns brokers that keep bundles which must be moved away; `blocked` bundles stay whatever the budget is."""
    for_ever = set(blocked)
    found: list[Advice] = []
    for why, some in (
        ("no other broker may serve them", [index for index in stay if index in for_ever]),
        (
            "the budget is used up. Request another proposal after this one",
            [index for index in stay if index not in for_ever],
        ),
    ):
        left = Counter(placement.brokers[placement.home[index]].id for index in some)
        found += [
            Advice(NOT_EMPTIED, name, f"{n} bundles that should leave {name} stay there, because {why}")
            for name, n in sorted(left.items())
        ]
    return found


def budget_reached() -> Advice:
    """Returns the advice that the proposal is only the first part of what is needed."""
    message = "the budget ends before the load is balanced. Request another proposal after this one"
    return Advice(BUDGET_REACHED, "budget", message)


def coarse_bundles() -> Advice:
    """Returns the advice that moves alone do not suffice."""
    message = "no further move of a whole bundle reduces the load of the busiest broker. Mode Full may split bundles"
    return Advice(COARSE_BUNDLES, "mode", message)
