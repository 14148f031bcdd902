"""Processes of the instance that are killed or stand still, and what admin REST shows of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pulsar_conformance.admin import Admin, AdminError
from pulsar_conformance.context import Context
from pulsar_conformance.kit.bundles import owner
from pulsar_conformance.model import CheckFailed

_ENSEMBLES = re.compile(r"ensembles=\{([^}]*)\}")
_ENSEMBLE = re.compile(r"\[([^\]]*)\]")
_LAST = re.compile(r"lastEntryId=(-?\d+)")
_CLOSED = "state=CLOSED"


@contextmanager
def standing_still(ctx: Context, target: str) -> Iterator[None]:
    """A process stands still, and continues at the end whatever comes."""
    try:
        ctx.fault("pause", target)
        yield
    finally:
        ctx.fault("resume", target)


def quick(ctx: Context, seconds: float = 5) -> Admin:
    """Admin REST with short timeouts: a paused process accepts a call and never answers it."""
    return replace(ctx.admin, timeout=seconds)


def owner_now(ctx: Context, topic: str) -> str:
    """Host name of the broker that serves a topic, from the first broker that answers quickly."""
    return owner(ctx, topic, admin=quick(ctx)).removeprefix("pulsar://").rsplit(":", 1)[0]


def session(ctx: Context) -> float:
    """Seconds after which ZooKeeper gives up a broker that is silent; the check is skipped where that is too long."""
    name = "metadataStoreSessionTimeoutMillis"
    seconds = ctx.number(name) / 1000
    ctx.require(seconds, f"brokers do not say their {name}")
    return ctx.within_limit(seconds, f"{name}={ctx.setting(name)}")


def zookeepers(ctx: Context, number: int) -> int:
    """How many ZooKeeper servers there are; the check is skipped where there are fewer, or is another store.

    One address may stand for all of them, as a Service does: then the fault command says how many there are, by an
    action that leaves those alone that run.
    """
    url = ctx.setting("metadataStoreUrl")
    ctx.require(url.startswith("zk:"), f"needs ZooKeeper, brokers have metadataStoreUrl={url}")
    found = len(url.removeprefix("zk:").partition("/")[0].split(","))
    if found < number:
        found = len([each for each in ctx.fault("resume", "zookeeper").split(",") if each.strip()])
    ctx.require(found >= number, f"needs {number} ZooKeeper servers, there are {found}")
    return found


@dataclass(frozen=True)
class Copies:
    """On which bookies a ledger is, and how far it goes, by BookKeeper's own metadata."""

    id: int
    closed: bool
    last: int
    """The last entry of a closed ledger; -1 for none, and while it is open."""
    ensembles: tuple[tuple[str, ...], ...]
    """Bookies of each part of it, in the order of the parts."""

    def names(self, bookie: str) -> bool:
        """Whether a part of it is to be on this bookie."""
        return any(bookie in ensemble for ensemble in self.ensembles)


def copies(ctx: Context, topic: str) -> list[Copies]:
    """Where the ledgers of a topic are, the oldest first."""
    found = quick(ctx).get(f"{ctx.path(topic)}/internalStats", metadata=True)
    return [_copies(one) for one in found["ledgers"]]


def _copies(one: dict[str, Any]) -> Copies:
    text = str(one.get("metadata"))
    ensembles, last = _ENSEMBLES.search(text), _LAST.search(text)
    if ensembles is None:
        raise CheckFailed(f"ledger {one['ledgerId']} has no metadata of BookKeeper: {text}")
    parts = tuple(tuple(part.split(", ")) for part in _ENSEMBLE.findall(ensembles[1]))
    return Copies(int(one["ledgerId"]), _CLOSED in text, int(last[1]) if last else -1, parts)


def made(ctx: Context, path: str, body: Any = None, *, within: float) -> int:
    """Make a topic, by its path below /admin/v2, asking again; how often it was refused."""
    refused = 0

    def there() -> bool:
        nonlocal refused
        try:
            quick(ctx).put(path, body)
        except (AdminError, OSError) as error:
            refused += 1
            # A call that was refused may have been carried out.
            if isinstance(error, AdminError) and error.status == 409 and refused > 1:
                return True
            raise
        return True

    ctx.eventually(there, f"{path} is made", within=within)
    return refused


def none_made(ctx: Context, path: str, end: float, body: Any = None) -> int:
    """Try until then to make topics, which must fail; how often. ``path`` is one's below /admin/v2, {} its number."""
    refused = 0
    while (left := end - time.monotonic()) > 0:
        try:
            quick(ctx, min(max(left, 0.1), 5)).put(path.replace("{}", str(refused)), body)
        except (AdminError, OSError):
            refused += 1
            time.sleep(min(0.5, max(0.0, end - time.monotonic())))
        else:
            raise CheckFailed("a topic was made: not all ZooKeeper servers stand still")
    return refused


def addresses(ctx: Context, topic: str) -> dict[str, str]:
    """From where the connections of a topic's producers come, by the producers' names: ``10.0.0.7:41234``."""
    found = quick(ctx).get(f"{ctx.path(topic)}/stats")
    return {one["producerName"]: str(one["address"]).lstrip("/") for one in found["publishers"] if one.get("address")}


def host(address: str) -> str:
    """An address without its port."""
    return address.rsplit(":", 1)[0]
