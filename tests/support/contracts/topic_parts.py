"""Subscriptions and schemas on a Pulsar: the calls the plans make, with hostile names, with and without partitions.

Run against the fakes and against a real Pulsar; a subclass provides the fixture ``place``, see policies.py.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.api.v1alpha1.policies import DispatchRate
from pulsar_operator.api.v1alpha1.topic_parts import (
    InitialPosition,
    KeyValueEncoding,
    SchemaPart,
    SchemaType,
    Subscription,
    TopicSchema,
)
from pulsar_operator.controllers.logical.compactions import RUNNING
from pulsar_operator.domain.logical.schema import (
    ENCODING,
    LiveSchema,
    body_of,
    declaration_of,
    is_same,
    schema_path,
    version_among,
)
from pulsar_operator.domain.logical.subscriptions import (
    LiveSubscription,
    create_call,
    parse,
    partitions_without_stats,
    rate_call,
    subscription_path,
)
from pulsar_operator.domain.policies import Call
from pulsar_operator.domain.policies.codecs import DISPATCH_RATE
from pulsar_operator.ports import ConflictError, NotFoundError, RefusedError, UnavailableError
from tests.support.contracts.policies import PAUSE_SECONDS, Place
from tests.support.policies.values import HOSTILE

A = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
A_SPACED = '{"name": "R", "type": "record", "fields": [ {"name": "a", "type": "string"} ]}'
A_AND_B = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int","default":0}]}'
NO_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int"}]}'
NO_DEFAULT_C = A_AND_B.replace("}]}", '},{"name":"c","type":"int"}]}')
# FileDescriptorSet of: syntax = "proto3"; message R { string a = 1; }
NATIVE = json.dumps(
    {
        "fileDescriptorSet": "CiQKB3IucHJvdG8iEQoBUhIMCgFhGAEgASgJUgFhYgZwcm90bzM=",
        "rootMessageTypeName": "R",
        "rootFileDescriptorName": "r.proto",
    }
)


def key_value(definition: str, encoding: KeyValueEncoding) -> TopicSchema:
    """Text keys and values of a definition."""
    value = SchemaPart(type=SchemaType.AVRO, definition=definition)
    return TopicSchema(
        type=SchemaType.KEY_VALUE, key=SchemaPart(type=SchemaType.STRING), value=value, encoding=encoding
    )


_BOTH = key_value(A, KeyValueEncoding.SEPARATED)
DEFINITIONS: dict[SchemaType, dict[str, Any]] = {
    SchemaType.AVRO: {"definition": A},
    SchemaType.JSON: {"definition": A},
    SchemaType.PROTOBUF: {"definition": A},
    SchemaType.PROTOBUF_NATIVE: {"definition": NATIVE},
    SchemaType.KEY_VALUE: {"key": _BOTH.key, "value": _BOTH.value, "encoding": _BOTH.encoding},
}
"""What the types have beside their name."""
NAMES = ("plain", "%41", *HOSTILE)
KINDS = ("plain", "partitioned")


async def equals(read: Callable[[], Awaitable[Any]], wanted: Any, what: str) -> None:
    """Read until it is so."""
    await eventually_async(read, lambda found: found == wanted, what=f"{what}: {wanted!r}", every=PAUSE_SECONDS)


def parts_of(path: tuple[str, ...], kind: str) -> list[tuple[str, ...]]:
    """Path of the topic, or of each of its two partitions."""
    return [path] if kind == "plain" else [(*path[:-1], f"{path[-1]}-partition-{i}") for i in range(2)]


class TopicPartsContract:
    """The contract."""

    async def topic(self, place: Place, kind: str) -> tuple[str, ...]:
        """Path of a topic of the kind."""
        if kind == "partitioned":
            await place.ask("PUT", *place.topic("p"), "partitions", body=2)
            return place.topic("p")
        return place.topic("x")

    async def read(self, place: Place, topic: tuple[str, ...], kind: str) -> dict[str, LiveSubscription]:
        """Live subscriptions, as the controller reads them."""
        query = {"getPreciseBacklog": "true", **({"perPartition": "true"} if kind == "partitioned" else {})}
        last = "partitioned-stats" if kind == "partitioned" else "stats"
        stats = await place.call(Call("GET", (*topic, last), query))
        assert partitions_without_stats(stats) == ([] if kind == "partitioned" else None)
        return parse(stats, partitioned=kind == "partitioned")

    @pytest.mark.parametrize("kind", KINDS)
    async def test_subscriptions_are_carried_exactly(self, place: Place, kind: str) -> None:
        """Made, told again, each flag and property set on the one that is meant, each deleted alone."""
        topic = await self.topic(place, kind)
        for name in NAMES:
            wanted = Subscription(name=name, properties={"of": name}, initial_position=InitialPosition.EARLIEST)
            await place.call(create_call(topic, wanted))
            with pytest.raises(ConflictError):
                await place.call(create_call(topic, wanted))
        held = await self.read(place, topic, kind)
        assert {name: one.properties for name, one in held.items()} == {name: {"of": name} for name in NAMES}
        assert {one.replicated for one in held.values()} == {False}
        for name in NAMES:
            await place.call(Call("POST", subscription_path(topic, name, "replicatedSubscriptionStatus"), body=True))
            properties = {"now": name}
            await place.call(Call("PUT", subscription_path(topic, name, "properties"), body=properties))
            one = (await self.read(place, topic, kind))[name]
            assert (one.replicated, one.properties, one.missing) == (True, properties, 0), name
        left = set(NAMES)
        for name in NAMES:
            await place.call(Call("DELETE", subscription_path(topic, name)))
            left.remove(name)
            assert set(await self.read(place, topic, kind)) == left, name
            with pytest.raises(NotFoundError):
                await place.call(Call("DELETE", subscription_path(topic, name)))

    async def test_the_replicated_flag_of_a_new_subscription(self, place: Place) -> None:
        """With partitions it is lost at creation, so it is set afterwards."""
        for kind in KINDS:
            topic = await self.topic(place, kind)
            await place.call(create_call(topic, Subscription(name="s", replicated=True)))
            held = await self.read(place, topic, kind)
            assert held["s"].replicated is (kind == "plain"), kind

    async def test_a_partition_without_the_subscription_is_noticed_and_filled(self, place: Place) -> None:
        """New partitions get it from Pulsar, one that lost it does not."""
        topic = await self.topic(place, "partitioned")
        wanted = Subscription(name="a/b")
        await place.call(create_call(topic, wanted))
        await place.ask("POST", *topic, "partitions", body=3)
        assert (await self.read(place, topic, "partitioned"))["a/b"].missing == 0
        await place.call(Call("DELETE", subscription_path(place.topic("p-partition-1"), "a/b")))
        assert (await self.read(place, topic, "partitioned"))["a/b"].missing == 1
        await place.call(create_call(topic, wanted))
        assert (await self.read(place, topic, "partitioned"))["a/b"].missing == 0

    @pytest.mark.parametrize("kind", KINDS)
    async def test_dispatch_rates_are_kept_by_name(self, place: Place, kind: str) -> None:
        """Also for a subscription that does not exist; unset twice does no harm."""
        topic = await self.topic(place, kind)
        names = ("plain", *HOSTILE)

        async def read() -> dict[str, Any]:
            answers = {name: await place.call(rate_call(topic, "GET", name)) for name in names}
            return {name: DISPATCH_RATE.decode(each) for name, each in answers.items() if each is not None}

        rates = {name: DispatchRate(messages_per_period=10 + n) for n, name in enumerate(names)}
        for name, rate in rates.items():
            await place.call(rate_call(topic, "POST", name, rate))
        await equals(read, rates, "dispatch rates")
        for name in names:
            await place.call(rate_call(topic, "DELETE", name))
            await place.call(rate_call(topic, "DELETE", name))
        await equals(read, {}, "dispatch rates")

    # -------------------------------------------------------------------------------------------------- schemas

    def schema(self, place: Place, *rest: str) -> tuple[str, ...]:
        """Path of the schemas of topic x."""
        return schema_path(place.tenant, place.namespace, "x", *rest)

    async def newest(self, place: Place) -> LiveSchema:
        """The newest schema of topic x."""
        return LiveSchema.parse(await place.call(Call("GET", self.schema(place, "schema"))))

    @pytest.mark.parametrize("kind", SchemaType)
    async def test_schemas_survive_the_round_trip(self, place: Place, kind: SchemaType) -> None:
        """Each type is found compatible, uploaded, and read back the same."""
        wanted = TopicSchema(type=kind, properties={"team": "shop"}, **DEFINITIONS.get(kind, {}))
        with pytest.raises(NotFoundError):
            await self.newest(place)
        answer = await place.call(Call("POST", self.schema(place, "compatibility"), body=body_of(wanted)))
        assert answer["compatibility"] is True
        await place.call(Call("POST", self.schema(place, "schema"), body=body_of(wanted)))
        live = await self.newest(place)
        assert is_same(wanted, live)
        assert (live.version, live.properties) == (0, body_of(wanted)["properties"])
        other = TopicSchema(type=SchemaType.INT8 if kind is not SchemaType.INT8 else SchemaType.STRING)
        assert not is_same(other, live)

    async def test_versions(self, place: Place) -> None:
        """A compatible change is a new version; the old one uploaded again changes nothing."""
        old = TopicSchema(type=SchemaType.AVRO, definition=A)
        new = TopicSchema(type=SchemaType.AVRO, definition=A_AND_B)
        for each in (old, new, old):
            await place.call(Call("POST", self.schema(place, "schema"), body=body_of(each)))
        live = await self.newest(place)
        assert live.version == 1
        assert is_same(new, live)
        versions = await place.call(Call("GET", self.schema(place, "schemas")))
        assert version_among(old, versions) == 0
        assert version_among(TopicSchema(type=SchemaType.AVRO, definition=A_SPACED), versions) == 0
        assert version_among(TopicSchema(type=SchemaType.AVRO, definition=NO_DEFAULT), versions) is None

    async def test_keys_and_values_have_versions_and_their_types_have_none(self, place: Place) -> None:
        """A new definition of the value is a new version; another encoding is taken for the version that is there."""
        path = self.schema(place, "schema")
        first = key_value(A, KeyValueEncoding.SEPARATED)
        for wanted, version in (
            (first, 0),
            (key_value(A, KeyValueEncoding.INLINE), 0),
            (key_value(A_AND_B, KeyValueEncoding.SEPARATED), 1),
        ):
            await place.call(Call("POST", path, body=body_of(wanted)))
            live = await self.newest(place)
            assert (live.version, live.properties[ENCODING]) == (version, "SEPARATED")
            assert is_same(wanted, live)
        declared = declaration_of(live)
        assert declared is not None
        assert is_same(TopicSchema.model_validate(declared[0]), live) and declared[1] == {}
        with pytest.raises(RefusedError, match="Unable to read schema"):
            refused = body_of(key_value(NO_DEFAULT_C, KeyValueEncoding.SEPARATED))
            await place.call(Call("POST", self.schema(place, "compatibility"), body=refused))

    async def test_properties_make_no_version(self, place: Place) -> None:
        """Those of the first upload stay."""
        for properties in ({"a": "1"}, {"a": "2"}):
            wanted = TopicSchema(type=SchemaType.AVRO, definition=A, properties=properties)
            await place.call(Call("POST", self.schema(place, "schema"), body=body_of(wanted)))
        live = await self.newest(place)
        assert (live.version, live.properties) == (0, {"a": "1"})

    @pytest.mark.parametrize(
        ("wanted", "words"),
        [
            (TopicSchema(type=SchemaType.AVRO, definition=NO_DEFAULT), "Unable to read schema"),
            (TopicSchema(type=SchemaType.STRING), "exists schema type AVRO"),
            (TopicSchema(type=SchemaType.AVRO, definition="no json"), "Invalid schema definition"),
            (TopicSchema(type=SchemaType.PROTOBUF_NATIVE, definition="{}"), "ProtobufNative"),
        ],
        ids=["incompatible", "other-type", "invalid", "not-native"],
    )
    async def test_what_pulsar_refuses_is_refused_by_the_check(
        self, place: Place, wanted: TopicSchema, words: str
    ) -> None:
        """In Pulsar's words, and nothing is uploaded."""
        first = TopicSchema(type=SchemaType.AVRO, definition=A)
        await place.call(Call("POST", self.schema(place, "schema"), body=body_of(first)))
        with pytest.raises(RefusedError, match=words):
            await place.call(Call("POST", self.schema(place, "compatibility"), body=body_of(wanted)))
        with pytest.raises((RefusedError, ConflictError), match=words):
            await place.call(Call("POST", self.schema(place, "schema"), body=body_of(wanted)))
        assert is_same(first, await self.newest(place))

    @pytest.mark.parametrize("name", ["50%", "a%41", "a%2Fb", "a%252Fb", "a+b", "a b", "\u00e9"])
    async def test_the_schema_of_a_topic_is_no_other_topic_s(self, place: Place, name: str) -> None:
        """Whatever a name would be when it were decoded once more, or less."""
        others = {unquote(name, errors="replace"), unquote_plus(name, errors="replace"), quote(name, safe="")} - {name}
        others = {other for other in others if "/" not in other}
        for each in (name, *others):
            await place.ask("PUT", *place.topic(each))
        wanted = TopicSchema(type=SchemaType.STRING)
        body = body_of(wanted)
        path = schema_path(place.tenant, place.namespace, name)
        answer = await place.call(Call("POST", (*path, "compatibility"), body=body))
        assert answer["compatibility"] is True
        await place.call(Call("POST", (*path, "schema"), body=body))
        live = LiveSchema.parse(await place.call(Call("GET", (*path, "schema"))))
        assert is_same(wanted, live)
        for other in others:
            with pytest.raises(NotFoundError):
                await place.call(Call("GET", schema_path(place.tenant, place.namespace, other, "schema")))

    # --------------------------------------------------------------------------------------------------- compaction

    @pytest.mark.parametrize("kind", KINDS)
    async def test_compaction_is_triggered(self, place: Place, kind: str) -> None:
        """Of a topic, or of all partitions; again while it may still be under way."""
        path = await self.topic(place, kind)
        await place.ask("PUT", *path, "compaction")
        try:
            await place.ask("PUT", *path, "compaction")
        except (ConflictError, UnavailableError) as error:
            assert RUNNING in str(error)
        for part in parts_of(path, kind):

            async def last(part: tuple[str, ...] = part) -> Any:
                return (await place.ask("GET", *part, "compaction"))["status"]

            await equals(last, "SUCCESS", "compaction")

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_topic_loaded_anew_has_forgotten_its_last_compaction(self, place: Place, kind: str) -> None:
        """Which it is told by topic or partition; see controllers/logical/topic_deletion.py."""
        path = await self.topic(place, kind)
        for part in parts_of(path, kind):

            async def last(part: tuple[str, ...] = part) -> Any:
                return (await place.ask("GET", *part, "compaction"))["status"]

            assert await last() == "NOT_RUN"
            await place.ask("PUT", *part, "compaction")
            await equals(last, "SUCCESS", "compaction")
            await place.ask("PUT", *part, "unload")
            assert await last() == "NOT_RUN"

    async def test_compaction_of_no_topic(self, place: Place) -> None:
        """What the controller takes for a cluster without the topic."""
        with pytest.raises(NotFoundError):
            await place.ask("PUT", *place.topic("nobody"), "compaction")


__all__ = ["TopicPartsContract"]
