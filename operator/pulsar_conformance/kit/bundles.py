"""Bundles: where they begin and end, which one a topic is in, who has it."""

from __future__ import annotations

import itertools
import zlib

from pulsar_conformance.admin import Admin
from pulsar_conformance.context import Context

TOP = 0xFFFFFFFF


def boundaries(ctx: Context, namespace: str | None = None) -> list[int]:
    """Where the namespace's bundles begin and end."""
    found = ctx.admin.get(f"namespaces/{namespace or ctx.namespace}/bundles")["boundaries"]
    return [int(text, 16) for text in found]


def bundle_of(topic: str, limits: list[int]) -> str:
    """The bundle a topic belongs to, by CRC-32 of its full name; computed here, no question to Pulsar."""
    position = zlib.crc32(topic.encode())
    for lower, upper in itertools.pairwise(limits):
        if lower <= position < upper or position == upper == TOP:
            return f"0x{lower:08x}_0x{upper:08x}"
    raise ValueError(f"{topic}: hash {position:#010x} is in none of {limits}")


def lookup_bundle(ctx: Context, topic: str) -> str:
    """The bundle a topic belongs to, as the broker says."""
    return str(ctx.admin.get(f"lookup/v2/topic/{ctx.path(topic)}/bundle"))


def owner(ctx: Context, topic: str, *, admin: Admin | None = None) -> str:
    """The broker that serves the topic; the lookup gives its bundle an owner when it has none."""
    return str((admin or ctx.admin).get(f"lookup/v2/topic/{ctx.path(topic)}")["brokerUrl"])


def even(number: int) -> list[int]:
    """Returns the boundaries of this number of bundles of equal size."""
    return [i * (2**32 // number) for i in range(number)] + [TOP]
