"""What one change costs: calls that clusters answered, and requests that ZooKeeper had, by whose they were."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.config_store.broker import cluster_node

REQUEST = re.compile(r"Processing request:: sessionid:(0x[0-9a-f]+) type:(\w+) .* reqpath:(\S+)")
"""As class Request of ZooKeeper prints it (its log, see RealZooKeeper)."""
OPERATOR = "operator"
NEW_SESSION = "createSession"


@dataclass(frozen=True)
class Request:
    """One request that a ZooKeeper server processed."""

    session: str
    kind: str
    """As ZooKeeper calls it: getData, exists, setData."""
    path: str


def requests(lines: Iterable[str]) -> list[Request]:
    """The requests in a server's log."""
    return [Request(*found.groups()) for line in lines if (found := REQUEST.search(line))]


def logged(log: Path, start: int = 0) -> list[Request]:
    """The requests in the file of a log from a position on."""
    with log.open(encoding="utf-8", errors="replace") as stream:
        stream.seek(start)
        return requests(stream)


def owners(found: Iterable[Request], clusters: Collection[str]) -> dict[str, str]:
    """Cluster by session: each broker watches the node of its own cluster."""
    names = {cluster_node(cluster): cluster for cluster in clusters}
    return {each.session: names[each.path] for each in found if each.kind == "exists" and each.path in names}


def by_owner(
    found: Iterable[Request], paths: Collection[str], known: Mapping[str, str], without: Collection[str] = ()
) -> Counter[tuple[str, str]]:
    """Requests about some nodes by whose they were and kind; what is no broker's is the operator's, but for sessions
    ``without``."""
    return Counter(
        (known.get(each.session, OPERATOR), each.kind)
        for each in found
        if each.path in paths and each.session not in without
    )


def watched(found: Iterable[Request], known: Mapping[str, str]) -> set[str]:
    """Nodes that the operator watches, or asked for so far."""
    return {each.path for each in found if each.kind == "exists" and each.session not in known}


def calls_about(calls: Mapping[str, int], names: Collection[str]) -> Counter[str]:
    """Of calls by method and path those about some namespaces, by method and path without their names."""
    out: Counter[str] = Counter()
    for call, number in calls.items():
        method, path = call.split(" ", 1)
        kind, *segments = path.split("/")
        if kind == "namespaces" and "/".join(segments[:2]) in names:
            out[" ".join((method, "/".join((kind, "~", "~", *segments[2:]))))] += number
    return out
