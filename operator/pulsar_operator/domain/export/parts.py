"""Subscriptions and the schema of a topic in the form of a specification."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.entries import PATH_SAFE
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.api.v1alpha1.topic_parts import SchemaType, TopicSchema
from pulsar_operator.domain.export.policies import shown
from pulsar_operator.domain.export.rules import problem_of
from pulsar_operator.domain.logical.schema import LiveSchema, declaration_of, is_same
from pulsar_operator.domain.logical.subscriptions import LiveSubscription, parse
from pulsar_operator.domain.policies import Undecodable, Unreadable
from pulsar_operator.domain.policies.codecs import DISPATCH_RATE
from pulsar_operator.domain.texts import contains_secret, resembles_secret

SUBSCRIPTIONS = "subscriptions"
SCHEMA = "schema"
_BROKERS = re.compile(r"pulsar\.repl\..*|pulsar\.dedup|__compaction", re.DOTALL)
"""Cursors of brokers: replication, deduplication and compaction (classes PersistentReplicator, MessageDeduplication and
Compactor)."""
_FUNCTIONS = re.compile(r"[^/]+/[^/]+/[^/]+")
"""Default subscription of a function or a sink: its full name (class InstanceUtils)."""


def is_system_subscription(name: str) -> bool:
    """Whether the subscription is internal to the brokers."""
    return _BROKERS.fullmatch(name) is not None


def is_functions_subscription(name: str) -> bool:
    """Whether the name has the form of a function's, tenant/namespace/name."""
    return _FUNCTIONS.fullmatch(name) is not None


def rated_subscriptions(names: Iterable[str]) -> list[str]:
    """Returns the subscriptions whose own dispatch rate must be requested: others are not declared, or their name
    cannot be part of a path."""
    return [name for name in names if not is_system_subscription(name) and re.fullmatch(PATH_SAFE, name)]


def durable_subscriptions(stats: Mapping[str, Any], *, partitioned: bool) -> dict[str, LiveSubscription]:
    """Returns the durable subscriptions in an answer of ``GET .../stats`` or ``.../partitioned-stats``, by name."""
    parts = list((stats.get("partitions") or {}).values()) if partitioned else [stats]
    passing = {
        name
        for part in parts
        for name, one in (part.get(SUBSCRIPTIONS) or {}).items()
        if one.get("isDurable", one.get("durable")) is False
    }
    found = parse(stats, partitioned=partitioned)
    return {name: found[name] for name in sorted(found) if name not in passing}


def with_subscriptions(
    spec: Mapping[str, Any],
    live_subscriptions: Mapping[str, LiveSubscription],
    rates: Mapping[str, Any],
    *,
    system: bool,
) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
    """Returns the topic's specification with its subscriptions, and notes about the others: pairs of a text and whether
    it could not be read.

    ``rates`` are answers by subscription, None for a subscription without its own rate. With ``system`` subscriptions
    of functions are exported.
    """
    out, notes = dict(spec), list[tuple[str, bool]]()
    listed: list[dict[str, Any]] = []
    own = [name for name in live_subscriptions if is_functions_subscription(name)] if not system else []
    if own:
        names = ", ".join(shown(name) for name in own)
        notes.append(
            (
                f"{SUBSCRIPTIONS}: {names} are not exported, because they are named like the subscriptions that "
                "functions create",
                False,
            )
        )
    for name, live in live_subscriptions.items():
        if is_system_subscription(name) or name in own:
            continue
        value, note = _subscription(name, live, rates.get(name))
        notes += note
        if value is None:
            continue
        problem = problem_of(PulsarTopicSpec, {**spec, SUBSCRIPTIONS: [*listed, value]})
        if problem is None:
            listed.append(value)
        else:
            notes.append(
                (
                    f"{SUBSCRIPTIONS}: entry {shown(name)} is not exported, because the API server would refuse it: "
                    f"{problem}",
                    False,
                )
            )
    if listed:
        out[SUBSCRIPTIONS] = listed
    return out, notes


def _subscription(name: str, live: LiveSubscription, rate: Any) -> tuple[dict[str, Any] | None, list[tuple[str, bool]]]:
    place = f"{SUBSCRIPTIONS}[{shown(name)}]"
    if live.missing:
        # Declared, it would be made in the others.
        return None, [(f"{place} is not exported, because it is missing in {live.missing} of the partitions", False)]
    value: dict[str, Any] = {"name": name}
    notes: list[tuple[str, bool]] = []
    if live.replicated is None:
        notes.append((f"{place}.replicated is not exported, because it differs between the partitions", False))
    elif live.replicated:
        value["replicated"] = True
    if live.properties is None:
        notes.append((f"{place}.properties are not exported, because they differ between the partitions", False))
    elif live.properties:
        secret = [key for key, each in sorted(live.properties.items()) if contains_secret(key, each)]
        if secret:  # The field is all of them, so that without one it would take that one away.
            names = ", ".join(map(shown, secret))
            notes.append((f"{place}.properties are not exported, because these values may be secret: {names}", False))
        else:
            value["properties"] = dict(sorted(live.properties.items()))
    if isinstance(rate, Unreadable):
        notes.append((f"{place}.dispatchRate could not be read: {rate.message}", True))
    elif rate is not None:
        decoded = DISPATCH_RATE.decode(rate)
        if isinstance(decoded, Undecodable):
            notes.append((f"{place}.dispatchRate is {shown(rate)} in Pulsar, which the field cannot express", False))
        else:
            value["dispatchRate"] = wire(decoded)
    return value, notes


def with_schema(spec: Mapping[str, Any], answer: Any) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
    """Returns the topic's specification with the newest version of its schema, and notes about it."""
    if answer is None:
        return dict(spec), []
    if isinstance(answer, Unreadable):
        return dict(spec), [(f"{SCHEMA} could not be read: {answer.message}", True)]
    live = LiveSchema.parse(answer)
    what = f"{SCHEMA} version {live.version} of type {live.type}"
    if live.type not in SchemaType.__members__:
        return dict(spec), [(f"{what} is not exported, because the field has no such type", False)]
    declared = declaration_of(live)
    if declared is None:
        return dict(spec), [
            (f"{what} is not exported, because it does not contain the types of its key and value", False)
        ]
    value, properties = declared
    if resembles_secret(live.definition):
        return dict(spec), [(f"{what} is not exported, because its definition may contain a secret", False)]
    secret = sorted(key for key, each in properties.items() if contains_secret(key, each))
    kept = {key: each for key, each in sorted(properties.items()) if key not in secret}
    notes = [
        (f"{SCHEMA}.properties: {shown(key)} is not exported, because its value may be secret", False) for key in secret
    ]
    problem = _not_the_same({**value, **({"properties": kept} if kept else {})}, live)
    if problem is not None and kept:
        notes.append(
            (
                f"{SCHEMA}.properties {shown(kept)} are not exported, because the API server would refuse them: "
                f"{problem}",
                False,
            )
        )
        kept, problem = {}, _not_the_same(value, live)
    if problem is None:
        whole = {**spec, SCHEMA: {**value, **({"properties": kept} if kept else {})}}
        problem = problem_of(PulsarTopicSpec, whole)
    if problem is not None:
        return dict(spec), [*notes, (f"{what} is not exported: {problem}", False)]
    return whole, notes


def _not_the_same(value: Mapping[str, Any], live: LiveSchema) -> str | None:
    """Returns why the declared schema would be refused, or not be recognized as the existing one, as a message. None if
    it would be recognized."""
    problem = problem_of(TopicSchema, value)
    if problem is not None:
        return problem
    same = is_same(TopicSchema.model_validate(value), live)
    return None if same else "the field cannot express it"
