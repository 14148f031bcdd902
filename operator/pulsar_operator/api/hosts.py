"""Which hosts belong to a cluster, by their names."""

from __future__ import annotations

from collections.abc import Iterable


def is_host_of(host: str, hosts: Iterable[str]) -> bool:
    """Whether a host has one of these names, or ends with one that begins with a dot."""
    name = host.lower().rstrip(".")
    return any(name.endswith(each) if each.startswith(".") else name == each for each in map(str.lower, hosts))
