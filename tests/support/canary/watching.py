"""A world whose operator runs as the process does, and all that people other than its authors see of an object."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pulsar_operator.adapters.sizing import HttpSizing
from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, API_VERSION, Kind
from pulsar_operator.controllers.core.engine import Engine
from pulsar_operator.logs import JsonFormatter
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, SERVICES, STATEFUL_SETS, Key
from tests.support.admission.samples import minimal
from tests.support.canary.places import CANARY, planted, taken
from tests.support.cluster.world import NS, ClusterWorld

Json = dict[str, Any]
OTHER, DRIFTED = CANARY.replace("7", "8"), CANARY.replace("7", "9")
"""The value after a change by the user, and one that somebody else wrote in its place."""
WORD = "canary"
CHILDREN = (STATEFUL_SETS, CONFIG_MAPS, SERVICES)
NAMES = {Kind.INSTANCE: "demo", Kind.CLUSTER: "east"}
UNREADABLE = (
    lambda text: {"unknown": text},
    lambda text: [text],
    lambda text: text * 7000,
    lambda text: f"{text}\n\x00 ",
    lambda text: f" {text}/../{text}",
)
"""What the definition may let pass, or an older one let pass, and the model does not read."""


class CanaryWorld(ClusterWorld):
    """Passes are the engine's, so that its lines of the log are there too."""

    async def reconcile(self, key: Key) -> None:
        """One pass."""
        engine = Engine(self.deps, self.controllers)
        await engine._pass(key)
        engine._queue.close()

    async def rounds(self, number: int) -> None:
        """Some passes over everything."""
        for _ in range(number):
            await self.round()


class Seen(logging.Handler):
    """Everything that could be seen, by where."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[tuple[str, str]] = []
        self._formatter = JsonFormatter()

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the log as the process writes it, its traceback too."""
        self.texts.append(("log", self._formatter.format(record)))

    async def look(self, world: ClusterWorld) -> None:
        """Events and status of every object."""
        self.texts += [("event", f"{event.reason}: {event.message}") for event in world.journal.events]
        world.journal.events.clear()
        for kind in Kind:
            for obj in await world.backstage.all(CUSTOM[kind]):
                self.texts.append((f"status of {kind.value}", json.dumps(obj.get("status"))))

    def leaks(self) -> list[str]:
        """Where the word was seen, each text once."""
        return sorted({f"{where}: {_around(text)}" for where, text in self.texts if WORD in text.lower()})


def _around(text: str) -> str:
    at = text.lower().index(WORD)
    return text[max(0, at - 150) : at + 60]


@contextmanager
def watched() -> Iterator[Seen]:
    """All that is logged and shown meanwhile."""
    seen, root = Seen(), logging.getLogger("pulsar_operator")
    level = root.level
    root.addHandler(seen)
    root.setLevel(logging.DEBUG)
    try:
        yield seen
    finally:
        root.removeHandler(seen)
        root.setLevel(level)


def name_of(kind: Kind) -> str:
    """metadata.name of the object the canary is in."""
    return NAMES.get(kind, "bird")


def spec_of(world_spec: Json | None, kind: Kind) -> Json:
    """The specification without a canary."""
    if world_spec is not None:
        return copy.deepcopy(world_spec)
    return {**minimal(kind), **({"trafficSource": "Recorded"} if kind is Kind.REBALANCE else {})}


async def live(base: ClusterWorld, kind: Kind, path: str, seen: Seen) -> None:
    """The life of an object with the canary at a place: made, changed, changed by others, in dry run, unreadable,
    deleted."""
    found = await base.live(kind, name_of(kind))
    plain = spec_of(None if found is None else found["spec"], kind)
    form = taken(kind, plain, path)
    world = await _restarted(base)
    if form is not None:
        await _apply(world, kind, planted(kind, plain, path, form))
        await _rounds(world, seen, 5)
        await _drift(world)
        await _rounds(world, seen, 3)
        await _apply(world, kind, planted(kind, plain, path, form.replace(CANARY, OTHER)), dry_run=True)
        await _rounds(world, seen, 2)
        await _apply(world, kind, planted(kind, plain, path, form.replace(CANARY, OTHER)), dry_run=False)
        await _rounds(world, seen, 3)
    for unreadable in UNREADABLE:
        await _apply(world, kind, planted(kind, plain, path, unreadable(CANARY)))
        for key in await world.keys():  # without the cluster around it, which is not made for such values
            await world.reconcile(key)
        await seen.look(world)
    if form is not None:
        await _apply(world, kind, planted(kind, plain, path, form))
    await world.delete(kind, name_of(kind))
    await _rounds(world, seen, 3)


async def _restarted(base: ClusterWorld) -> CanaryWorld:
    world = copy.deepcopy(base)
    world.__class__ = CanaryWorld
    world.deps = replace(world.deps, sizing=HttpSizing())
    world.restart()
    assert isinstance(world, CanaryWorld)
    return world


async def _rounds(world: CanaryWorld, seen: Seen, number: int) -> None:
    for _ in range(number):
        await world.round()
        await seen.look(world)


async def _apply(world: CanaryWorld, kind: Kind, spec: Any, *, dry_run: bool = False) -> None:
    meta = {"name": name_of(kind), "namespace": NS, "annotations": {ANNOTATION_DRY_RUN: "true"} if dry_run else {}}
    await world.apply({"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec})


async def _drift(world: CanaryWorld) -> None:
    """Somebody else writes another value wherever the canary arrived: in Kubernetes, in Pulsar."""
    for kind in CHILDREN:
        for obj in await world.backstage.all(kind):
            if CANARY in json.dumps(obj):
                meta = obj["metadata"]
                await world.backstage.edit(kind, meta["namespace"], meta["name"], _replacing(obj))
    _rewrite(world.pulsar)


def _replacing(_: Json) -> Callable[[Json], None]:
    def change(obj: Json) -> None:
        new = _other(obj)
        obj.clear()
        obj.update(new)

    return change


def _other(value: Any) -> Any:
    if isinstance(value, dict):
        return {_other(key): _other(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_other(each) for each in value]
    return value.replace(CANARY, DRIFTED) if isinstance(value, str) else value


def _rewrite(pulsar: Any) -> None:
    """Values, not the names things are found by."""
    for name, value in vars(pulsar).items():
        if isinstance(value, dict):
            for key, each in value.items():
                if isinstance(each, (dict, list)):
                    value[key] = _other(each)
            setattr(pulsar, name, value)
