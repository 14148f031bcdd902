"""The operator ends at any write of the deletion of a topic that is replicated, or any call of it has no answer: the
topic is gone in the end, and no list of clusters waits for one that is made again under its name."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.logical import replicated_topic_deletion
from pulsar_operator.ports import DeadlineError
from tests.fakes.admin import AdminCall
from tests.fakes.killed import Killed
from tests.support.logical.topic_sets import SET
from tests.support.sampling import first, sample_or_each
from tests.unit.logical.test_replicated_deletion import KINDS, Replicated, made

FAILURES = [(Killed, "before"), (Killed, "after"), (DeadlineError, "before"), (DeadlineError, "after")]


class Fault:
    """The n-th call, or the n-th write, fails without effect or loses its answer; a process that ended does no more."""

    def __init__(self, found: Replicated, at: int, error: type[BaseException], when: str) -> None:
        self.error, self.at, self.when, self.seen = error, at, when, 0
        self.over = False
        found.w.admin.before.append(lambda call: self.look(call, "before"))
        found.w.admin.after.append(lambda call: self.look(call, "after"))

    @property
    def met(self) -> bool:
        return self.seen >= self.at

    def look(self, call: AdminCall, when: str) -> None:
        if self.over:
            return
        ended = self.error is Killed
        if ended and self.met:
            raise Killed
        if when == self.when and (call.is_write or not ended):
            self.seen += 1
            if self.met:
                self.over = not ended
                raise self.error("lost")


async def play(kind: Kind, clusters: str, spec: dict[str, Any], policy: str, **fault: Any) -> tuple[bool, Replicated]:
    """Whether the fault was met, and what is left."""
    found = await made(kind, clusters, **spec)
    found.declare(policy, **spec)
    happens = Fault(found, **fault)
    try:
        await found.delete()
    except (Killed, BaseExceptionGroup):
        found.w.restart()
    happens.over = True
    await found.work()
    return happens.met, found


@pytest.mark.parametrize("every", sample_or_each(7))
@pytest.mark.parametrize(("error", "when"), FAILURES)
@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("clusters", ["ab", "abc"])
@pytest.mark.parametrize(("kind", "policy"), [(Kind.TOPIC, "Delete"), (Kind.TOPIC, "ForceDelete"), (SET, "Delete")])
async def test_it_ends_anywhere(
    kind: Kind,
    policy: str,
    clusters: str,
    spec: dict[str, Any],
    error: type[BaseException],
    when: str,
    every: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        replicated_topic_deletion, "APART_SECONDS", 0.0
    )  # what replicates it still in the end is waited for
    met, at = True, 1 + first(every)
    while met:
        met, found = await play(kind, clusters, spec, policy, at=at, error=error, when=when)
        policies = found.w.pulsar.topic_policies
        lists = {place: held for place, held in policies.items() if place[1].endswith("/x-0") and any(held.values())}
        assert found.gone, f"{at}: {found.told()}"
        assert not any(found.parts(cluster) for cluster in clusters) and not found.w.pulsar.partitioned, at
        assert lists == {}, at
        at += every
    assert at > every + 1
