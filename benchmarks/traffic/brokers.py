"""Brokers of one cluster in a process of their own, each on a port of 127.0.0.1, with very many topics.

    python -m benchmarks.traffic.brokers PORT_FILE --topics 1000000 --brokers 50

They speak the part of the admin REST that balancing uses. Statistics are written while they are sent, topic by topic in
Pulsar's shape (tests/fakes/broker_stats.py), at a bounded number of bytes a second; every answer begins after a delay.
The first fifth of the brokers has four times as many bundles as the others, so that there is something to even out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

from aiohttp import web

from tests.fakes.broker_stats import FakeTopic, topic_stats

CLUSTER = "a"
SEED = 7
LAST = 0xFFFFFFFF
HEAVY, TIMES = 0.2, 4
"""Fraction of brokers that own more bundles, and how many times as many as each of the others."""
PIECE_BYTES = 64 * 1024
STATS_PERIOD = "5"
"""Seconds, so that a finished drain is measured soon."""
RATES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
BUSY_EVERY = 10
"""Every n-th topic has more clients than one producer and one consumer."""

Bundle = tuple[str, int]
"""Namespace and number of the bundle."""


@dataclass
class Cluster:
    """The topics of a simulated cluster, and the broker that owns each bundle."""

    topics: int
    brokers: list[str]
    namespaces: int
    bundles: int
    rate: float
    """Bytes a second that a broker sends of its statistics."""
    delay: float
    """Seconds before an answer begins."""
    owners: dict[Bundle, str] = field(default_factory=dict)
    inside: dict[Bundle, array[int]] = field(default_factory=dict)
    """Numbers of the topics in a bundle."""
    sent: dict[str, int] = field(default_factory=dict)
    """Bytes of each broker's longest answer."""
    asked: dict[str, int] = field(default_factory=dict)
    """Requests by what they are for."""

    def __post_init__(self) -> None:
        heavy = max(1, int(len(self.brokers) * HEAVY))
        places = [*self.brokers[:heavy] * TIMES, *self.brokers[heavy:]]
        for number, bundle in enumerate((name, index) for name in self.names for index in range(self.bundles)):
            self.owners[bundle] = places[number % len(places)]
            self.inside[bundle] = array("I")
        for number in range(self.topics):
            name, position = self.topic(number)
            self.inside[name, position * self.bundles >> 32].append(number)

    @property
    def names(self) -> list[str]:
        """Of the namespaces."""
        return [f"tenant/namespace-{number}" for number in range(self.namespaces)]

    def topic(self, number: int) -> tuple[str, int]:
        """Namespace and position of a topic."""
        namespace = f"tenant/namespace-{number % self.namespaces}"
        return namespace, crc32(topic_name(namespace, number).encode())

    @property
    def bounds(self) -> list[int]:
        """Boundaries of every namespace, whose number of bundles is a power of two."""
        width = (1 << 32) // self.bundles
        return [*(width * index for index in range(self.bundles)), LAST]

    def span(self, index: int) -> str:
        """Range of a bundle."""
        low, high = list(pairwise(self.bounds))[index]
        return f"0x{low:08x}_0x{high:08x}"

    def owned(self, broker: str) -> list[Bundle]:
        """Bundles of a broker, of one namespace after the other."""
        return sorted(bundle for bundle, owner in self.owners.items() if owner == broker)

    def statistics(self, broker: str) -> Iterator[str]:
        """The document of its topics, in pieces."""
        plain, busy = _pieces(1, (1,)), _pieces(2, (2, 1))
        yield "{"
        before = ""
        for namespace, index in self.owned(broker):
            yield ("" if namespace == before else ("}," if before else "") + f'"{namespace}":{{') + (
                "," if namespace == before else ""
            )
            yield f'"{self.span(index)}":{{"persistent":{{'
            lines = []
            for number in self.inside[namespace, index]:
                head, tail = plain if number % BUSY_EVERY else busy
                rate = random.Random(SEED + number).expovariate(0.1)
                lines.append(
                    f'"{topic_name(namespace, number)}":{head}"msgRateIn":{rate:.3f},"msgRateOut":{2 * rate:.3f},'
                    f'"msgThroughputIn":{900 * rate:.3f},"msgThroughputOut":{1800 * rate:.3f},{tail}'
                )
                if len(lines) == 32:
                    yield ",".join(lines) + ("," if number != self.inside[namespace, index][-1] else "")
                    lines.clear()
            yield ",".join(lines) + "}}"
            before = namespace
        yield "}}" if before else "}"

    def report(self, broker: str) -> dict[str, Any]:
        """Its load report: the fields of whole bundles."""
        found = {}
        for namespace, index in self.owned(broker):
            numbers = self.inside[namespace, index]
            rate = sum(random.Random(SEED + number).expovariate(0.1) for number in numbers)
            busy = sum(number % BUSY_EVERY == 0 for number in numbers)
            found[f"{namespace}/{self.span(index)}"] = {
                "msgRateIn": rate,
                "msgThroughputIn": 900 * rate,
                "msgRateOut": 2 * rate,
                "msgThroughputOut": 1800 * rate,
                "consumerCount": len(numbers) + 2 * busy,
                "producerCount": len(numbers) + busy,
                "topics": len(numbers),
                "cacheSize": 0,
            }
        return {"webServiceUrl": f"http://{broker}", "lastStats": found, "bundles": sorted(found)}


def topic_name(namespace: str, number: int) -> str:
    """Full name of a topic."""
    return f"persistent://{namespace}/orders-{number}-partition-{number % 12}"


def _pieces(producers: int, consumers: tuple[int, ...]) -> tuple[str, str]:
    """The text of one topic before and after its four rates."""
    stats = topic_stats(
        FakeTopic("persistent://t/n/x", 1.0, 2.0, 900.0, 1800.0, producers, consumers, (3,), 12_345_678)
    )
    for name in RATES:
        del stats[name]
    early = {k: stats.pop(k) for k in ("publishers", "replication", "subscriptions", "producerCount", "averageMsgSize")}
    return (
        json.dumps(early, separators=(",", ":"))[:-1] + ",",
        json.dumps(stats, separators=(",", ":"))[1:],
    )


class Server:
    """Answers for all brokers; which one is asked tells the port."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        cluster, broker = self._cluster, str(request.host)
        path = request.path.removeprefix("/admin/v2/").split("/")
        if request.path == "/figures":
            return web.json_response({"sent": cluster.sent, "asked": cluster.asked})
        label = "/".join(path[:2]) if path[0] == "broker-stats" else path[-1] if request.method == "PUT" else path[0]
        cluster.asked[label] = cluster.asked.get(label, 0) + 1
        await asyncio.sleep(cluster.delay)
        if path == ["broker-stats", "topics"]:
            return await self._stream(request, broker)
        found = self._small(request, broker, path)
        return web.Response(status=found) if isinstance(found, int) else web.json_response(found)

    async def _stream(self, request: web.BaseRequest, broker: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        with contextlib.suppress(ConnectionError):  # who asked went
            await self._write(request, response, broker)
        return response

    async def _write(self, request: web.BaseRequest, response: web.StreamResponse, broker: str) -> None:
        await response.prepare(request)
        began, sent, pieces, size = asyncio.get_running_loop().time(), 0, [], 0
        for piece in self._cluster.statistics(broker):
            pieces.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                sent += size
                await response.write("".join(pieces).encode())
                pieces, size = [], 0
                ahead = began + sent / self._cluster.rate - asyncio.get_running_loop().time()
                await asyncio.sleep(max(ahead, 0.0))
        await response.write("".join(pieces).encode())
        await response.write_eof()
        self._cluster.sent[broker] = max(sent + size, self._cluster.sent.get(broker, 0))

    def _small(self, request: web.BaseRequest, broker: str, path: list[str]) -> Any:
        cluster = self._cluster
        match request.method, path:
            case "GET", ["brokers"]:
                return cluster.brokers
            case "GET", ["brokers", "configuration", "runtime"]:
                return {"statsUpdateFrequencyInSecs": STATS_PERIOD, "statsUpdateInitialDelayInSecs": STATS_PERIOD}
            case "GET", ["brokers", _, _, "ownedNamespaces"]:
                state = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
                return {f"{name}/{cluster.span(index)}": state for name, index in cluster.owned(broker)}
            case "GET", ["broker-stats", "load-report"]:
                return cluster.report(broker)
            case "GET", ["broker-stats", "metrics"]:
                namespaces = [
                    {"metrics": {"brk_in_rate": 1.0, "brk_out_rate": 1.0}, "dimensions": {"namespace": name}}
                    for name in cluster.names
                ]
                return [*namespaces, {"metrics": {"brk_lb_cpu_usage": 40.0}, "dimensions": {"broker": broker}}]
            case "GET", ["namespaces", _, _, "bundles"]:
                return {"boundaries": [f"0x{each:08x}" for each in cluster.bounds], "numBundles": cluster.bundles}
            case "PUT", ["namespaces", tenant, name, span, "unload"]:
                index = cluster.bounds.index(int(span.partition("_")[0], 16))
                cluster.owners[f"{tenant}/{name}", index] = request.query["destinationBroker"]
                return 204
            case "GET", ["namespaces", _, _, "antiAffinity"]:
                return 204
            case "GET", ["clusters", _, ("namespaceIsolationPolicies" | "failureDomains")]:
                return {}
        return 404


async def serve(options: argparse.Namespace) -> None:
    """Serve until ended; the port file gets the first broker's port when all are ready."""
    servers: list[Any] = []
    cluster = Cluster(0, ["none:1"], 1, 1, 1.0, 0.0)
    handler = Server(cluster)
    ids = []
    for _ in range(options.brokers):
        runner = web.ServerRunner(web.Server(handler.answer), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        servers.append(runner)
        ids.append(f"127.0.0.1:{runner.addresses[0][1]}")
    handler._cluster = Cluster(
        options.topics, ids, options.namespaces, options.bundles, options.rate * 1e6, options.delay
    )
    options.port_file.write_text(ids[0].partition(":")[2])
    await asyncio.Event().wait()


def main() -> None:
    """Run the brokers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("port_file", type=Path)
    parser.add_argument("--topics", type=int, default=1_000_000)
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--namespaces", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=16, help="of each namespace, a power of two")
    parser.add_argument("--rate", type=float, default=10.0, help="million bytes a second of each broker")
    parser.add_argument("--delay", type=float, default=0.05, help="seconds before an answer")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
