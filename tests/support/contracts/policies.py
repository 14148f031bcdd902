"""Every row of the policy table on a Pulsar: encode, REST, read back, decode, and reset.

Run against the fakes and against a real Pulsar; a subclass provides the fixture ``place``. Parametrised over the table
itself: a row with fewer than two different test values fails the collection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.domain.logical.topic import GLOBAL_CLUSTERS
from pulsar_operator.domain.policies import POLICIES, TOPIC_POLICIES, Call, PolicyRow, Scope, too_old
from pulsar_operator.domain.policies.model import CLUSTER
from pulsar_operator.ports import (
    AdminEndpoint,
    ConflictError,
    NotFoundError,
    PulsarAdminPort,
    RefusedError,
    UnavailableError,
)
from tests.support.policies.classes import unknown_of_namespace
from tests.support.policies.values import values_of

OTHER = "policy-test-other"
"""A second cluster that exists in name only, for policies that list clusters."""
NOWHERE = {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:1"}
"""What Pulsar knows of it."""
PAUSE_SECONDS = 0.2


def rows() -> list[Any]:
    """One case for each row."""
    found = []
    for row in POLICIES:
        if len(values_of(row)) < 2 or values_of(row)[0] == values_of(row)[1]:
            raise AssertionError(f"policy row {row.scope}/{row.field} needs two different examples")
        found.append(pytest.param(row, id=f"{row.scope}-{row.field}"))
    return found


@dataclass
class Place:
    """A namespace and a topic of a test's own, in a tenant that others may share."""

    admin: PulsarAdminPort
    endpoint: AdminEndpoint
    cluster: str
    tenant: str
    namespace: str = "n"
    version: str = ""
    """Version of the Pulsar; empty = unknown."""

    @property
    def inside(self) -> tuple[str, ...]:
        """Path of the namespace."""
        return ("namespaces", self.tenant, self.namespace)

    @property
    def own(self) -> str:
        """Begins the names of what the test makes beside the namespace."""
        return f"{self.tenant}-{self.namespace}"

    async def call(self, call: Call) -> Any:
        """One call."""
        return await self.admin.call(
            self.endpoint, call.method, call.path, query=call.query, body=call.body, text=call.text
        )

    async def ask(self, method: str, *path: str, body: Any = None, **query: str) -> Any:
        """One call that no row makes."""
        return await self.admin.call(self.endpoint, method, path, query=query, body=body)

    async def removed(self, *path: str) -> None:
        """Delete and look until it is gone: Pulsar refuses, with various words, while what is inside is still going."""
        listing = path[:-1]
        name = {"namespaces": "/".join(path[1:]), "persistent": f"persistent://{'/'.join(path[1:])}"}.get(
            path[0], path[-1]
        )
        last: Exception | None = None
        # No eventually: between two tries there is an unload, and only what is said of the deletion is waited for.
        try:
            async with asyncio.timeout(180):
                while name in await self.ask("GET", *listing):
                    try:
                        await self.ask("DELETE", *path, **({"force": "true"} if path[0] == "persistent" else {}))
                        continue
                    except (NotFoundError, ConflictError, RefusedError, UnavailableError) as error:
                        last = error
                    if path[0] == "namespaces":
                        await self.unload(*path)
                    elif "fenced" in str(last):
                        await self.unload("namespaces", *path[1:3], always=True)
                    await asyncio.sleep(PAUSE_SECONDS)
        except TimeoutError:
            raise AssertionError(f"{'/'.join(path)} is not gone after 180 s: {last}") from last

    async def unload(self, *path: str, always: bool = False) -> None:
        """Unload every bundle of a namespace that Pulsar does not get deleted.

        ``always``: also where the namespace itself is not being deleted. The deletion of a topic can hang while its
        policies are deleted, and the topic then stays fenced (apache/pulsar#15451).
        """
        with contextlib.suppress(NotFoundError, RefusedError, UnavailableError):
            found = await self.ask("GET", *path)
            for lower, upper in itertools.pairwise(
                found["bundles"]["boundaries"] if always or found.get("deleted") else ()
            ):
                with contextlib.suppress(NotFoundError, RefusedError, UnavailableError):
                    await self.ask("PUT", *path, f"{lower}_{upper}", "unload")

    def topic(self, name: str) -> tuple[str, ...]:
        """Path of a topic of the namespace."""
        return ("persistent", self.tenant, self.namespace, name)

    async def furnish(self, row: PolicyRow) -> None:
        """Make what the examples of a row name."""
        words = str(values_of(row))
        for word, path in (
            ("{group}", ("resourcegroups", self.names["group"])),
            ("{other_group}", ("resourcegroups", self.names["other_group"])),
            ("{shadow}", self.topic("s1")),
            ("{other_shadow}", self.topic("s2")),
        ):
            if word in words:
                await self.ask("PUT", *path, body={"publishRateInMsgs": 1000000} if "group" in word else None)
        if row.field == GLOBAL_CLUSTERS:
            await self.spread([self.cluster, OTHER])

    async def spread(self, clusters: list[str]) -> None:
        """Let the namespace be replicated between these, and let it stay where it is."""
        await self.ask("POST", *self.inside, "allowedClusters", body=[self.cluster, OTHER])
        await self.ask("POST", *self.inside, "replication", body=clusters)

    def base(self, row: PolicyRow, topic: str = "x") -> tuple[str, ...]:
        """Path of the object a row belongs to."""
        return self.inside if row.scope is Scope.NAMESPACE else self.topic(topic)

    async def read(self, row: PolicyRow, topic: str = "x") -> Any:
        """The live value of a row."""
        base = self.base(row, topic)
        return row.read(await self.call(row.get_call(base) if row.own_get else Call("GET", base)), self.cluster)

    async def until(self, row: PolicyRow, wanted: Any, topic: str = "x") -> Any:
        """Read until the value is there: topic policies travel through a topic. Unset and never set are the same."""

        def there(found: Any) -> bool:
            return row.in_sync(wanted, found) if row.is_set(wanted) else not row.is_set(found) or found == wanted

        what = f"{row.field} of {topic} is {wanted!r}"
        return await eventually_async(lambda: self.read(row, topic), there, what=what, every=PAUSE_SECONDS)

    @property
    def names(self) -> dict[str, str]:
        """What the words in braces in examples stand for."""
        here = f"persistent://{self.tenant}/{self.namespace}"
        return {
            "cluster": self.cluster,
            "other": OTHER,
            "group": f"{self.own}-1",
            "other_group": f"{self.own}-2",
            "shadow": f"{here}/s1",
            "other_shadow": f"{here}/s2",
        }

    def real(self, value: Any) -> Any:
        """An example with its words in braces replaced."""
        if isinstance(value, list):
            return [self.real(each) for each in value]
        return value.format(**self.names) if type(value) is str else value


async def with_other(admin: PulsarAdminPort, endpoint: AdminEndpoint) -> None:
    """Let the Pulsar know cluster OTHER."""
    await _created(admin, endpoint, ("clusters", OTHER), NOWHERE)


async def with_tenant(admin: PulsarAdminPort, endpoint: AdminEndpoint, prefix: str) -> str:
    """Make a tenant that begins so, for places on a Pulsar that knows OTHER; its name."""
    tenant = f"{prefix}-{uuid.uuid4().hex[:10]}"
    body = {"adminRoles": [], "allowedClusters": [endpoint.cluster, OTHER]}
    await _created(admin, endpoint, ("tenants", tenant), body)
    return tenant


async def _created(
    admin: PulsarAdminPort, endpoint: AdminEndpoint, path: tuple[str, ...], body: dict[str, Any]
) -> None:
    """Create an object. The adapter sends a PUT again whose answer was lost, and Pulsar then says that the object
    exists: it is accepted if it has these contents."""
    try:
        await admin.call(endpoint, "PUT", path, body=body)
    except ConflictError:
        found = await admin.call(endpoint, "GET", path)
        if {field: found.get(field) for field in body} != body:
            raise


async def placed(admin: PulsarAdminPort, endpoint: AdminEndpoint, tenant: str, namespace: str) -> Place:
    """A place in a tenant: its namespace, which nobody has, and its topic."""
    place = Place(admin, endpoint, endpoint.cluster, tenant, namespace)
    place.version = str(await place.call(Call("GET", ("brokers", "version"), text=True)))
    await place.ask("PUT", *place.inside, body={"replication_clusters": [place.cluster]})
    await place.ask("PUT", *place.topic("x"))
    return place


class PolicyContract:
    """The contract."""

    @pytest.mark.parametrize("row", rows())
    async def test_values_survive_the_round_trip_and_the_reset(self, place: Place, row: PolicyRow) -> None:
        """Set each value over the other, read back equal, reset, read back as it was before."""
        await place.furnish(row)
        base = place.base(row)
        if too_old(row, place.version):
            with pytest.raises((NotFoundError, RefusedError)):
                await place.call(row.set_call(base, place.real(values_of(row)[0])))
            return
        before = await place.read(row)
        if row.refused_without is not None:
            with pytest.raises(RefusedError, match=row.refused_without):
                await place.call(row.set_call(base, place.real(values_of(row)[0])))
        else:
            for value in (*values_of(row), values_of(row)[0]):
                wanted = place.real(value)
                await place.call(row.set_call(base, wanted))
                found = await place.until(row, wanted)
                assert row.in_sync(wanted, found), f"{row.field}: wrote {wanted!r}, read {found!r}"
        remove = row.remove_call(base)
        if remove is not None:
            for _ in range(2):  # the second is a reset repeated after a crash
                await place.call(remove)
                found = await place.until(row, before)
                assert found == before or not (row.is_set(found) or row.is_set(before)), f"{row.field}: {found!r}"

    async def test_a_value_in_one_place_is_in_no_other(self, place: Place) -> None:
        """No row reads what another one wrote: neither another policy, nor the same one in the other scope."""
        for row in POLICIES:
            if row.refused_without is not None or not row.remove or too_old(row, place.version):
                continue
            await place.furnish(row)
            wanted = place.real(values_of(row)[0])
            others = [r for r in POLICIES if r is not row and r.scope is row.scope and r.refused_without is None]
            others = [r for r in others if not too_old(r, place.version)]
            before = {other.field: await place.read(other) for other in others if _near(row, other)}
            await place.call(row.set_call(place.base(row), wanted))
            assert row.in_sync(wanted, await place.until(row, wanted)), row.field
            after = {other.field: await place.read(other) for other in others if _near(row, other)}
            assert after == before, row.field
            remove = row.remove_call(place.base(row))
            assert remove is not None
            await place.call(remove)

    async def test_a_topic_s_value_is_no_other_topic_s(self, place: Place) -> None:
        """Not that of one its name would be when it were decoded once more, or less."""
        name, others = "x%41+y", ("xA y", "x%2541%2By")
        rows = [row for row in TOPIC_POLICIES if row.refused_without is None and row.remove]
        rows = [row for row in rows if not too_old(row, place.version) and "replicationClusters" not in row.field]
        for topic in (name, *others):
            await place.ask("PUT", *place.topic(topic))
        for row in rows:
            await place.furnish(row)

        async def set_in(topic: str, which: int) -> None:
            for row in rows:
                await place.call(row.set_call(place.base(row, topic), place.real(values_of(row)[which])))

        async def have(topic: str, which: int) -> None:
            for row in rows:
                wanted = place.real(values_of(row)[which])
                assert row.in_sync(wanted, await place.until(row, wanted, topic)), f"{row.field} of {topic}"

        for topic in others:
            await set_in(topic, 1)
        await set_in(name, 0)
        await have(name, 0)
        for topic in others:
            await have(topic, 1)
        for row in rows:
            remove = row.remove_call(place.base(row, name))
            assert remove is not None
            await place.call(remove)
        for row in rows:
            assert not row.is_set(await place.until(row, None, name)), row.field
        for topic in others:
            await have(topic, 1)

    async def test_what_pulsar_refuses_of_lists_of_clusters(self, place: Place) -> None:
        """What the operator tells with Pulsar's words, or never asks for."""
        namespace, topic, local = place.inside, place.topic("x"), {"isGlobal": "false"}
        for path, body, query, words in (
            (namespace, ["nobody"], {}, "nobody"),
            ((*namespace, "allowedClusters"), [OTHER], {}, "do not contain the replication cluster"),
            ((*topic, "replication"), [OTHER], local, "Can not remove local cluster"),
            ((*topic, "replication"), [place.cluster, "nobody"], local, "Invalid cluster id: nobody"),
            ((*topic, "replication"), [place.cluster], {"isGlobal": "true"}, "replication is not enabled"),
        ):
            target = (*path, "replication") if path == namespace else path
            with pytest.raises(RefusedError, match=words):
                await place.ask("POST", *target, body=body, **query)
        await place.ask("POST", *namespace, "allowedClusters", body=[place.cluster])
        with pytest.raises(RefusedError, match="is not in the list of allowed clusters"):
            await place.ask("POST", *namespace, "replication", body=[place.cluster, OTHER])

    @pytest.mark.parametrize("allowed", [True, False])
    async def test_a_global_list_without_the_cluster_deletes_the_topic_there(
        self, place: Place, *, allowed: bool
    ) -> None:
        """Unless the namespace's allowed_clusters name the cluster; see domain/logical/topic.py."""
        namespace = f"{place.namespace}-m"
        base, topics = ("namespaces", place.tenant, namespace), ("persistent", place.tenant, namespace)
        await place.ask("PUT", *base, body={"replication_clusters": [place.cluster, OTHER]})
        if allowed:
            await place.ask("POST", *base, "allowedClusters", body=[place.cluster, OTHER])
        await place.ask("PUT", *topics, "y")
        path = (*topics, "y", "replication")
        await place.ask("POST", *path, body=[OTHER], isGlobal="true")

        async def look() -> tuple[Any, Any]:
            left = await place.ask("GET", *topics)
            return left, await place.ask("GET", *path, isGlobal="true") if allowed else [OTHER]

        wanted = [f"persistent://{place.tenant}/{namespace}/y"] if allowed else [], [OTHER]
        await eventually_async(look, lambda found: found == wanted, what=f"{wanted}", every=PAUSE_SECONDS)

    async def test_every_key_of_a_namespace_is_read_or_known_to_be_left_alone(self, place: Place) -> None:
        """A policy that a newer Pulsar adds fails here by its name."""
        live = await place.call(Call("GET", place.inside))
        assert unknown_of_namespace(live) == set()

    async def test_rates_are_kept_by_cluster(self, place: Place) -> None:
        """The reason why such rows are written in each cluster."""
        kept = [row for row in POLICIES if CLUSTER in row.live]
        assert kept
        for row in kept:
            await place.call(row.set_call(place.base(row), values_of(row)[0]))
            live = await place.call(Call("GET", place.base(row)))
            assert list(live[row.live[0]]) == [place.cluster], row.field
            assert row.per_cluster


def _near(row: PolicyRow, other: PolicyRow) -> bool:
    """Rows that could be mistaken for each other: parts of one group, or one field in two scopes."""
    return row.path.split(".")[:2] == other.path.split(".")[:2] or row.endpoint == other.endpoint


__all__ = ["OTHER", "Place", "PolicyContract", "placed", "with_other", "with_tenant"]
