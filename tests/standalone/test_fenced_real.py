"""A topic whose deletion hangs, on a real Pulsar: it stays fenced until the deletion ends or its bundle is unloaded.

The deletion of a topic deletes its policies too, which are in a topic of the namespace's own: that one cannot be loaded
while the namespace wants more bookies than there are.
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count, pairwise
from typing import Any

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.controllers.logical.topic_deletion import FENCED
from pulsar_operator.ports import AdminEndpoint, PortError
from tests.support.standalone.site import Site

THREE = {name: 3 for name in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")}


def bundle_of(boundaries: list[str], topic: str) -> str:
    """The bundle of a topic, by its full name."""
    place = topic_hash(topic)
    return next(f"{low}_{high}" for low, high in pairwise(boundaries) if int(low, 16) <= place < int(high, 16))


async def test_a_topic_whose_deletion_hangs_is_fenced(endpoint: AdminEndpoint) -> None:
    async with Site.opened(endpoint, "fenced") as site:
        world, inside = site.world, site.path(Kind.NAMESPACE)
        boundaries = (await site.ask("GET", *inside, "bundles"))["boundaries"]
        full = f"persistent://{site.tenant}/n/"
        events = bundle_of(boundaries, f"{full}__change_events")
        # It must stay loaded when the topic with the policies is not.
        name = next(f"x{i}" for i in count() if bundle_of(boundaries, f"{full}x{i}") != events)
        path = ("persistent", site.tenant, "n", name)
        world.topic(name, deletionPolicy="Delete", policies={"maxProducers": 5})

        async def ready() -> str:
            await world.reconcile(Kind.TOPIC, name)
            return world.condition(Kind.TOPIC, name)[0]

        await eventually_async(ready, lambda seen: seen == "True", what="the topic is Ready", every=0.2, retried=())
        await site.ask("GET", *path, "stats")
        await site.ask("POST", *inside, "persistence", body={**THREE, "managedLedgerMaxMarkDeleteRate": 0})
        await asyncio.sleep(1)
        await site.ask("PUT", *inside, events, "unload")
        hanging = asyncio.create_task(_ends(site, path))
        await asyncio.sleep(3)
        world.delete(Kind.TOPIC, name)
        await world.reconcile(Kind.TOPIC, name)
        status, reason, message = world.condition(Kind.TOPIC, name, "DeletionBlocked")
        assert (status, reason) == ("True", "TopicFenced"), message
        assert FENCED in message
        await site.ask("DELETE", *inside, "persistence")

        async def left() -> Any:
            await world.reconcile(Kind.TOPIC, name)
            return world.get(Kind.TOPIC, name)

        await eventually_async(left, lambda obj: obj is None, what="the topic goes", every=1.0, retried=())
        await hanging
        assert await site.ask("GET", *path[:-1]) == []


async def _ends(site: Site, path: tuple[str, ...]) -> None:
    """Somebody deletes the topic; it takes as long as it takes."""
    with contextlib.suppress(PortError):
        await site.ask("DELETE", *path)
