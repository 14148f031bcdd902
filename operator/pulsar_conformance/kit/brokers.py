"""Several brokers: which there are, who serves a topic, and bundles brought to one of them."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

from pulsar_conformance.context import Context
from pulsar_conformance.kit.bundles import boundaries, owner


def several(ctx: Context, number: int) -> list[str]:
    """Host names of the brokers; the check is skipped where there are fewer."""
    found = [broker.rsplit(":", 1)[0] for broker in ctx.instance.brokers]
    ctx.require(len(found) >= number, f"needs {number} brokers, this cluster has {len(found)}")
    return found


def host_of(ctx: Context, topic: str) -> str:
    """Host name of the broker that serves a topic."""
    return owner(ctx, topic).removeprefix("pulsar://").rsplit(":", 1)[0]


def names_in(namespace: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """A topic's name for each range, [lower, upper), in which its CRC-32 falls."""
    found: dict[tuple[int, int], str] = {}
    for number in itertools.count():
        name = f"persistent://{namespace}/topic-{number}"
        position = zlib.crc32(name.encode())
        for lower, upper in ranges:
            if lower <= position < upper:
                found.setdefault((lower, upper), name)
        if len(found) == len(ranges):
            return [found[one] for one in ranges]
    raise AssertionError("unreachable")


def move(ctx: Context, topic: str, bundle: str, host: str) -> None:
    """Bring a bundle, one of whose topics is given, to a broker: unloaded with a destination, its owner read back."""
    namespace = topic.split("://", 1)[1].rsplit("/", 1)[0]
    (broker,) = [one for one in ctx.instance.brokers if one.rsplit(":", 1)[0] == host]

    def there() -> bool:
        if host_of(ctx, topic) == host:
            return True
        ctx.admin.put(f"namespaces/{namespace}/{bundle}/unload", destinationBroker=broker)
        return host_of(ctx, topic) == host

    ctx.eventually(there, f"{bundle} at {host}", within=40)


def halve(ctx: Context, namespace: str, bundle: str, middle: int) -> None:
    """Split a bundle in its middle, and read that it is: Pulsar may answer with success and have done nothing (class
    NamespaceService, splitAndOwnBundleOnceAndRetry), so it is asked again. For a bundle that is split it refuses."""

    def split() -> bool:
        if middle in boundaries(ctx, namespace):
            return True
        ctx.admin.put(f"namespaces/{namespace}/{bundle}/split", splitAlgorithmName="range_equally_divide")
        return middle in boundaries(ctx, namespace)

    ctx.eventually(split, f"{bundle} split at {middle:#010x}", every=1)
