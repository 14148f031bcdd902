"""What checks leave is removed, also where Pulsar does not get a namespace deleted by itself."""

from __future__ import annotations

import asyncio

from pulsar_conformance.admin import Admin
from pulsar_conformance.cleaning import remove_namespaces, remove_topics
from pulsar_conformance.tamper import Tamper
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.fakes.pulsar_parts import FakeTopic


def pulsar() -> FakePulsar:
    found = FakePulsar()
    found.handle("a", "PUT", ("tenants", "t"), {}, {"adminRoles": [], "allowedClusters": ["a"]})
    for name in ("n", "m"):
        found.handle("a", "PUT", ("namespaces", "t", name), {}, None)
        found.topics.setdefault("a", {})[f"persistent://t/{name}/a b"] = FakeTopic(producers=1)
    found.handle("a", "PUT", ("persistent", "t", "n", "p", "partitions"), {}, 2)
    return found


async def test_topics_go_first_and_namespaces_later() -> None:
    found = pulsar()
    async with serve(found) as (url, _):
        admin = Admin(url, Tamper())
        assert await asyncio.to_thread(remove_topics, admin, ["t/n"]) == []
        assert sorted(found.topics["a"]) == ["persistent://t/m/a b"]
        assert set(found.namespaces) == {"t/n", "t/m"}
        found.stuck["t/n"] = (422, "HTTP 422 {}")
        assert await asyncio.to_thread(remove_namespaces, admin, ["t/n", "t/gone", "t/m"]) == []
    assert not found.namespaces and not found.topics["a"]


async def test_a_namespace_of_several_clusters_goes_with_what_the_others_have_of_it() -> None:
    found = FakePulsar(clusters=["a", "b"])
    both = ["a", "b"]
    found.handle("a", "PUT", ("tenants", "t"), {}, {"adminRoles": [], "allowedClusters": both})
    found.handle("a", "PUT", ("namespaces", "t", "n"), {}, {"replication_clusters": both})
    for name in both:
        found.topics.setdefault(name, {})["persistent://t/n/x"] = FakeTopic()
    async with serve(found) as (url, _), serve(found, "b") as (other, _):
        admins = (Admin(url, Tamper()), Admin(other, Tamper()))
        assert await asyncio.to_thread(remove_namespaces, admins[0], ["t/gone", "t/n"], "a", admins[1]) == []
    assert not found.namespaces and not any(found.topics.values())
