"""Which hosts belong to a cluster, by their names."""

from __future__ import annotations

from collections.abc import Iterable


def is_host_of(host: str, hosts: Iterable[str]) -> bool:
    """Returns whether the host equals a name in ``hosts``, or ends with an entry that starts with a dot (a domain
    suffix)."""
    name = host.lower().rstrip(".")
    return any(name.endswith(each) if each.startswith(".") else name == each for each in map(str.lower, hosts))
