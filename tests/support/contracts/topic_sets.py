"""A set of topics on a Pulsar: made, read back, drifted by a plain call, changed, shrunk, deleted.

Run against the fakes and against a real Pulsar; a subclass provides the fixture ``place``, see policies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, Json, UnavailableError
from tests.support.contracts.policies import Place
from tests.support.logical.topic_sets import SET, SetWorld
from tests.support.logical.world import NS

TOPICS = 12
PAUSE_SECONDS = 0.2


class TopicSetContract:
    """What the controller makes of a set is what Pulsar has."""

    async def world(self, place: Place) -> SetWorld:
        """A world whose namespace is one of the place's tenant."""
        w = SetWorld(place.cluster, admin=place.admin, urls={place.cluster: place.endpoint.url})
        w.tenant("t", name=place.tenant)
        w.namespace("n", name=self.name(place), deletionPolicy="Delete")
        await self.until(w, lambda: w.condition(Kind.NAMESPACE, "n")[0] == "True", w.run)
        return w

    def name(self, place: Place) -> str:
        """The namespace of the sets."""
        return f"{place.namespace}-sets"

    async def until(
        self, w: SetWorld, done: Callable[[], bool], step: Callable[[], Any] | None = None, within: float = 60.0
    ) -> None:
        """Passes until it is done: what is written to a real Pulsar takes a moment to be seen."""

        async def passed() -> Json:
            await (step or (lambda: w.wait(2.0)))()
            return w.get(SET, "s") or w.get(Kind.NAMESPACE, "n") or {}

        what = "what a test awaits of the set"
        await eventually_async(
            passed, lambda _: done(), what=what, within=within, every=PAUSE_SECONDS, retried=(UnavailableError,)
        )

    async def ready(self, w: SetWorld, number: int) -> None:
        """Every topic is as declared."""
        await self.until(w, lambda: w.counts() == {"desired": number, "ready": number})
        assert w.condition(SET, "s")[:2] == ("True", "Ready")

    async def test_the_life_of_a_set(self, place: Place) -> None:
        for template in ({}, {"partitions": 2}):
            await self._live(place, template)

    async def _live(self, place: Place, shape: dict[str, Any]) -> None:
        w = await self.world(place)
        base = ("persistent", place.tenant, self.name(place))

        async def value(name: str, policy: str) -> Any:
            return await place.ask("GET", *base, name, policy, applied="false", isGlobal="false")

        async def names() -> set[str]:
            kind = ("partitioned",) if shape else ()
            found = await place.ask("GET", *base, *kind)
            return {name.rsplit("/", 1)[1] for name in found if "__change_events" not in name}

        def declare(number: int, **policies: Any) -> None:
            template = {**shape, "policies": policies, "properties": {"team": "x"}}
            w.topics("s", count={"prefix": "x-", "number": number}, template=template, deletionPolicy="Delete")

        declare(TOPICS, messageTTLSeconds=60, maxProducers=3)
        await self.ready(w, TOPICS)
        assert await names() == {f"x-{n}" for n in range(TOPICS)}
        assert await value("x-11", "messageTTL") == 60
        assert (await place.ask("GET", *base, "x-11", "properties"))["team"] == "x"

        await place.ask("POST", *base, "x-3", "messageTTL", messageTTL="7", isGlobal="false")
        await self.until(w, lambda: "DriftRepaired" in w.reasons(SET), lambda: self.look(w))
        await self.ready(w, TOPICS)
        assert await value("x-3", "messageTTL") == 60

        declare(TOPICS, messageTTLSeconds=90)
        await self.ready(w, TOPICS)
        assert await value("x-0", "messageTTL") == 90
        assert await value("x-0", "maxProducers") is None

        declare(TOPICS - 4, messageTTLSeconds=90)
        await self.ready(w, TOPICS - 4)
        assert await names() == {f"x-{n}" for n in range(TOPICS - 4)}
        assert w.status(SET, "s")["owned"] == {"number": TOPICS - 4}

        w.delete(SET, "s")
        await self.until(w, lambda: w.get(SET, "s") is None)
        assert await names() == set()
        w.delete(Kind.NAMESPACE, "n")
        # A busy Pulsar may leave the first attempt without an answer; what is stuck in it answers after a minute.
        await self.until(w, lambda: w.get(Kind.NAMESPACE, "n") is None, w.run, within=240.0)

    async def look(self, w: SetWorld) -> None:
        """A person asks for a look, by an annotation that says nothing."""
        value = w.clock.time.isoformat()
        w.kube.edit(CUSTOM[SET], NS, "s", lambda o: o["metadata"].update(annotations={"pulsaroperator.io/look": value}))
        await w.wait(2.0)
