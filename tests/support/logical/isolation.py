"""Helpers for tests of isolation policies and failure domains."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.constants import Kind
from tests.support.logical.world import LogicalWorld

PIP = Kind.ISOLATION_POLICY
SHOP: dict[str, Any] = {"namespaces": ["shop/.*"], "primary": [".*-broker-0\\..*"]}
B = [f"b-{n}.h:8080" for n in range(4)]


def domain(name: str, *brokers: str) -> dict[str, Any]:
    """A failure domain of a specification."""
    return {"name": name, "brokers": list(brokers)}


async def world(*clusters: str, **spec: Any) -> LogicalWorld:
    """A world with isolation policy i of such a specification, at rest."""
    w = LogicalWorld(*(clusters or ("a", "b")))
    w.isolation(**spec)
    await w.run()
    return w
