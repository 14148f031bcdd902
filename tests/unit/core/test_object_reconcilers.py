"""Every kind reads its object once, reports a specification that it cannot read, and writes one status."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.ports import CUSTOM, Deps, Key, NotFoundError
from pulsar_operator.runtime import controllers
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.core.clocks import SteppingClock
from tests.support.core.objects import custom
from tests.support.core.recorder import CountingMetrics

KINDS = pytest.mark.parametrize("kind", list(Kind))


class Passes:
    """Passes over one object whose specification lacks what the kind requires."""

    def __init__(self, kind: Kind) -> None:
        self.kube, self.kind = FakeKube(), kind
        self.kube.put(custom(kind, "ns", "x", {}))
        deps = Deps(self.kube, None, None, SteppingClock(), None, CountingMetrics(), FakeBookies())  # type: ignore[arg-type]
        self.controller = controllers(deps)[kind]

    async def once(self) -> Outcome:
        return await self.controller.reconcile(Key(self.kind, "ns", "x"))

    def asked(self, verb: str) -> int:
        return sum(call.verb == verb and call.kind == self.kind.value for call in self.kube.calls)


@KINDS
async def test_a_specification_that_cannot_be_read_is_reported_once(kind: Kind) -> None:
    passes = Passes(kind)
    assert await passes.once() == Outcome()
    found = condition_of(passes.kube.live(CUSTOM[kind], "ns", "x"), ConditionType.ACCEPTED)
    assert found is not None and (found["status"], found["reason"]) == ("False", Reason.INVALID_SPEC)
    assert "spec." in found["message"]
    assert (passes.asked("get"), passes.asked("apply_status")) == (1, 1)
    assert await passes.once() == Outcome()
    assert (passes.asked("get"), passes.asked("apply_status")) == (2, 1)


@KINDS
async def test_an_object_that_goes_during_the_pass_is_no_failure(kind: Kind) -> None:
    passes = Passes(kind)

    def gone(call: Call) -> None:
        if call.verb == "apply_status":
            passes.kube.remove(CUSTOM[kind], "ns", "x")

    passes.kube.before.append(gone)
    assert await passes.once() == Outcome()
    assert await passes.once() == Outcome(gone=True)


@KINDS
async def test_another_object_of_the_name_is_checked_again(kind: Kind) -> None:
    passes = Passes(kind)

    def another(call: Call) -> None:
        if call.verb == "apply_status":
            passes.kube.remove(CUSTOM[kind], "ns", "x")
            passes.kube.put(custom(kind, "ns", "x", {}))

    passes.kube.before.append(another)
    assert await passes.once() == Outcome(backoff=True)
    assert condition_of(passes.kube.live(CUSTOM[kind], "ns", "x"), ConditionType.ACCEPTED) is None


@KINDS
async def test_something_else_that_is_not_found_fails_the_pass(kind: Kind) -> None:
    passes = Passes(kind)

    def missing(call: Call) -> None:
        if call.verb == "apply_status":
            raise NotFoundError("namespaces ns not found")

    passes.kube.before.append(missing)
    with pytest.raises(NotFoundError):
        await passes.once()
