"""Namespaces that somebody binds to groups of bookies."""

from __future__ import annotations

import json

from tests.support.cluster.ledgers import LedgerWorld, bookie, host


def bind(world: LedgerWorld, primary: str, secondary: str | None = None, *, ensemble: int | None = None) -> None:
    """Somebody binds namespace shop/orders to groups."""
    groups = {"bookkeeperAffinityGroupPrimary": primary, "bookkeeperAffinityGroupSecondary": secondary}
    world.store.put("/admin/local-policies/shop/orders", json.dumps({"bookieAffinityGroup": groups}))
    policies = {"persistence": {"bookkeeperEnsemble": ensemble}} if ensemble is not None else {}
    world.store.put("/admin/policies/shop/orders", json.dumps(policies))


def group(world: LedgerWorld, **bookies: tuple[int, ...]) -> None:
    """Which bookies are in which group, by ordinal."""
    found = {name: {bookie(n): {"rack": "/r", "hostname": host(n)} for n in of} for name, of in bookies.items()}
    world.store.put("/bookies", json.dumps(found))
