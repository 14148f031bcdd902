"""Subscriptions and schemas of the in-memory Pulsar, as seen on Pulsar 4.0.8."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from tests.fakes.answers import NO_CONTENT, Answer, RefusalError

STRUCTS = ("AVRO", "JSON", "PROTOBUF")
ENTRY_BYTES = 41
COMPACTION = "__compaction"
NO_LEDGER = {"ledgerId": -1, "entries": -1, "size": -1}
NATIVE = ("fileDescriptorSet", "rootMessageTypeName", "rootFileDescriptorName")


@dataclass
class FakeSubscription:
    """A subscription of a topic, or of a partition."""

    replicated: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    position: str = "latest"
    consumers: int = 0


@dataclass
class FakeTopic:
    """A topic, or a partition, in one cluster."""

    producers: int = 0
    backlog: dict[str, int] = field(default_factory=dict)
    """Unread messages by subscription."""
    subscriptions: dict[str, FakeSubscription] = field(default_factory=dict)
    entries: int = 0
    """Entries in its ledgers, read or not."""
    undelivered: dict[str, int] = field(default_factory=dict)
    """The last entries that its replicators have still to deliver, by cluster; one that is not here has no
    replicator."""
    compacted: int = -1
    """Entries in its compacted ledger; -1 = there was no compaction."""
    compacted_opens: bool = True
    """Whether the broker can open that ledger."""

    @property
    def size(self) -> int:
        """Bytes of its ledgers."""
        return self.entries * ENTRY_BYTES

    def stats(self) -> dict[str, Any]:
        """As GET stats tells it."""
        names = sorted({*self.backlog, *self.subscriptions, *([COMPACTION] if self.compacted >= 0 else [])})
        return {
            "publishers": [{}] * self.producers,
            "storageSize": self.size,
            "subscriptions": {name: self._stats(name) for name in names},
        }

    def internal_stats(self) -> dict[str, Any]:
        """As GET internalStats tells it."""
        told = self.compacted if self.compacted_opens else -1
        ledger = {"ledgerId": 77, "entries": told, "size": told * ENTRY_BYTES} if told >= 0 else NO_LEDGER
        cursors: dict[str, Any] = {name: {"properties": {}} for name in {*self.backlog, *self.subscriptions}}
        if self.compacted >= 0:
            cursors[COMPACTION] = {"properties": {"CompactedTopicLedger": 77}}
        for cluster, waiting in self.undelivered.items():
            delivered = self.entries - waiting
            mark = {"messagesConsumedCounter": delivered, "markDeletePosition": f"7:{delivered - 1}"}
            cursors[f"pulsar.repl.{cluster}"] = mark
        inside = {
            "numberOfEntries": self.entries,
            "totalSize": self.size,
            "entriesAddedCounter": self.entries,
            "lastConfirmedEntry": f"7:{self.entries - 1}",
        }
        return {**inside, "compactedLedger": {**ledger, "offloaded": False}, "cursors": cursors}

    def _stats(self, name: str) -> dict[str, Any]:
        one = self.subscriptions.get(name, FakeSubscription())
        return {
            "msgBacklog": self.backlog.get(name, 0),
            "consumers": [{}] * one.consumers,
            "isReplicated": one.replicated,
            "subscriptionProperties": dict(one.properties),
        }


def subscription(
    parts: Sequence[FakeTopic], method: str, rest: list[str], query: Mapping[str, str], body: Any, *, partitioned: bool
) -> Answer:
    """Answer below ``.../subscription``; ``parts`` are the topic itself or its partitions. The name is decoded a second
    time."""
    name, what = unquote_plus(rest[0]), rest[1:]
    holding = [part for part in parts if name in part.subscriptions]
    match method, what:
        case "PUT", []:
            if len(holding) == len(parts):
                raise RefusalError(409, "Subscription already exists for topic")
            # Of a partitioned topic the flag is lost.
            flag = query.get("replicated") == "true" and not partitioned
            position = "earliest" if body["ledgerId"] == -1 else "latest"
            for part in parts:
                new = FakeSubscription(flag, dict(body.get("properties") or {}), position)
                part.subscriptions.setdefault(name, new)
            return NO_CONTENT
        case _ if not holding:
            raise RefusalError(404, f"Subscription {name} not found for topic")
        case "PUT", ["properties"]:
            for part in holding:
                part.subscriptions[name].properties = dict(body)
            return NO_CONTENT
        case "POST", ["replicatedSubscriptionStatus"]:
            for part in holding:
                part.subscriptions[name].replicated = body
            return NO_CONTENT
        case "DELETE", []:
            if any(part.subscriptions[name].consumers for part in holding) and query.get("force") != "true":
                raise RefusalError(412, "Subscription has active connected consumers")
            for part in holding:
                del part.subscriptions[name]
                part.backlog.pop(name, None)
            return NO_CONTENT
    return 404, None


def decoded_again(name: str) -> str:
    """A topic's name as it arrives where Pulsar decodes it a second time (java.net.URLDecoder)."""
    if re.search(r"%(?![0-9a-fA-F]{2})", name):
        raise RefusalError(500, "Request failed.")
    return unquote_plus(name)


@dataclass
class FakeSchemas:
    """Schemas of topics, by cluster."""

    schemas: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    """Versions by cluster and tenant/namespace/topic."""

    def schema(self, cluster: str, method: str, place: tuple[str, str, str], rest: list[str], body: Any) -> Answer:
        """Answer below ``/schemas``."""
        held = self.schemas.setdefault((cluster, "/".join(place)), [])
        match method, rest:
            case "GET", ["schema"]:
                if not held:
                    raise RefusalError(404, "Schema not found")
                return 200, dict(held[-1])
            case "GET", ["schemas"]:
                return 200, {"getSchemaResponses": [dict(each) for each in held]}
            case "POST", ["compatibility"]:
                problem = _problem(held, body)
                if problem is not None:
                    raise RefusalError(400, problem)  # on 4.0.8 it is 500, which the adapter takes for a refusal
                return 202, {"compatibility": True, "schemaCompatibilityStrategy": "FULL"}
            case "POST", ["schema"]:
                return 200, {"version": {"version": self._upload(held, body)}}
            case "DELETE", ["schema"]:
                held.clear()
                return 200, {"version": 1}
        return 404, None

    def _upload(self, held: list[dict[str, Any]], body: Mapping[str, Any]) -> int:
        for each in held:
            if (each["type"], each["data"]) == (body["type"], body["schema"]):
                return int(each["version"])
        problem = _problem(held, body)
        if problem is not None:
            raise RefusalError(409, problem)
        new = {"type": body["type"], "data": body["schema"], "properties": dict(body["properties"])}
        held.append({"version": len(held), **new})
        return len(held) - 1


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _parts(data: str, properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """Key and value of a schema of type KEY_VALUE, each like a schema of its own."""
    both = _object(data)
    return [
        {"type": properties.get(f"{part}.schema.type", "BYTES"), "schema": text, "data": text}
        for part in ("key", "value")
        for text in [json.dumps(both.get(part, ""))]
    ]


def _problem_of_parts(held: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> str | None:
    if held and held[-1]["type"] != "KEY_VALUE":
        return f"Incompatible schema: exists schema type {held[-1]['type']}, new schema type KEY_VALUE"
    known = _parts(held[-1]["data"], held[-1]["properties"]) if held else [None, None]
    both = zip(known, _parts(body["schema"], body["properties"]), strict=True)
    problems = (_problem([old] if old is not None else [], new) for old, new in both)
    return next((problem for problem in problems if problem is not None), None)


def _problem(held: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> str | None:
    """What Pulsar has against a schema; of the rules of Avro, that a new field needs a default."""
    if body["type"] == "KEY_VALUE":
        return _problem_of_parts(held, body)
    if body["type"] == "PROTOBUF_NATIVE" and not set(NATIVE) <= set(_object(body["schema"])):
        return "deserialize ProtobufNative Schema failed"
    if body["type"] in STRUCTS:
        try:
            fields = json.loads(body["schema"])["fields"]
        except (ValueError, KeyError, TypeError):
            return f"Invalid schema definition data for {body['type']} schema"
    if not held:
        return None
    if held[-1]["type"] != body["type"]:
        return f"Incompatible schema: exists schema type {held[-1]['type']}, new schema type {body['type']}"
    if body["type"] in STRUCTS:
        names = {each["name"] for each in json.loads(held[-1]["data"])["fields"]}
        if any(each["name"] not in names and "default" not in each for each in fields):
            return "Error during schema compatibility check with strategy FULL: Unable to read schema"
    return None
