"""Hostile text in every place of the logical kinds on a real Pulsar; see tests/support/hostile/places.py.

By the operator's controllers. A sample of the values for each place, by a fixed seed; all of
them by ``make hostile``. Beside what HostileBench compares, nothing of a tenant of others may change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import AdminEndpoint
from tests.support.cluster.end_state import differences
from tests.support.faults.summary import SEED, rng, seed
from tests.support.hostile.bench import BYSTANDER, HostileBench
from tests.support.hostile.places import PLACES, VALUES, Place
from tests.support.standalone.site import asked

TRIED = tuple(place for place in PLACES if place.goes_to_pulsar and any(map(place.form.takes, VALUES)))
INSIDE = (Kind.NAMESPACE, Kind.TOPIC, Kind.TOPIC_SET)
NAMES = tuple(place for place in TRIED if place.names_it and place.kind not in INSIDE)
SAMPLED = 2
"""Values of each place in the sample."""
AT_ONCE = 4
"""Places side by side: most of the time is waiting."""
Problems = Mapping[str, Sequence[str]]


def all_values(place: Place) -> list[str]:
    """Labels of everything the API server admits there."""
    return [label for label in VALUES if place.form.takes(label)]


def sample() -> dict[str, list[str]]:
    """Some labels for each place, by the seed; those come first that fewer places had so far, so that all are used."""
    random, used, found = rng("hostile text"), Counter[str](), {}
    for place in TRIED:
        labels = all_values(place)
        random.shuffle(labels)
        found[place.id] = sorted(labels, key=lambda label: used[label])[:SAMPLED]
        used.update(found[place.id])
    return found


class Bystander:
    """A tenant of others, and all it has."""

    def __init__(self, admin: AiohttpAdmin, endpoint: AdminEndpoint) -> None:
        self._admin, self._endpoint = admin, endpoint

    async def ask(self, method: str, *path: str, body: Any = None) -> Any:
        """One plain call."""
        return await self._admin.call(self._endpoint, method, path, body=body)

    async def make(self) -> None:
        """Its tenant, namespace, topics, policies and group; hostile text says its name."""
        cluster, namespace = self._endpoint.cluster, ("namespaces", BYSTANDER, BYSTANDER)
        await self.ask("PUT", "tenants", BYSTANDER, body={"adminRoles": ["a"], "allowedClusters": [cluster]})
        await self.ask("PUT", *namespace, body={"replication_clusters": [cluster]})
        await self.ask("PUT", *namespace, "properties", body={"a": "1"})
        await self.ask("POST", *namespace, "permissions", "a", body=["produce"])
        await self.ask("POST", *namespace, "maxProducersPerTopic", body=7)
        await self.ask("PUT", "resourcegroups", BYSTANDER, body={"publishRateInMsgs": 7})
        for topic in ("a", "b"):
            full = ("persistent", BYSTANDER, BYSTANDER, topic)
            await self.ask("PUT", *full)
            await self.ask("PUT", *full, "properties", body={"a": "1"})
            await self.ask("PUT", *full, "subscription", "a")
            await self.ask("POST", *full, "permissions", "a", body=["produce"])
            await self.ask("POST", *full, "maxProducers", body=7)

    async def look(self) -> dict[str, Any]:
        """What Pulsar shows of it."""
        found = {
            "tenant": await self.ask("GET", "tenants", BYSTANDER),
            "namespaces": await self.ask("GET", "namespaces", BYSTANDER),
            "namespace": await self.ask("GET", "namespaces", BYSTANDER, BYSTANDER),
            "topics": await self.ask("GET", "persistent", BYSTANDER, BYSTANDER),
            "group": await self.ask("GET", "resourcegroups", BYSTANDER),
        }
        for topic in ("a", "b"):
            full = ("persistent", BYSTANDER, BYSTANDER, topic)
            for each in ("properties", "subscriptions", "permissions", "maxProducers", "retention", "partitions"):
                found[f"{topic}/{each}"] = await self.ask("GET", *full, each)
        return found


async def carried(admin: AiohttpAdmin, endpoint: AdminEndpoint, chosen: Mapping[str, Sequence[str]]) -> Problems:
    """Every place with its labels, and what is wrong by the place."""
    turns = asyncio.Semaphore(AT_ONCE)
    bench, bystander = HostileBench(admin, endpoint.cluster, endpoint.url), Bystander(admin, endpoint)
    before = await bystander.look()

    async def one(place: Place) -> list[str]:
        async with turns:
            try:
                problems = await bench.carry(place, chosen[place.id])
            except Exception as error:  # one place must not hide what came out of the others
                problems = [f"{type(error).__name__}: {error}"]
            return problems + [f"the bystander: {each}" for each in differences(before, await bystander.look())]

    # Others see a tenant of that name come and go, and do not know whose it is.
    outcomes = {place.id: await one(place) for place in NAMES}
    beside = [place for place in TRIED if place not in NAMES]
    return outcomes | dict(zip([place.id for place in beside], await asyncio.gather(*map(one, beside)), strict=True))


@pytest.fixture(scope="module")
def with_bystander(endpoint: AdminEndpoint) -> AdminEndpoint:
    """The shared Pulsar, where the bystander is."""
    asked(lambda admin: Bystander(admin, endpoint).make())
    return endpoint


@pytest.fixture(scope="module")
def of_sample(with_bystander: AdminEndpoint) -> Problems:
    """What came out of the sample."""
    return asked(lambda admin: carried(admin, with_bystander, sample()))


@pytest.fixture(scope="module")
def of_all(with_bystander: AdminEndpoint) -> Problems:
    """What came out of every value."""
    return asked(lambda admin: carried(admin, with_bystander, {place.id: all_values(place) for place in TRIED}))


def test_the_sample_has_every_value() -> None:
    assert {label for labels in sample().values() for label in labels} == {
        label for place in TRIED for label in all_values(place)
    }


@pytest.mark.parametrize("place", TRIED, ids=lambda place: place.id)
def test_sample(of_sample: Problems, place: Place) -> None:
    """Carried exactly, or refused with a message, and nothing else changes."""
    assert of_sample[place.id] == [], f"{SEED}={seed()}"


@pytest.mark.slow
@pytest.mark.parametrize("place", TRIED, ids=lambda place: place.id)
def test_all(of_all: Problems, place: Place) -> None:
    """The same."""
    assert of_all[place.id] == []
