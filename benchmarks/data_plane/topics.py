"""Topics made by admin REST until there are enough or the server does no more, and what it says of itself."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from e2e.support.admin import ask

TENANT, NAMESPACE = "bench", "bench/data-plane"
AT_ONCE = 32
"""Calls of admin REST at the same time."""
TRIES = 3
MADE = (204, 409)
"""Statuses of a topic that is there: made now, or by a call whose answer was lost."""


@dataclass(frozen=True)
class Created:
    """How far the creation got."""

    topics: int
    seconds: float
    stopped: str = ""
    """Why it ended before there were enough; empty when it did not."""


def name(number: int) -> str:
    """A topic's full name."""
    return f"persistent://{NAMESPACE}/topic-{number:07}"


def prepare(url: str) -> None:
    """The tenant and the namespace."""
    cluster = ask(url, "GET", "brokers/configuration/runtime")["clusterName"]
    ask(url, "PUT", f"tenants/{TENANT}", {"adminRoles": [], "allowedClusters": [cluster]})
    ask(url, "PUT", f"namespaces/{NAMESPACE}")


async def create(url: str, first: int, last: int, deadline: float, *, pause: float = 1.0) -> Created:
    """Topics ``first`` to ``last - 1``, which the broker opens as it makes them, until a time of time.monotonic.

    ``pause`` is what is waited after a failure, in seconds; longer after each further one.
    """
    begin, numbers, made, stopped = time.monotonic(), iter(range(first, last)), [0], list[str]()
    limit = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with aiohttp.ClientSession(
        url, connector=connector, timeout=limit, headers={"Content-Type": "application/json"}
    ) as session:

        async def work(left: Iterator[int]) -> None:
            for number in left:
                if stopped:
                    return
                if time.monotonic() > deadline:
                    stopped.append("time is up")
                    return
                error = await _put(session, number, pause)
                if error:
                    stopped.append(error)
                    return
                made[0] += 1

        await asyncio.gather(*(work(numbers) for _ in range(AT_ONCE)))
    return Created(first + made[0], time.monotonic() - begin, stopped[0] if stopped else "")


async def _put(session: aiohttp.ClientSession, number: int, pause: float) -> str:
    """Make one topic; why it could not be made, or ""."""
    path, error = name(number).replace("://", "/"), ""
    for again in range(TRIES):
        try:
            async with session.put(f"/admin/v2/{path}") as answer:
                if answer.status in MADE:
                    return ""
                error = f"{answer.status} {(await answer.text())[:200]}"
        except (aiohttp.ClientError, TimeoutError) as found:
            error = f"{type(found).__name__}: {found}"
        await asyncio.sleep((again + 1) * pause)
    return error


@dataclass(frozen=True)
class Server:
    """One Java process, by what it and the kernel say of it."""

    admin_url: str
    pid: int
    log: Path

    def topics(self) -> int:
        """How many topics the broker has open."""
        return int(self._metric("pulsar_broker_topics_count"))

    def live_heap(self) -> int:
        """Bytes in the heap after a full collection."""
        subprocess.run(["jcmd", str(self.pid), "GC.run"], check=True, capture_output=True, timeout=120)
        return int(self._metric("jvm_memory_bytes_used", 'area="heap"'))

    def resident(self) -> int:
        """Bytes of resident memory."""
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0

    def died_of(self) -> str:
        """What the log says of an end for want of memory, or ""."""
        found = re.search(r"^.*OutOfMemoryError.*$", self.log.read_text(errors="replace"), re.MULTILINE)
        return found[0][:200] if found else ""

    def _metric(self, name: str, label: str = "") -> float:
        start, part = f"{name}{{".encode(), label.encode()
        with urllib.request.urlopen(f"{self.admin_url}/metrics/", timeout=120) as answer:
            for line in answer:
                if line.startswith(start) and part in line:
                    return float(line.rpartition(b" ")[2])
        raise LookupError(f"{self.admin_url}/metrics/ has no {name}")


def sync_seconds(folder: Path, count: int = 200) -> list[float]:
    """How long the disk takes to make 4 KiB that are appended to a file safe (fdatasync), time after time."""
    found = []
    with (folder / "sync-probe").open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 4096)
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - begin)
    return found
