"""What balancing believes of Pulsar, checked on the brokers in memory and on a real broker alike.

One broker is enough: what differs between brokers is who owns what, and that is read back in every execution.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from zlib import crc32

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.balance.execution.steps import Ownership
from pulsar_operator.balance.model.cells import CellBuffer
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.observation import RESOURCES, Observed
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.controllers.dataplane.balancing.load_balancer import CONFIGURATION, FLAGS
from pulsar_operator.ports import ConflictError, NotFoundError, RefusedError

PAUSE_SECONDS = 0.25
HALF, QUARTER, LAST = 0x80000000, 0x40000000, 0xFFFFFFFF


@dataclass(frozen=True)
class Site:
    """Where the contract runs: a namespace of its own with two even bundles, and a way to make topics."""

    traffic: Traffic
    namespace: str
    make: Callable[[str], Awaitable[None]]
    """Creates a topic and has its bundle assigned, as a client does."""


def names(site: Site, low: int, high: int, count: int) -> list[str]:
    """Topics of the namespace in a range."""
    found = (f"persistent://{site.namespace}/t{n}" for n in range(100_000))
    return [name for name, _ in zip((f for f in found if low <= crc32(f.encode()) < high), range(count), strict=False)]


async def check_boundaries_and_splits(site: Site) -> None:
    """A split cuts where it is told; one that would part no topics from others is not asked for."""
    traffic, lower = site.traffic, BundleId(site.namespace, 0, HALF)
    assert await traffic.boundaries(site.namespace) == (0, HALF, LAST)
    assert await traffic.boundaries(f"{site.namespace}-missing") is None
    for name in names(site, 0, QUARTER, 3):
        with pytest.raises(RefusedError, match="no topic"):
            await traffic.split(lower, QUARTER)
        await site.make(name)
    with pytest.raises(RefusedError, match=f"from {QUARTER:#010x}"):
        await traffic.split(lower, QUARTER)
    for name in names(site, QUARTER, HALF, 3):
        await site.make(name)
    await traffic.split(lower, QUARTER)
    await eventually_async(  # the answering broker may know the old ones for a moment
        lambda: traffic.boundaries(site.namespace),
        lambda bounds: bounds == (0, QUARTER, HALF, LAST),
        what="the boundaries after the split",
        every=PAUSE_SECONDS,
    )
    with pytest.raises(RefusedError):
        await traffic.split(lower, QUARTER)
    await traffic.split(BundleId(site.namespace, 0, QUARTER), HALF + 5)
    assert await traffic.boundaries(site.namespace) == (0, QUARTER, HALF, LAST)


async def check_topics(site: Site) -> None:
    """All persistent topics of a namespace are listed by name, or those of a bundle; of none the list is empty."""
    admin, endpoint = site.traffic.deps.admin, site.traffic.endpoint
    (low,), (high,) = names(site, 0, HALF, 1), names(site, HALF, LAST, 1)
    space = site.namespace.split("/")
    for name in (low, high):
        await site.make(name)

    async def listed(domain: str, **query: str) -> set[str]:
        query = {"includeSystemTopic": "true", **query}
        return set(await admin.call(endpoint, "GET", (domain, *space), query=query))

    assert {low, high} <= await listed("persistent")
    lower = await listed("persistent", bundle=f"0x00000000_{HALF:#010x}")
    assert low in lower and high not in lower
    assert await listed("persistent", bundle=f"0x00000000_{QUARTER:#010x}") == set()  # no bundle
    assert await listed("non-persistent") == set() == await listed("non-persistent", bundle=f"0x00000000_{HALF:#010x}")
    with pytest.raises(NotFoundError):
        await admin.call(endpoint, "GET", ("persistent", space[0], f"{space[1]}-missing"))


async def check_owners_and_moves(site: Site) -> None:
    """Ownership is read from the broker itself; an unload names a live broker or is refused."""
    traffic, upper = site.traffic, BundleId(site.namespace, HALF, LAST)
    (broker,) = await traffic.brokers()
    (name,) = names(site, HALF, LAST, 1)
    await site.make(name)
    assert upper in await traffic.owned(broker)
    assert await traffic.owner(upper, (broker,), (broker,)) == Ownership(broker)
    with pytest.raises(ConflictError):
        await traffic.move(upper, "nobody.example:8080")
    await traffic.move(upper, broker)
    await site.make(name)
    assert upper in await traffic.owned(broker)
    with pytest.raises(RefusedError):
        await traffic.move(BundleId(site.namespace, HALF + 1, LAST), broker)


async def check_observation(site: Site) -> None:
    """One look gives brokers, boundaries, owners and a cell for every loaded topic at its hash, or whole bundles."""
    (name,) = names(site, HALF, LAST, 1)
    await site.make(name)

    def counted(observed: Observed) -> bool:
        assert not observed.unknown
        return topic_hash(name) in [cell.position for cell in observed.cells.get(site.namespace, CellBuffer()).cells()]

    observed = await eventually_async(
        site.traffic.observe,
        counted,
        what=f"{name} is in the statistics of its broker",
        within=150,  # they are made anew once in a statistics period
        every=1,
        retried=(),
    )
    assert site.namespace in observed.boundaries

    def told(whole: Observed) -> bool:
        assert not whole.unknown and not whole.cells
        return any(load.topics for bundle, load in whole.bundles.items() if bundle.namespace == site.namespace)

    await eventually_async(
        site.traffic.observe_bundles,
        told,
        what=f"the bundle of {name} has a topic",
        within=150,
        every=1,
        retried=(),
    )
    assert await site.traffic.domains() == {}
    assert await site.traffic.stats_period() > 0


async def check_dynamic_settings(site: Site) -> None:
    """Both settings are dynamic; what was set is listed; taking one off that is not set is no error."""
    admin, endpoint = site.traffic.deps.admin, site.traffic.endpoint
    for name, value in FLAGS.items():
        await admin.call(endpoint, "POST", (*CONFIGURATION, name, value))
    values = await site.traffic.get(*CONFIGURATION, "values")
    assert FLAGS.items() <= values.items()
    for name in FLAGS:
        await admin.call(endpoint, "DELETE", (*CONFIGURATION, name))
        await admin.call(endpoint, "DELETE", (*CONFIGURATION, name))
    assert not FLAGS.keys() & (await site.traffic.get(*CONFIGURATION, "values")).keys()


async def check_usage(site: Site) -> None:
    """A broker says how much of its resources it uses."""
    brokers = await site.traffic.brokers()
    usages = await site.traffic.usages(brokers)
    assert set(usages) == set(brokers)
    for used in usages.values():
        assert 0 < used.share < 10 and used.cpu is not None and 0 <= used.cpu <= used.share, used
        assert used.resource in RESOURCES.values()


CHECKS = (
    check_boundaries_and_splits,
    check_topics,
    check_owners_and_moves,
    check_observation,
    check_dynamic_settings,
    check_usage,
)
