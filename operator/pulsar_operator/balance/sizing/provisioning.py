"""Advice on problems that bundles cannot solve: topics that need more partitions, and clusters with too few or too many
brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, fsum, inf

from pulsar_operator.balance.model.cluster import Broker
from pulsar_operator.balance.model.hashing import split_partition
from pulsar_operator.balance.sizing.result import HottestTopic, PartitionAdvice, Verdict

SKEWED = 2.0
"""Ratio of a partition's weight to the mean of its topic above which keys or routing are uneven."""
MARGIN = 0.1
"""Margin below the target that fewer brokers must keep before the current number counts as too high, so that the
verdict does not oscillate."""
ROUNDING = 1e-9


@dataclass(slots=True)
class _Topic:
    total: float = 0.0
    hottest: float = 0.0
    partitions: int = 0


def partition_advice(
    topics: Iterable[tuple[str, float]], fair_share: float, *, share: float = 0.5
) -> tuple[PartitionAdvice, ...]:
    """Returns the topics of which one partition (or the topic itself) weighs more than `share` of a broker's fair
    share, the heaviest first.

    `topics` are full names with weights, with a name for each partition. `fair_share` is the weight of all topics
    divided by the number of brokers. Memory grows with the topics given, so the caller leaves out those that cannot be
    hot. Raises ValueError unless fair_share >= 0 and share > 0.
    """
    if not (fair_share >= 0 and share > 0):
        raise ValueError(
            f"fair_share is {fair_share} and share is {share}, but fair_share must not be negative and share must be "
            "positive"
        )
    found: dict[tuple[str, bool], _Topic] = {}
    for full_name, weight in topics:
        name, index = split_partition(full_name)
        topic = found.setdefault((name, index is not None), _Topic())
        topic.total += weight
        topic.hottest = max(topic.hottest, weight)
        topic.partitions = max(topic.partitions, 0 if index is None else index + 1)
    limit = share * fair_share
    hot = [(name, topic) for (name, _), topic in found.items() if topic.hottest > limit > 0]
    return tuple(_advice(name, topic, fair_share, limit) for name, topic in sorted(hot, key=lambda e: -e[1].hottest))


def _advice(name: str, topic: _Topic, fair_share: float, limit: float) -> PartitionAdvice:
    needed = max(ceil(topic.total / limit - ROUNDING), topic.partitions + 1, 2)
    part = f"{topic.hottest / fair_share:.0%} of a broker's fair share"
    if not topic.partitions:
        reason = (
            f"The topic is not partitioned and carries {part}. Each of {needed} partitions would carry at most "
            f"{limit / fair_share:.0%}. Pulsar cannot convert the topic into a partitioned one, so create a new topic."
        )
    elif topic.hottest > SKEWED * topic.total / topic.partitions:
        reason = (
            f"One of {topic.partitions} partitions carries {part} and {topic.hottest / topic.total:.0%} of the topic. "
            "More partitions help only if the messages have many keys. Check keys and routing first."
        )
    else:
        reason = (
            f"A partition of {topic.partitions} carries {part}. Each of {needed} partitions would carry at most "
            f"{limit / fair_share:.0%}. Additional partitions change the partition of keys."
        )
    return PartitionAdvice(
        topic=name, weight=topic.total, partitions_now=topic.partitions, partitions=needed, reason=reason
    )


def hotter_than_a_broker(hottest: float, carries: float, target: float) -> bool:
    """Whether a single topic exceeds the target load of the largest broker. Only more partitions help then, more
    brokers do not.

    `hottest` is the weight of the topic, `carries` the capacity of the largest broker as a weight, and `target` its
    target share.
    """
    return hottest > carries * target


def verdict(
    total: float | None,
    brokers: Sequence[Broker],
    *,
    capacity: float | None,
    target: float = 0.7,
    hottest: float = 0.0,
    topic: str = "",
    least: int = 1,
) -> Verdict:
    """Returns whether there are too few, too many or enough brokers for a weight.

    `total` is the weight of all topics, None if nothing was recorded. `capacity` is the weight that a broker of
    relative capacity 1 can carry, in byte equivalents per second, None if unknown. `target` is the target utilization
    of that capacity. `hottest` is the weight of the hottest topic, and `topic` its name, if the verdict should name it.
    `least` is the minimum number of brokers for any load. Without total or capacity the verdict is Unknown. Draining
    brokers do not count. Raises ValueError for a value out of range.
    """
    able = [broker for broker in brokers if not broker.draining]
    now = len(able)
    if total is None:
        return _verdict("Unknown", now, now, "No traffic was recorded.")
    if capacity is None:
        return _verdict(
            "Unknown", now, now, "The capacity of a broker is not known. Give its capacity in bytes per second."
        )
    for name, value in (("capacity", capacity), ("target", target)):
        if not value > 0:
            raise ValueError(f"{name} is {value}, but must be positive")
    if not now:
        return _verdict("UnderProvisioned", 0, max(least, 1), "No broker takes bundles.")
    each = capacity * target * fsum(broker.capacity for broker in able) / now
    needed = max(least, 1, ceil(total / each - ROUNDING))
    fewer = max(least, 1, ceil(total / (each * (1 - MARGIN)) - ROUNDING))
    utilization = total / (each * now) * target
    text = f"the utilization of {now} brokers would be {utilization:.0%}, and the target is {target:.0%}"
    carries = capacity * max(broker.capacity for broker in able)
    known = bool(topic) and carries < inf
    hottest_topic = HottestTopic(topic=topic, weight=hottest, carries=carries, target=target) if known else None
    if hotter_than_a_broker(hottest, carries, target):
        text += (
            ". The hottest topic alone is too much for any broker, so add partitions to the topic instead of brokers"
        )
    if needed > now:
        return _verdict("UnderProvisioned", now, needed, f"{text}. {needed} brokers are needed.", hottest_topic)
    if fewer < now:
        return _verdict("OverProvisioned", now, fewer, f"{text}. {fewer} brokers are sufficient.", hottest_topic)
    return _verdict("RightSized", now, now, f"{text}.", hottest_topic)


def _verdict(word: str, now: int, brokers: int, reason: str, hottest: HottestTopic | None = None) -> Verdict:
    found = {"verdict": word, "brokers_now": now, "brokers": brokers, "reason": reason, "hottest": hottest}
    return Verdict.model_validate(found)
