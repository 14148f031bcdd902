"""Brokers that answer broker-stats/topics: the document as Pulsar 4.0.8 writes it, streamed, and HTTP faults.

The keys are held to a recorded answer of a real broker (tests/unit/sizing/data/broker_stats.json) by a test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from aiohttp import web

SINCE = "2025-01-01T00:00:00Z"
WHOLE_SPACE = "0x00000000_0xffffffff"


@dataclass(frozen=True)
class FakeTopic:
    """One topic of a broker; rates per second."""

    name: str
    messages_in: float = 0.0
    messages_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    producers: int = 0
    consumers: Sequence[int] = ()
    """Consumers of each subscription."""
    backlog: Sequence[int] = ()
    """Backlog of each subscription; 0 where there are more subscriptions."""
    storage_bytes: int = 0
    replication: Sequence[str] = ()
    """Remote clusters."""

    @property
    def namespace(self) -> str:
        """tenant/namespace."""
        return self.name.split("://", 1)[1].rsplit("/", 1)[0]

    @property
    def domain(self) -> str:
        """persistent or non-persistent."""
        return self.name.split("://", 1)[0]


def bundle_of(name: str, bundles: int) -> str:
    """Range of one of 2^k even bundles that a topic falls into."""
    width = (1 << 32) // bundles
    low = crc32(name.encode()) // width * width
    return f"0x{low:08x}_0x{min(low + width, (1 << 32) - 1):08x}"


def publisher(topic: FakeTopic, index: int) -> dict[str, Any]:
    """One entry of ``publishers``."""
    share = topic.producers
    return {
        "msgRateIn": topic.messages_in / share,
        "msgThroughputIn": topic.bytes_in / share,
        "averageMsgSize": topic.bytes_in / topic.messages_in if topic.messages_in else 0.0,
        "address": "/10.0.0.1:40000",
        "producerId": index,
        "producerName": f"producer-{index}",
        "connectedSince": SINCE,
        "clientVersion": "Pulsar-CPP-v3.7.1",
        "metadata": {},
    }


def consumer(topic: FakeTopic, index: int, subscriptions: int, of: int) -> dict[str, Any]:
    """One entry of ``consumers`` of a Shared subscription."""
    return {
        "address": "/10.0.0.2:40000",
        "consumerName": f"consumer-{index}",
        "availablePermits": 1000,
        "connectedSince": SINCE,
        "msgRateOut": topic.messages_out / subscriptions / of,
        "msgThroughputOut": topic.bytes_out / subscriptions / of,
        "msgRateRedeliver": 0.0,
        "avgMessagesPerEntry": 1,
        "messageAckRate": 0.0,
        "unackedMessages": 0,
        "blockedConsumerOnUnackedMsgs": False,
        "clientVersion": "Pulsar-CPP-v3.7.1",
        "metadata": {},
    }


def subscription(topic: FakeTopic, index: int) -> dict[str, Any]:
    """One value of ``subscriptions``."""
    connected, count = topic.consumers[index], len(topic.consumers)
    common = {
        "consumers": [consumer(topic, i, count, connected) for i in range(connected)],
        "msgBacklog": topic.backlog[index] if index < len(topic.backlog) else 0,
        "msgRateExpired": 0.0,
        "msgRateOut": topic.messages_out / count,
        "messageAckRate": 0.0,
        "msgThroughputOut": topic.bytes_out / count,
        "msgRateRedeliver": 0.0,
    }
    filters = dict.fromkeys(
        ("filterProcessedMsgCount", "filterAcceptedMsgCount", "filterRejectedMsgCount", "filterRescheduledMsgCount"), 0
    )
    if topic.domain == "non-persistent":
        return {**common, "type": "Shared", **filters, "msgDropRate": 0.0}
    return {
        **common,
        "numberOfEntriesSinceFirstNotAckedMessage": 1,
        "totalNonContiguousDeletedMessagesRange": 0,
        "type": "Shared",
        **filters,
        "blockedSubscriptionOnUnackedMsgs": False,
        "unackedMessages": 0,
    }


def replication(topic: FakeTopic) -> dict[str, Any]:
    """One value of ``replication``."""
    return {
        "connected": True,
        "msgRateExpired": 0.0,
        "msgRateIn": 0.0,
        "msgRateOut": topic.messages_in,
        "msgThroughputIn": 0.0,
        "msgThroughputOut": topic.bytes_in,
        "replicationBacklog": 7,
        "replicationDelayInSeconds": 0,
        "inboundConnection": None,
        "inboundConnectedSince": None,
        "outboundConnection": "[id: 0x1, L:/10.0.0.3:40000 - R:b/10.0.0.4:6650]",
        "outboundConnectedSince": SINCE,
    }


def topic_stats(topic: FakeTopic) -> dict[str, Any]:
    """What the document says of one topic (PersistentTopic.updateRates, NonPersistentTopic.updateRates)."""
    common = {
        "publishers": [publisher(topic, i) for i in range(topic.producers)],
        "replication": {cluster: replication(topic) for cluster in topic.replication},
        "subscriptions": {f"subscription-{i}": subscription(topic, i) for i in range(len(topic.consumers))},
        "producerCount": topic.producers,
        "averageMsgSize": topic.bytes_in / topic.messages_in if topic.messages_in else 0.0,
        "msgRateIn": topic.messages_in,
        "msgRateOut": topic.messages_out,
    }
    counts = {"msgInCount": 1, "bytesInCount": 1, "msgOutCount": 1, "bytesOutCount": 1}
    throughput = {"msgThroughputIn": topic.bytes_in, "msgThroughputOut": topic.bytes_out}
    if topic.domain == "non-persistent":
        return {**common, **throughput, **counts, "filteredEntriesCount": 0}
    return {
        **common,
        **counts,
        **throughput,
        "storageSize": topic.storage_bytes,
        "backlogSize": 0,
        "pendingAddEntriesCount": 0,
        "filteredEntriesCount": 0,
    }


def document(topics: Iterable[FakeTopic], bundles: int = 4, chunk_bytes: int = 65536) -> Iterator[bytes]:
    """The document in pieces; topics of a namespace and bundle must come together, as they do from a broker."""
    buffer = ["{"]
    size, namespace, bundle, domain = 0, None, None, None
    comma = ""
    for topic in topics:
        spot = bundle_of(topic.name, bundles)
        if (topic.namespace, spot) != (namespace, bundle):
            if domain:
                buffer.append("}}")
            if topic.namespace != namespace:
                buffer.append(("}," if namespace else "") + f"{json.dumps(topic.namespace)}:{{")
            else:
                buffer.append(",")
            buffer.append(f'"{spot}":{{"persistent":{{')
            namespace, bundle, domain, comma = topic.namespace, spot, "persistent", ""
        if topic.domain != domain:
            buffer.append('},"non-persistent":{')
            domain, comma = topic.domain, ""
        text = f"{comma}{json.dumps(topic.name)}:{json.dumps(topic_stats(topic), separators=(',', ':'))}"
        buffer.append(text)
        comma = ","
        size += len(text)
        if size >= chunk_bytes:
            yield "".join(buffer).encode()
            buffer.clear()
            size = 0
    buffer.append("}}}}" if domain else "}")
    yield "".join(buffer).encode()


def in_order(topics: Iterable[FakeTopic], bundles: int = 4) -> list[FakeTopic]:
    """Topics as :func:`document` wants them."""
    return sorted(topics, key=lambda t: (t.namespace, bundle_of(t.name, bundles), t.domain != "persistent", t.name))


@dataclass(frozen=True)
class Fault:
    """How a broker misbehaves."""

    status: int = 200
    hang: bool = False
    body: bytes | None = None
    location: str | None = None
    """Path that a redirect leads to."""
    cut_after: int | None = None
    """The connection is broken after so many bytes of the body."""
    times: int | None = None
    """Requests it lasts for; None = for ever."""


@dataclass
class FakeBrokers:
    """Brokers on one loopback port: broker ``name`` is at <url>/<name>; serve with :meth:`start`.

    A collector reaches them with the broker URL template ``<url>/{host}``.
    """

    topics: dict[str, list[FakeTopic]] = field(default_factory=dict)
    """Topics by broker id (host:port)."""
    registered: list[str] | None = None
    """What GET /admin/v2/brokers lists; None = those with topics."""
    faults: dict[str, Fault] = field(default_factory=dict)
    """By broker id; the id "" stands for the list of brokers."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Percent of its CPU that a broker says it uses; the others do not say."""
    metrics_faults: dict[str, Fault] = field(default_factory=dict)
    """Of broker-stats/metrics alone."""
    token: str | None = None
    """Needed as bearer token where given."""
    bundles: int = 4
    asked: list[str] = field(default_factory=list)
    url: str = ""
    hold: bool = False
    """Every broker waits, before it answers, for its turn by :meth:`let_one_go`."""
    most_at_once: int = 0
    """Brokers that were being asked at the same time."""
    _at_once: int = 0
    _runner: web.AppRunner | None = None
    _release: asyncio.Event = field(default_factory=asyncio.Event)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    @property
    def template(self) -> str:
        """Broker URL template for the collector."""
        return self.url + "/{host}"

    async def start(self) -> FakeBrokers:
        """Listen on a free port of the loopback address."""
        app = web.Application()
        app.router.add_get("/admin/v2/brokers", self._list)
        app.router.add_get("/{host}/admin/v2/broker-stats/topics", self._stats)
        app.router.add_get("/{host}/admin/v2/broker-stats/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    def let_one_go(self) -> None:
        """Let one of the brokers that wait answer."""
        self._turns.release()

    async def close(self) -> None:
        """Stop; hanging requests are let go."""
        self._release.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.StreamResponse:
        self.asked.append("")
        fault = self._fault("")
        if (answer := await self._faulty(request, fault)) is not None:
            return answer
        return web.json_response(list(self.topics) if self.registered is None else self.registered)

    async def _stats(self, request: web.Request) -> web.StreamResponse:
        host = request.match_info["host"]
        broker = next((b for b in self.topics if b.split(":")[0] == host), None)
        self.asked.append(broker or host)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.hold:
                await self._turns.acquire()
            fault = self._fault(broker or "")
            if (answer := await self._faulty(request, fault)) is not None:
                return answer
            if broker is None:
                return web.Response(status=404)
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            async for chunk in self._chunks(broker):
                if fault.cut_after is not None:
                    await response.write(chunk[: fault.cut_after])
                    assert request.transport is not None
                    request.transport.close()
                    return response
                await response.write(chunk)
        finally:
            self._at_once -= 1  # before the end of the answer, after which the next broker may be asked
        await response.write_eof()
        return response

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        broker = self._broker(request)
        if (answer := await self._faulty(request, self.metrics_faults.get(broker, Fault()))) is not None:
            return answer
        cpu = {"brk_lb_cpu_usage": self.cpu[broker]} if broker in self.cpu else {}
        each = [{"dimensions": {"namespace": f"t/{n}"}, "metrics": {"brk_topics_count": n}} for n in range(3)]
        return web.json_response([*each, {"dimensions": {"broker": broker}, "metrics": {**cpu, "brk_lb_count": 1}}])

    def _broker(self, request: web.Request) -> str:
        host = request.match_info["host"]
        return next((broker for broker in self.topics if broker.split(":")[0] == host), host)

    async def _chunks(self, broker: str) -> AsyncIterator[bytes]:
        for chunk in document(in_order(self.topics[broker], self.bundles), self.bundles):
            yield chunk

    def _fault(self, broker: str) -> Fault:
        fault = self.faults.get(broker, Fault())
        if fault.times is not None:
            if fault.times <= 0:
                return Fault()
            self.faults[broker] = replace(fault, times=fault.times - 1)
        return fault

    async def _faulty(self, request: web.Request, fault: Fault) -> web.Response | None:
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="Authentication required")
        if fault.hang:
            await self._release.wait()
        if fault.status != 200 or fault.body is not None:
            headers = {"Location": self.url + fault.location} if fault.location else None
            return web.Response(status=fault.status, body=fault.body, headers=headers, content_type="application/json")
        return None


def keys_of(value: Any, path: str = "") -> set[str]:
    """Every key path of a JSON value; names that vary (topics, subscriptions, clusters) are for the caller."""
    if isinstance(value, Mapping):
        return {p for k, v in value.items() for p in (f"{path}/{k}", *keys_of(v, f"{path}/{k}"))}
    if isinstance(value, list):
        return {p for item in value for p in keys_of(item, f"{path}[]")}
    return set()
