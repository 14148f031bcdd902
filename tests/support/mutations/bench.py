"""Making a mutation on a Pulsar and taking it back, by the operator's controllers, and all that Pulsar shows before,
after, and of an object that began where the mutation led. Over the in-memory Pulsar and over a real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import ConditionType, Kind
from pulsar_operator.api.v1alpha1.topic import PARTITION_SUFFIX
from pulsar_operator.domain.logical.pulsar_names import failure_domain_path, isolation_path, resource_group_path
from pulsar_operator.domain.logical.schema import schema_path
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, TOPIC_POLICIES, Call, too_old
from pulsar_operator.ports import AdminEndpoint, NotFoundError, PulsarAdminPort, UnavailableError
from tests.support.cluster.end_state import differences
from tests.support.contracts.policies import OTHER, Place
from tests.support.logical.world import LogicalWorld
from tests.support.mutations.chains import PNS, PT, PTN, PTS, VERSION, Json, Mutation
from tests.support.mutations.changes import filled

PASSES = 150
PAUSE_SECONDS = 0.1
QUIET = 3
"""Passes without a write after which an object that cannot be Ready counts as done."""
SELF = "SELF"
NOTHING: tuple[Any, ...] = (None, {}, [])
REFUSED = {"RejectedByPulsar", "NotSupported"}
COMPLETE = ("Ready", "NoBrokerMatches")
"""Reasons of condition Ready when everything is in Pulsar; the brokers of isolation policies here are made up."""

COMPACTION = "__compaction"
"""Pulsar makes this subscription when a topic gets a compaction threshold, and keeps it (class Compactor)."""
AS_UNSET: dict[str, Any] = {
    "dispatcherPauseOnAckStatePersistentEnabled": False,
    "dispatcherPauseOnAckStatePersistent": False,
}
"""Values Pulsar does not tell from none, and has no call to take away."""


@dataclass
class Bench:
    """One Pulsar. Every mutation has objects and an operator of its own."""

    admin: PulsarAdminPort
    cluster: str
    url: str
    own: str = field(default_factory=lambda: f"mut-{uuid.uuid4().hex[:8]}")
    """Begins every name."""
    pause: float = PAUSE_SECONDS
    quiet: int = QUIET
    """Passes without a write after which an object that cannot be Ready counts as done, for the moment."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def attempt(self, mutation: Mutation) -> AsyncIterator[Attempt]:
        """What one mutation needs, removed from Pulsar at the end."""
        world = LogicalWorld(self.cluster, OTHER, admin=self.admin, urls=dict.fromkeys((self.cluster, OTHER), self.url))
        found = Attempt(self, mutation, world, f"{self.own}-{next(self._numbers)}")
        try:
            await found.furnish()
            yield found
        finally:
            await found.clean()

    async def check(self, mutation: Mutation) -> list[str]:
        """Make it and take it back; what differs that should not, in words."""
        async with self.attempt(mutation) as attempt:
            return await attempt.run()


@dataclass
class Attempt:
    """One mutation."""

    bench: Bench
    mutation: Mutation
    world: LogicalWorld
    own: str
    """Begins the names of this attempt."""

    def __post_init__(self) -> None:
        bench = self.bench
        self.place = Place(bench.admin, AdminEndpoint(bench.cluster, bench.url), bench.cluster, self.own)

    # ------------------------------------------------------------------------------------------------- the steps

    async def run(self) -> list[str]:
        """The whole; see Mutation for what is expected."""
        m, (mine, fresh) = self.mutation, (f"{self.own}-m", f"{self.own}-f")
        problems: list[str] = []
        await self.declare(mine, m.before)
        zero = await self.shown(mine)
        await self.declare(mine, m.after, refused=m.refused)
        still = m.without_effect or m.refused
        if still:
            problems += await self.equal("S1 against S0", lambda: self.shown(mine), zero)
        one = await self.shown(mine)
        if not still and one == zero:
            problems.append(f"S1 changes nothing that Pulsar shows: {json.dumps(one)[:300]}")
        if m.unlike_fresh is None:
            await self.declare(fresh, m.after, refused=m.refused)
            problems += await self.equal("S1 against an object that began with it", lambda: self.shown(fresh), one)
        if m.no_way_back is None:
            await self.declare(mine, m.before, ready=m.stays is None)
            if m.stays is None:
                problems += await self.equal("S0 after S1", lambda: self.shown(mine), zero)
            elif await self.shown(mine) == zero:
                problems.append(f"S0 comes back although it is written that not: {m.stays}")
        return problems

    async def equal(self, what: str, look: Callable[[], Awaitable[Json]], wanted: Json) -> list[str]:
        """Differences that do not go away: what is written to a topic is seen a moment later.

        No eventually, since all that a mutation leaves is collected.
        """
        found: list[str] = []
        for _ in range(PASSES if self.bench.pause else 1):
            found = differences(wanted, await look())
            if not found:
                break
            await asyncio.sleep(self.bench.pause)
        return [f"{what}: {each}" for each in found]

    # ------------------------------------------------------------------------------------------- declare, settle

    @property
    def names(self) -> dict[str, str]:
        """What the words in braces stand for."""
        here = f"persistent://{self.own}/n"
        return {
            "cluster": self.bench.cluster,
            "other": OTHER,
            "group": f"{self.own}-1",
            "other_group": f"{self.own}-2",
            "shadow": f"{here}/s1",
            "other_shadow": f"{here}/s2",
        }

    async def furnish(self) -> None:
        """Make what the specifications name, and the parents of the object."""
        words = json.dumps([self.mutation.before, self.mutation.after])
        for word, group in (("{group}", "1"), ("{other_group}", "2")):
            if word in words:
                await self.place.ask("PUT", "resourcegroups", f"{self.own}-{group}", body={"publishRateInMsgs": 1000})
        if self.mutation.kind in (PNS, PT, PTS):
            self.world.tenant(self.own, allowedClusters=[self.bench.cluster, OTHER])
            await self.settle(PTN, self.own)
        if self.mutation.kind in (PT, PTS):
            self.world.namespace("n", tenant=self.own, replicationClusters=[self.bench.cluster])
            await self.settle(PNS, "n")
        for word, topic in (("{shadow}", "s1"), ("{other_shadow}", "s2")):
            if word in words:
                await self.place.ask("PUT", *self.place.topic(topic))
        if "patterns" in self.mutation.before:
            for topic in (f"{self.own}-{who}-{end}" for who in "mf" for end in "xy"):
                await self.place.ask("PUT", *self.place.topic(topic))

    async def declare(
        self, name: str, spec: Json, *, refused: str | None = None, ready: bool = True, quiet: int = QUIET
    ) -> None:
        """Apply the object with this specification, and run the operator until it has done what it can."""
        kind, spec = self.mutation.kind, filled(spec, {**self.names, "own": name})
        match kind:
            case Kind.TENANT:
                self.world.tenant(name, **spec)
            case Kind.NAMESPACE:
                self.world.namespace(name, tenant=self.own, **spec)
            case Kind.TOPIC:
                self.world.topic(name, namespace="n", **spec)
            case Kind.TOPIC_SET:
                self.world.topics(name, namespace="n", **spec)
            case Kind.RESOURCE_GROUP:
                self.world.group(name, **spec)
            case _:
                self.world.isolation(name, **spec)
        if self.inherits:
            await self.settle(kind, name)
            self.world.namespace(f"{name}-n", tenant=name, name="n", replicationClusters=[self.bench.cluster])
            kind, name = PNS, f"{name}-n"
        await self.settle(kind, name, refused=refused, ready=ready, quiet=quiet)

    @property
    def inherits(self) -> bool:
        """Whether a namespace of the tenant is looked at: it has what its tenant declares, and is refused it."""
        return self.mutation.kind is PTN and self.mutation.path.startswith("namespaceDefaults")

    async def settle(
        self, kind: Kind, name: str, *, refused: str | None = None, ready: bool = True, quiet: int = QUIET
    ) -> None:
        """Passes until the object is Ready, or refused with these words, or as done as it can be.

        No eventually, since what counts is passes in a row that write nothing.
        """
        idle, said = 0, ("", "", "")
        for _ in range(PASSES):
            before = len(self.world.kube.writes)
            await self.world.reconcile(kind, name)
            obj = self.world.get(kind, name) or {}
            newest = (obj.get("status") or {}).get("observedGeneration") == obj["metadata"]["generation"]
            said = self.world.condition(kind, name)
            if refused is not None:
                said = self.world.condition(kind, name, ConditionType.ACCEPTED.value)
                if said[1] in REFUSED and re.search(refused, said[2]):
                    return
            elif newest and said[1] in COMPLETE and (ready or idle == quiet):
                return
            idle = idle + 1 if len(self.world.kube.writes) == before else 0
            if not ready and idle >= quiet:
                return
            await asyncio.sleep(self.bench.pause)
        raise AssertionError(f"{self.mutation.id}: {kind} {name} is not settled: {said}")

    # ------------------------------------------------------------------------------------------------ what is shown

    async def shown(self, name: str) -> Json:
        """Everything Pulsar shows of the object, without what belongs to no object and with its own name as SELF."""
        match self.mutation.kind:
            case Kind.TENANT:
                found = await self._tenant(name)
            case Kind.NAMESPACE:
                found = await self._namespace(self.own, name)
            case Kind.TOPIC:
                found = await self.topic(name)
            case Kind.TOPIC_SET:
                found = {topic: await self.topic(topic) for topic in await self.topics_of(name)}
            case Kind.RESOURCE_GROUP:
                found = {"group": await self.find(*resource_group_path(name))}
            case _:
                found = await self._isolation(name)
        return dict(_steady(json.loads(json.dumps(found, sort_keys=True).replace(name, SELF))))

    async def find(self, *path: str, text: bool = False, **query: str) -> Any:
        """What is there; None where nothing is."""
        with contextlib.suppress(NotFoundError):
            return await self.place.call(Call("GET", path, query, text=text))
        return None

    async def _tenant(self, name: str) -> Json:
        inside = await self.find("namespaces", name) or []
        return {
            "tenant": await self.find("tenants", name),
            **{full: await self._namespace(*full.split("/")) for full in inside},
        }

    async def _namespace(self, tenant: str, name: str) -> Json:
        base = ("namespaces", tenant, name)
        own = {
            row.field: await self.find(*row.get_call(base).path, text=row.text)
            for row in NAMESPACE_POLICIES
            if row.own_get
        }
        return {"policies": await self.find(*base), "own": own}

    async def topics_of(self, name: str) -> list[str]:
        """Local names of the topics there are that a set declares, or that begin with its name."""
        spec = (self.world.get(PTS, name) or {}).get("spec", {})
        base = ("persistent", self.own, "n")
        full = [*(await self.find(*base) or []), *(await self.find(*base, "partitioned") or [])]
        found = {re.sub(PARTITION_SUFFIX, "", topic.split("/", 4)[4]) for topic in full}
        return sorted(topic for topic in found if topic.startswith(name) or topic in spec.get("names", ()))

    async def topic(self, name: str) -> Json:
        """Everything Pulsar shows of a topic of namespace n."""
        path = self.place.topic(name)
        calls = {f"{row.field}": row.get_call(path) for row in TOPIC_POLICIES if not too_old(row, VERSION)}
        answers = await asyncio.gather(*(self.find(*call.path, **call.query) for call in calls.values()))
        metadata = await self.find(*path, "partitions")
        namespace = await self.find("namespaces", self.own, "n")
        permissions = namespace["auth_policies"].pop("destination_auth").get(f"persistent://{'/'.join(path[1:])}")
        subscriptions = await self._subscriptions(path, partitioned=bool(metadata["partitions"]))
        rates = {each: await self.find(*path, each, "dispatchRate", isGlobal="false") for each in subscriptions}
        versions = (await self.find(*schema_path(self.own, "n", name, "schemas")) or {}).get("getSchemaResponses")
        return {
            "policies": dict(zip(calls, answers, strict=True)),
            "metadata": metadata,
            "namespace": namespace,
            "permissions": permissions,
            "properties": await self.find(*path, "properties"),
            "subscriptions": subscriptions,
            "rates": rates,
            "schemas": [{key: each.get(key) for key in ("type", "data", "properties")} for each in versions or ()],
        }

    async def _subscriptions(self, path: tuple[str, ...], *, partitioned: bool) -> Json:
        if not partitioned:
            return _told((await self.find(*path, "stats") or {}).get("subscriptions"))
        parts = (await self.find(*path, "partitioned-stats", perPartition="true") or {})["partitions"]
        return {part.rsplit("-", 1)[1]: _told(stats["subscriptions"]) for part, stats in parts.items()}

    async def _isolation(self, name: str) -> Json:
        clusters = (self.bench.cluster, OTHER) if self.mutation.in_memory else (self.bench.cluster,)
        out: Json = {}
        for cluster in clusters:
            domains = await self.find(*failure_domain_path(cluster)) or {}
            out[cluster] = {
                "policy": await self.find(*isolation_path(cluster, name)),
                "domains": {domain: of for domain, of in domains.items() if domain.startswith(name)},
            }
        return out

    # ------------------------------------------------------------------------------------------------------- clean

    async def clean(self) -> None:
        """Remove from Pulsar all that begins with this attempt's name."""
        ask = self.place.ask
        for cluster in (self.bench.cluster, OTHER):
            for policy in await self.find(*isolation_path(cluster, "")[:-1]) or {}:
                if policy.startswith(self.own):
                    await ask("DELETE", *isolation_path(cluster, policy))
            for domain in await self.find(*failure_domain_path(cluster)) or {}:
                if domain.startswith(self.own):
                    await ask("DELETE", *failure_domain_path(cluster, domain))
        for tenant in await ask("GET", "tenants"):
            if tenant == self.own or tenant.startswith(f"{self.own}-"):
                await self._clean_tenant(tenant)
        for group in await ask("GET", "resourcegroups"):
            if group.startswith(f"{self.own}-"):
                await self.place.removed("resourcegroups", group)

    async def _clean_tenant(self, tenant: str) -> None:
        ask = self.place.ask
        for full in await ask("GET", "namespaces", tenant):
            name = full.split("/")[1]
            base = ("persistent", tenant, name)
            for members in ("replication", "allowedClusters"):
                await ask("POST", "namespaces", tenant, name, members, body=[self.bench.cluster])
            for topic in await ask("GET", *base, "partitioned"):
                await self._clean_partitioned((*base, topic.split("/", 4)[4]))
            # A topic with shadow topics goes before them: its replicators hold them open.
            topics = [topic.split("/", 4)[4] for topic in await ask("GET", *base)]
            for topic in sorted(topics, key=lambda each: each in ("s1", "s2")):
                await self.place.removed(*base, topic)
            await self.place.removed("namespaces", tenant, name)
        await self.place.removed("tenants", tenant)

    async def _clean_partitioned(self, path: tuple[str, ...]) -> None:
        """Delete a partitioned topic."""
        await eventually_async(
            lambda: self.place.ask("DELETE", *path, "partitions", force="true"),
            lambda _: True,
            what=f"{'/'.join(path)} is deleted",
            every=self.bench.pause,
            retried=UnavailableError,
        )


def _told(subscriptions: Any) -> Json:
    """What does not count: how many messages, since when."""
    kept = ("isReplicated", "replicated", "subscriptionProperties", "isDurable")
    found = {name: one for name, one in (subscriptions or {}).items() if name != COMPACTION}
    return {name: {key: one.get(key) for key in kept} for name, one in found.items()}


def _steady(value: Any, key: str = "") -> Any:
    """Without what is not set, in whatever way Pulsar says so, and with sets in order."""
    if isinstance(value, dict):
        pairs = {name: _steady(each, name) for name, each in value.items()}
        return {
            name: each
            for name, each in pairs.items()
            if each not in NOTHING and not (name in AS_UNSET and each == AS_UNSET[name])
        }
    if isinstance(value, list):
        items = [_steady(each) for each in value]
        return items if key == "schemas" else sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
    return value
