"""``python -m benchmarks.ledger_scan [--ledgers N]``: what it costs to examine all ledgers of a cluster.

N ledgers as Pulsar writes them, half of which name the bookie that is asked for, in a real ZooKeeper of one server on
this machine; examined as the operator does, pass after pass, with what it keeps on record, and looked at once more as
while they are copied. Prints ledgers and requests a second, the processor time of a ledger, and the largest resident
memory of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import resource
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from kazoo.client import KazooClient

from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_scan import examine_ledgers
from pulsar_operator.controllers.dataplane.bookkeeper.scan_sweep import Slice, Subject
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles, LedgerScan
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.ports import Node, ZooKeeperSession
from tests.support.bookkeeper.encoding import framed, ledger_body
from tests.support.processes.zookeeper import RealZooKeeper

BOOKIES = tuple(f"east-bookie-{n}.east-bookie-headless.pulsar.svc.cluster.local:3181" for n in range(4))
LEDGERS_OF_A_TOPIC = 10
OPEN = 10
"""One ledger of so many is open: the newest of its topic."""
AT_ONCE = 500


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger_scan", description=__doc__)
    parser.add_argument("--ledgers", type=int, default=1_000_000)
    parser.add_argument("--heap", default="3g", help="of ZooKeeper")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/ledger_scan.csv"))
    options = parser.parse_args(argv)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors before the run", flush=True)
    with RealZooKeeper(heap=options.heap) as server:
        begin = time.monotonic()
        fill(server.servers, options.ledgers)
        print(f"{options.ledgers:,} ledgers were written in {time.monotonic() - begin:.0f} s", flush=True)
        rows = asyncio.run(measure(server.servers, options.ledgers))
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    with options.csv.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return 0


def fill(servers: str, ledgers: int) -> None:
    """Each on two of four bookies, ten of a topic."""
    client = KazooClient(hosts=servers, timeout=60)
    client.start(timeout=60)
    try:
        client.ensure_path("/ledgers/available")
        pending: deque[Any] = deque()
        for number in range(ledgers):
            path = ledger_path(number)
            if number % 10_000 == 0:
                client.ensure_path(path.rpartition("/")[0])
            pending.append(client.create_async(path, _metadata(number, ledgers)))
            if len(pending) > AT_ONCE:
                pending.popleft().get()
        for each in pending:
            each.get()
    finally:
        client.stop()
        client.close()


def _metadata(number: int, ledgers: int) -> bytes:
    topics = max(1, ledgers // LEDGERS_OF_A_TOPIC)
    newest = number >= ledgers - topics
    name = f"shop/orders/persistent/topic-{number % topics:07}-partition-0"
    custom = {"application": b"pulsar", "component": b"managed-ledger", "pulsar/managed-ledger": name.encode()}
    pair = (BOOKIES[number % 4], BOOKIES[(number + 1) % 4])
    body = ledger_body(
        state="OPEN" if newest else "CLOSED",
        segments=[(0, pair)],
        last=-1 if newest else 49_999,
        length=0 if newest else 51_234_567,
        custom=custom,
        ctime=1_700_000_000_000 + number,
        password=b"secret",
    )
    return framed(body)


@dataclass
class Counted:
    """A session that counts requests."""

    inner: ZooKeeperSession
    requests: int = 0
    ledgers: int = 0

    async def get(self, path: str) -> Node | None:
        """See ports.ZooKeeperSession."""
        self.requests += 1
        self.ledgers += path.startswith("/ledgers/")
        return await self.inner.get(path)

    def __getattr__(self, name: str) -> Any:
        self.requests += 1
        return getattr(self.inner, name)


async def measure(servers: str, ledgers: int) -> list[dict[str, object]]:
    """Both examinations."""
    port = KazooZooKeeper(deadline_seconds=60)
    session = Counted(await port.session(servers))
    rows = [await _measured("before it leaves", session, _subject(""), ledgers)]
    rows.append(await _measured("a look while its ledgers are copied", session, _subject("read-only/uid/0"), ledgers))
    await port.close()
    return rows


def _subject(token: str) -> Subject:
    return Subject(
        bookie=BOOKIES[0],
        alive=frozenset(BOOKIES),
        handles=Handles(unloaded=10**15) if token else Handles(),
        now=datetime.now(UTC),
        begun=bool(token),
        token=token,
        final=False,
        ident=uuid4().hex,
    )


async def _measured(what: str, session: Counted, subject: Subject, ledgers: int) -> dict[str, object]:
    session.requests = session.ledgers = passes = 0
    begin, before, longest = time.monotonic(), os.times(), 0.0
    while True:
        passes += 1
        start = time.monotonic()
        found = await examine_ledgers(session, subject, Slice())
        longest = max(longest, time.monotonic() - start)
        if isinstance(found, LedgerScan):
            break
        print(f"  {found}", flush=True)
    spent, after = time.monotonic() - begin, os.times()
    processor = after.user + after.system - before.user - before.system
    row: dict[str, object] = {
        "what": what,
        "ledgers": ledgers,
        "seconds": round(spent, 1),
        "ledgers_read": session.ledgers,
        "ledgers_a_second": round(session.ledgers / spent),
        "requests_a_second": round(session.requests / spent),
        "processor_us_a_ledger": round(processor / max(1, session.ledgers) * 1e6),
        "passes": passes,
        "longest_pass_s": round(longest, 1),
        "naming": found.naming,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
