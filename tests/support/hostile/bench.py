"""Hostile text on a Pulsar, by the operator's controllers: carried exactly or refused, and nothing else touched."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import ConditionType
from pulsar_operator.domain.logical.pulsar_names import failure_domain_path, isolation_path
from pulsar_operator.ports import ConflictError, UnavailableError
from tests.support.cluster.end_state import differences
from tests.support.hostile.places import VALUES, Place
from tests.support.mutations.bench import COMPLETE, PASSES, SELF, Attempt, Bench
from tests.support.mutations.chains import PNS, PT, PTS, Json, Mutation
from tests.support.mutations.changes import filled

BYSTANDER = "bystander"
NAMES_OF_TOPICS = frozenset({"name", "names[]", "count.prefix"})
"""Paths of places where topics get their names."""


class HostileBench(Bench):
    """Every object has bystanders with plain names."""

    async def carry(self, place: Place, labels: Sequence[str]) -> list[str]:
        """Give an object each text, one after the other, and none in the end; what is wrong, in words."""
        problems: list[str] = []
        if place.names_it:
            for label in labels:
                named = Mutation(place.kind, place.path, label, place.spec(None), place.spec(VALUES[label]))
                async with self.attempt(named) as attempt:
                    problems += [f"{label}: {each}" for each in await Carrying(attempt).name(place, VALUES[label])]
            return problems
        steps = {label: (place.spec(VALUES[label]), place.prefix + VALUES[label]) for label in labels}
        # What is uploaded with a version of a schema is never changed.
        apart = [{label: step} for label, step in steps.items()] if "schema." in place.path else [steps]
        for each in apart:
            words = Mutation(place.kind, place.path, "", place.spec(None), {"all": [spec for spec, _ in each.values()]})
            async with self.attempt(words) as attempt:
                problems += await Carrying(attempt).run(each, field=place.field)
        return problems


class Carrying:
    """The object and its bystanders."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.kind = attempt.mutation.kind
        self.me = f"{attempt.own}-m"

    async def run(self, steps: Mapping[str, tuple[Json, str]], *, field: str | None) -> list[str]:
        """S0, then specifications with the text each must bring, by label, then S0. ``field`` is what a refusal names;
        None = nothing may be refused."""
        attempt, before = self.attempt, self.attempt.mutation.before
        await self.bystanders()
        await self.shadows(text for _, text in steps.values())
        await attempt.declare(self.me, before)
        zero, others = await attempt.shown(self.me), await self.others()
        problems: list[str] = []
        for label, (spec, text) in steps.items():
            # What comes late of one is seen with the next, and of the last when it is taken off again.
            await attempt.declare(self.me, spec, ready=False, quiet=attempt.bench.quiet)
            shown = await attempt.shown(self.me)
            wanted = filled(text, {**attempt.names, "own": SELF})
            refusal = self.refusal(field)
            if refusal is None:
                refusal = [] if wanted in set(_texts(shown)) else [f"{wanted[:80]!r} is not what Pulsar has: {shown}"]
            elif wanted in set(_texts(shown)):
                refusal.append("refused, and yet it is there")
            problems += [f"{label}: {each}" for each in refusal]
            problems += [f"{label}: another object: {each}" for each in differences(others, await self.others())]
        await attempt.declare(self.me, before, ready=False)
        if not any(
            "schema" in spec.get("template", spec) for spec, _ in steps.values()
        ):  # those that were uploaded stay
            problems += await attempt.equal("taken off again", lambda: attempt.shown(self.me), zero)
        return problems + await attempt.equal("another object in the end", self.others, others)

    async def name(self, place: Place, text: str) -> list[str]:
        """An object of that name is made and deleted."""
        attempt, world = self.attempt, self.attempt.world
        await self.bystanders()
        others = await self.others()
        await attempt.declare(self.me, {**attempt.mutation.after, "deletionPolicy": "Delete"}, ready=False)
        problems, text = self.refusal(place.field), text + place.suffix
        now = await self.others()
        if problems is not None:
            problems += [f"refused, and yet: {each}" for each in differences(others, now)]
        else:
            problems = [] if text in set(_texts(now)) else [f"{text!r} is not there: {differences(others, now)}"]
        world.delete(self.kind, self.me)
        for _ in range(PASSES):  # no eventually: all that is wrong with a place is collected
            if world.get(self.kind, self.me) is None:
                break
            await world.reconcile(self.kind, self.me)
            await asyncio.sleep(attempt.bench.pause)
        else:
            problems.append(f"not deleted: {world.condition(self.kind, self.me, 'DeletionBlocked')}")
        return problems + await attempt.equal("deleted again", self.others, others)

    def refusal(self, field: str | None) -> list[str] | None:
        """None when the object is as declared; otherwise what is missing in how it says that it is not."""
        world = self.attempt.world
        kind = PNS if self.attempt.inherits else self.kind
        who = f"{self.me}-n" if self.attempt.inherits else self.me
        ready = world.condition(kind, who)
        if ready[1] in COMPLETE:
            return None
        status, reason, message = world.condition(kind, who, ConditionType.ACCEPTED.value)
        if field is None:
            return [f"not Ready: {ready} {message}"]
        if status != "False" or not message:
            return [f"neither Ready nor refused: {ready}"]
        return [] if field in message or self.attempt.inherits else [f"{reason} without the field: {message}"]

    async def shadows(self, texts: Iterable[str]) -> None:
        """The shadow topics that are named, which must be there."""
        if "{shadow}" in json.dumps(self.attempt.mutation.after):
            for text in texts:
                name = text.removeprefix("{shadow}")
                if name:
                    await self.made("PUT", *self.attempt.place.topic(f"s1{name}"))

    async def bystanders(self) -> None:
        """A namespace and topics whose names hostile text might come out as."""
        made, own = self.made, self.attempt.own
        if self.kind not in (PNS, PT, PTS):
            return
        await made("PUT", "namespaces", own, BYSTANDER, body={"replication_clusters": [self.attempt.bench.cluster]})
        for namespace in (BYSTANDER, *(["n"] if self.kind in (PT, PTS) else [])):
            for topic in ("a", "b"):
                await made("PUT", "persistent", own, namespace, topic)
                await made("POST", "persistent", own, namespace, topic, "permissions", "a", body=["produce"])
        await made("POST", "namespaces", own, BYSTANDER, "permissions", "a", body=["produce"])
        await made("PUT", "namespaces", own, BYSTANDER, "properties", body={"a": "1"})

    async def made(self, *call: str, body: Any = None) -> None:
        """A plain call of a test, until Pulsar answers: a busy one says 500 to the first topic of a namespace."""

        async def ask() -> bool:
            with contextlib.suppress(ConflictError):  # a call before had taken effect
                await self.attempt.place.ask(*call, body=body)
            return True

        pause = self.attempt.bench.pause
        await eventually_async(ask, what=" ".join(call), every=pause, retried=UnavailableError)

    async def others(self) -> Json:
        """All of Pulsar's objects but the one under test, by name, and what bystanders have."""
        attempt = self.attempt
        ask, own = attempt.place.ask, attempt.own
        tenants = [tenant for tenant in await ask("GET", "tenants") if tenant != self.me and self.lasting(tenant)]
        groups = [group for group in await ask("GET", "resourcegroups") if self.lasting(group)]
        out: Json = {"tenants": sorted(tenants), "groups": sorted(groups)}
        for full in await ask("GET", "namespaces", own) if own in tenants else ():
            name = full.split("/")[1]
            if name == self.me:
                continue
            live = await ask("GET", "namespaces", own, name)
            granted = live["auth_policies"]["destination_auth"]
            live["auth_policies"]["destination_auth"] = {k: v for k, v in granted.items() if not k.endswith(self.me)}
            mine = {f"persistent://{own}/n/{topic}" for topic in await attempt.topics_of(self.me)}
            topics = await ask("GET", "persistent", own, name)
            topics += await ask("GET", "persistent", own, name, "partitioned")
            out[full] = {
                "policies": live,
                "topics": sorted(t for t in topics if not t.endswith(self.me) and t not in mine),
            }
        if self.kind in (PT, PTS) and attempt.mutation.path in NAMES_OF_TOPICS:
            out["neighbour"] = await attempt.topic("a")
        cluster = attempt.bench.cluster
        policies = await attempt.find(*isolation_path(cluster, "")[:-1]) or {}
        domains = await attempt.find(*failure_domain_path(cluster)) or {}
        out["isolation"] = {name: each for name, each in policies.items() if name != self.me and self.lasting(name)}
        out["domains"] = {
            name: each for name, each in domains.items() if not name.startswith(self.me) and self.lasting(name)
        }
        return out

    def lasting(self, name: str) -> bool:
        """Whether it belongs to no attempt that runs beside this one."""
        own = self.attempt.own
        return name == own or name.startswith(f"{own}-") or not name.startswith(f"{self.attempt.bench.own}-")


def _texts(value: Any) -> Iterator[str]:
    """Every key and text, also the members of texts with commas, and local names of topics."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value
        yield from value.split(",")
        if "/" in value:
            yield value.split("/", 1)[-1]
        if "://" in value:
            yield value.split("/", 4)[-1]
