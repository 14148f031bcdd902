"""Names of brokers and topics for people, without their common parts. A status has ids. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_HOST: Final = r"[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)+|[0-9]+(?:\.[0-9]+){3}"
_ID: Final = re.compile(rf"(?<![\w./-])(?:{_HOST}):[0-9]{{1,5}}(?![\w/])")
"""A broker's id in a sentence: a host of several labels or an address, and a port."""


def short_brokers(brokers: Iterable[str]) -> dict[str, str]:
    """Short name of each broker's id (host:webPort): its host without the labels that all hosts end with.

    In Kubernetes that is the name of the pod. The first label always stays, and so does an address; a port goes where
    it is the same for all. Different ids have different short names.
    """
    ids = sorted(set(brokers))
    hosts, ports = zip(*map(_host_and_port, ids), strict=True) if ids else ((), ())
    labels = [host.split(".") for host in hosts]
    drop = 0 if any(map(_is_address, hosts)) else _common([each[:0:-1] for each in labels])
    ends = [""] * len(ids) if len(set(ports)) == 1 else [f":{port}" if port else "" for port in ports]
    if len(ids) == 1 and not _is_address(hosts[0]):
        drop = len(labels[0]) - 1
    return {
        each: ".".join(parts[: len(parts) - drop]) + end for each, parts, end in zip(ids, labels, ends, strict=True)
    }


def shortened(text: str, brokers: Iterable[str] = ()) -> str:
    """Returns a sentence with short names for the brokers' ids in it; ``brokers`` are others from which these must
    differ. Ids in a URL stay.
    """
    short = short_brokers({*_ID.findall(text), *brokers})
    return _ID.sub(lambda found: short[found[0]], text)


def short_topics(topics: Iterable[str]) -> dict[str, str]:
    """Short name of each topic: without the domain, tenant and namespace that all of them have in common.

    Different topics have different short names.
    """
    names = sorted(set(topics))
    parts = [name.split("/") for name in names]
    drop = _common([each[:-1] for each in parts])
    return {name: "/".join(each[drop:]) for name, each in zip(names, parts, strict=True)}


def fitted(names: Sequence[str], most: int) -> list[str]:
    """Returns the names with at most a number of characters, cut in the middle, since they differ at the end or at the
    beginning. If different names would become equal, more of all is kept.
    """
    longest = max(map(len, names), default=0)
    while most < longest:
        found = [_cut(name, most) for name in names]
        if len(set(found)) == len(set(names)):
            return found
        most += 1
    return list(names)


def _cut(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    end = (most - 1) * 2 // 3
    return f"{name[: most - 1 - end]}…{name[len(name) - end :]}"


def _host_and_port(broker: str) -> tuple[str, str]:
    host, mark, port = broker.rpartition(":")
    return (host, port) if mark and port.isdigit() else (broker, "")


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdigit()


def _common(parts: Sequence[Sequence[str]]) -> int:
    """Returns how many of the first parts are the same in all."""
    count = 0
    for each in zip(*parts, strict=False):
        if len(set(each)) > 1:
            break
        count += 1
    return count
