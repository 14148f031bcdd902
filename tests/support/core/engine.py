"""Helpers for tests of the engine: one over fakes, running, told by a watch."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.engine import Engine
from pulsar_operator.controllers.core.reconciler import Reconciler
from pulsar_operator.ports import Deps, Key
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.support.core.clocks import SteppingClock
from tests.support.core.recorder import CountingMetrics


def key(name: str, kind: Kind = Kind.TOPIC) -> Key:
    """An object of the tests' namespace."""
    return Key(kind, "ns", name)


def engine_of(
    reconciler: Reconciler | dict[Kind, Any], *, kube: FakeKube | None = None, **options: Any
) -> tuple[Engine, CountingMetrics]:
    """An engine whose passes are the reconciler's, and its metrics; without options it does not resync in time."""
    metrics = CountingMetrics()
    deps = Deps(
        kube=kube or FakeKube(),
        zookeeper=None,  # type: ignore[arg-type]
        admin=None,  # type: ignore[arg-type]
        clock=SteppingClock(),
        entropy=None,  # type: ignore[arg-type]
        metrics=metrics,
        bookies=FakeBookies(),
    )
    reconcilers = reconciler if isinstance(reconciler, dict) else dict.fromkeys(Kind, reconciler)
    options.setdefault("rng", random.Random(1))
    options.setdefault("resync_seconds", 10_000.0)
    return Engine(deps, reconcilers, **options), metrics


class Running:
    """``async with Running(engine)``: started, listed, idle; stopped at the end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stop = asyncio.Event()

    async def __aenter__(self) -> Running:
        self.task = asyncio.create_task(self.engine.run(self.stop))
        await self.engine.ready.wait()
        await self.engine.idle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await self.task


def watch(kube: FakeKube, engine: Engine) -> None:
    """Tell the engine of every change, as the operator's watches do."""
    kinds = {kind.value: kind for kind in Kind}
    kube.subscribe(
        lambda change, obj: (
            engine.observe(kinds[obj["kind"]], obj, deleted=change == "DELETED")
            if obj["kind"] in kinds
            else engine.observe_child(obj)
        )
    )
