"""Subscriptions of a topic: created if missing, never moved, deleted only if nothing is lost.

Each cluster has its own subscriptions; those of a partitioned topic are in every partition. Source: class
PersistentTopics of the broker's admin v2 (Pulsar 4.0), checked against a running 4.0.8 by
tests/standalone/test_topic_parts_real.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.api.v1alpha1.policies import DispatchRate
from pulsar_operator.api.v1alpha1.topic_parts import InitialPosition, Subscription
from pulsar_operator.domain.logical.plan import (
    Action,
    Draft,
    Memory,
    Problem,
    Verb,
    action_text,
    change_verb,
    joined,
    printable,
)
from pulsar_operator.domain.logical.pulsar_names import MOST_PARTITIONS
from pulsar_operator.domain.logical.tenant import entry, items_of
from pulsar_operator.domain.policies import Call, Unreadable, concealed, describe, encoded_again
from pulsar_operator.domain.policies.codecs import DISPATCH_RATE

SUBSCRIPTIONS = "subscriptions"
RATE = ".dispatchRate"
REPLICATED = ".replicated"
PROPERTIES = ".properties"
_FIRST = -1
_LAST = 2**63 - 1
"""Ledger and entry ids that Pulsar interprets as the beginning and the end of a topic (class MessageId)."""


@dataclass(frozen=True)
class LiveSubscription:
    """A subscription in one cluster; for a partitioned topic, in all its partitions."""

    replicated: bool | None = None
    """None if the partitions differ."""
    properties: Mapping[str, str] | None = None
    """None if the partitions differ."""
    backlog: int = 0
    """Number of unread messages."""
    consumers: int = 0
    missing: int = 0
    """Number of partitions that do not have it."""


@dataclass(frozen=True)
class ClusterSubscriptions:
    """The subscriptions of the topic in one cluster."""

    live_subscriptions: Mapping[str, LiveSubscription]
    """Subscriptions by name."""
    rates: Mapping[str, Any] = field(default_factory=dict)
    """The subscriptions' own dispatch rates by name. Only declared or managed ones are read. Pulsar stores them also
    for subscriptions that do not exist."""


LiveSubscriptions = Mapping[str, ClusterSubscriptions | Unreadable]
"""Subscriptions by cluster."""


def parse(stats: Mapping[str, Any], *, partitioned: bool) -> dict[str, LiveSubscription]:
    """Parses an answer of ``GET .../stats`` or ``GET .../partitioned-stats?perPartition=true``. Returns the
    subscriptions by name."""
    parts = list((stats.get("partitions") or {}).values()) if partitioned else [stats]
    subscriptions: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts:
        for name, one in (part.get("subscriptions") or {}).items():
            subscriptions.setdefault(name, []).append(one)
    return {name: _whole(each, len(parts)) for name, each in subscriptions.items()}


def partitions_without_stats(stats: Mapping[str, Any]) -> list[int] | None:
    """Returns the indices of the partitions that an answer of ``GET .../partitioned-stats?perPartition=true`` omits;
    None if it does not report the number of partitions.

    Pulsar omits partitions whose broker does not answer, and those that no client has used yet. If it omits all, it
    returns empty statistics under the name of the topic (class PersistentTopicsBase, internalGetPartitionedStats).
    """
    number = (stats.get("metadata") or {}).get("partitions")
    if not isinstance(number, int) or number > MOST_PARTITIONS:
        return None
    reported = {name.rpartition("-partition-")[2] for name in stats.get("partitions") or {} if "-partition-" in name}
    return [index for index in range(number) if str(index) not in reported]


def _whole(each: list[Mapping[str, Any]], parts: int) -> LiveSubscription:
    flags = {bool(one.get("isReplicated", one.get("replicated"))) for one in each}
    properties = [dict(one.get("subscriptionProperties") or {}) for one in each]
    return LiveSubscription(
        replicated=flags.pop() if len(flags) == 1 else None,
        properties=properties[0] if all(values == properties[0] for values in properties) else None,
        backlog=sum(int(one.get("msgBacklog") or 0) for one in each),
        consumers=sum(len(one.get("consumers") or ()) for one in each),
        missing=parts - len(each),
    )


def rates_to_read(declared: Iterable[Subscription], managed: Collection[str]) -> list[str]:
    """Returns the subscriptions whose own dispatch rate is declared or may have to be reset."""
    return sorted({each.name for each in declared if each.dispatch_rate is not None} | _rated(managed))


def _rated(managed: Collection[str]) -> set[str]:
    prefix, suffix = f"{SUBSCRIPTIONS}[", f"]{RATE}"
    return {e[len(prefix) : -len(suffix)] for e in managed if e.startswith(prefix) and e.endswith(suffix)}


def concerned_subscriptions(declared: Collection[Subscription], managed: Collection[str]) -> bool:
    """Whether the plan must consider subscriptions."""
    return bool(declared) or any(name.startswith(f"{SUBSCRIPTIONS}[") for name in managed)


def declared_fields(declared: Iterable[Subscription]) -> set[str]:
    """Returns the managed fields of the declared subscriptions in the form of status.managedFields."""
    found: set[str] = set()
    for each in declared:
        name = entry(SUBSCRIPTIONS, each.name)
        found.add(name)
        found |= {name + REPLICATED} if each.replicated is not None else set()
        found |= {name + PROPERTIES} if each.properties is not None else set()
        found |= {name + RATE} if each.dispatch_rate is not None else set()
    return found


def subscription_path(topic: tuple[str, ...], name: str, *rest: str) -> tuple[str, ...]:
    """Returns the path of a subscription. These calls decode its name twice."""
    return (*topic, "subscription", encoded_again(name), *rest)


def rate_call(topic: tuple[str, ...], method: str, name: str, rate: DispatchRate | None = None) -> Call:
    """Returns a call for a subscription's own dispatch rate, which is a policy of the topic. This call decodes the name
    once."""
    query = {"isGlobal": "false", **({"applied": "false"} if method == "GET" else {})}
    body = DISPATCH_RATE.encode(rate) if rate is not None else None
    return Call(method, (*topic, name, "dispatchRate"), query, body)


def create_call(topic: tuple[str, ...], desired: Subscription) -> Call:
    """Returns the call that creates a subscription; for a partitioned topic, in the partitions that lack it."""
    at = _FIRST if desired.initial_position is InitialPosition.EARLIEST else _LAST
    body = {"ledgerId": at, "entryId": at, "partitionIndex": -1, "properties": dict(desired.properties or {})}
    query = {"replicated": "true"} if desired.replicated else {}
    return Call("PUT", subscription_path(topic, desired.name), query, body)


def plan_subscriptions(
    draft: Draft,
    declared: Collection[Subscription],
    found: LiveSubscriptions,
    *,
    topic: tuple[str, ...],
    memory: Memory,
    repair: bool,
    policy: DeletionPolicy,
    unreachable: Collection[str] = (),
) -> None:
    """Adds to the draft the actions that make the subscriptions match the spec."""
    draft.declared |= declared_fields(declared)
    names = {each.name for each in declared}
    gone = items_of(memory.managed, SUBSCRIPTIONS) - names
    old_rates = _rated(memory.managed) - {each.name for each in declared if each.dispatch_rate is not None}
    if unreachable:
        draft.kept |= {entry(SUBSCRIPTIONS, name) for name in gone}
        draft.kept |= {entry(SUBSCRIPTIONS, name) + RATE for name in old_rates}
    left: list[DriftEntry] = []
    for cluster, live in sorted(found.items()):
        if isinstance(live, Unreadable):
            text = f"spec.{SUBSCRIPTIONS} cannot be read in cluster {cluster}: {live.message}"
            draft.problems.append(Problem(SUBSCRIPTIONS, Reason.REJECTED_BY_PULSAR, text))
            draft.kept |= {e for e in memory.managed if e.startswith(f"{SUBSCRIPTIONS}[")}
            continue
        here = _ClusterSubscriptionPlan(cluster, topic, memory, repair)
        for desired in declared:
            draft.actions += here.ensure(desired, live.live_subscriptions.get(desired.name))
            if desired.dispatch_rate is not None and live.rates.get(desired.name) != desired.dispatch_rate:
                draft.actions += here.set_rate(desired.name, desired.dispatch_rate, live.rates.get(desired.name))
        for name in sorted(old_rates):
            if live.rates.get(name) is not None:
                here.reset_rate(draft, name, live.rates[name])
        for name in sorted(gone & set(live.live_subscriptions)):
            here.remove(draft, name, live.live_subscriptions[name], policy)
        left += here.left
    draft.drift += joined(left)


class _ClusterSubscriptionPlan:
    """The plan for the subscriptions of the topic in one cluster."""

    def __init__(self, cluster: str, topic: tuple[str, ...], memory: Memory, repair: bool) -> None:
        self.cluster = cluster
        self.topic = topic
        self.memory = memory
        self.repair = repair
        self.left: list[DriftEntry] = []

    def _change(self, field: str, desired: str, found: str, call: Call) -> list[Action]:
        """Returns the action for one change; none if it is drift that is only reported."""
        difference = DriftEntry(field=field, desired=desired, actual=f"{found} in cluster {self.cluster}")
        if self.memory.leaves(field, repair=self.repair):
            self.left.append(difference)
            return []
        verb = change_verb(self.memory, field)
        return [Action(verb, field, call, action_text(verb, difference), difference, self.cluster)]

    def ensure(self, desired: Subscription, live: LiveSubscription | None) -> list[Action]:
        """Returns the actions that make one subscription match the spec. Its flag and properties are checked once it
        exists."""
        name = entry(SUBSCRIPTIONS, desired.name)
        if live is not None and not live.missing:
            return self._members(desired, live, name)
        found = "no subscription" if live is None else f"no subscription in {live.missing} partitions"
        where = f"a subscription from {desired.initial_position.value}"
        return self._change(name, where, found, create_call(self.topic, desired))

    def set_rate(self, name: str, desired: DispatchRate, live: Any) -> list[Action]:
        """Returns the action that sets a dispatch rate."""
        call = rate_call(self.topic, "POST", name, desired)
        return self._change(entry(SUBSCRIPTIONS, name) + RATE, describe(desired), describe(live), call)

    def _members(self, desired: Subscription, live: LiveSubscription, name: str) -> list[Action]:
        actions: list[Action] = []
        if desired.replicated is not None and live.replicated is not desired.replicated:
            call = Call(
                "POST",
                subscription_path(self.topic, desired.name, "replicatedSubscriptionStatus"),
                body=desired.replicated,
            )
            found = "different values in its partitions" if live.replicated is None else describe(live.replicated)
            actions += self._change(name + REPLICATED, describe(desired.replicated), found, call)
        if desired.properties is not None and live.properties != desired.properties:
            call = Call("PUT", subscription_path(self.topic, desired.name, "properties"), body=dict(desired.properties))
            found = "different values in its partitions" if live.properties is None else concealed(live.properties)
            actions += self._change(name + PROPERTIES, concealed(desired.properties), found, call)
        return actions

    def reset_rate(self, draft: Draft, name: str, live: Any) -> None:
        """Resets a dispatch rate that was removed from the spec."""
        place = entry(SUBSCRIPTIONS, name) + RATE
        draft.kept.add(place)
        found = f"{describe(live)} in cluster {self.cluster}"
        reason = (
            f"Reset spec.{printable(place)} to the inherited value (was {found}), because it was removed from the spec"
        )
        self._clear(draft, Verb.RESET, place, found, reason, rate_call(self.topic, "DELETE", name))

    def _clear(self, draft: Draft, verb: Verb, place: str, found: str, reason: str, call: Call) -> None:
        difference = DriftEntry(field=place, desired=describe(None), actual=found)
        draft.actions.append(Action(verb, place, call, reason, difference, self.cluster))

    def remove(self, draft: Draft, name: str, live: LiveSubscription, policy: DeletionPolicy) -> None:
        """Deletes a subscription that was removed from the spec, together with its position, if the deletion policy
        allows it."""
        if policy is DeletionPolicy.RETAIN:
            return
        place = entry(SUBSCRIPTIONS, name)
        draft.kept.add(place)
        if policy is DeletionPolicy.DELETE and (live.backlog or live.consumers):
            text = (
                f"Subscription {printable(name)} was removed from spec.subscriptions, but is not deleted in "
                f"cluster {self.cluster}, because it has {live.backlog} unread messages and {live.consumers} "
                "connected consumers. Consume or clear the messages and stop the consumers, or add the "
                "subscription to the list again"
            )
            draft.problems.append(Problem(place, Reason.NOT_EMPTY, text))
            return
        query = {"force": "true"} if policy is DeletionPolicy.FORCE_DELETE else {}
        found = f"a subscription with {live.backlog} unread messages in cluster {self.cluster}"
        reason = f"Delete spec.{printable(place)} ({found}), because the subscription was removed from the spec"
        call = Call("DELETE", subscription_path(self.topic, name), query)
        self._clear(draft, Verb.DELETE, place, found, reason, call)
