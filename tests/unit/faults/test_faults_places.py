"""Which requests the wire matrices disturb, and that a fault comes at the request it is meant for and at no other."""

from __future__ import annotations

import pytest

from tests.support.faults.http import Request, Wire
from tests.support.faults.wire_cases import CREATE, DELETE, KUBERNETES, Case, common

TENANT, STATUS = "GET /tenants/case1", "PATCH /tenants/case1/status"


def requests(case: str, *words: str) -> list[Request]:
    return [Request(f"{each}/{case}", write=each.startswith("PATCH")) for each in words]


def test_places_are_what_every_undisturbed_run_asks() -> None:
    first = requests("case1", "GET a", "PATCH b", "GET a", "GET c", "GET a")
    second = requests("case2", "GET c", "GET a", "GET d", "GET a", "PATCH b", "PATCH b")
    assert [each.words for each in common([first, second])] == [
        "GET a/case1",
        "PATCH b/case1",
        "GET a/case1",
        "GET c/case1",
    ]
    assert common([first]) == first
    assert common([first, []]) == []


@pytest.mark.parametrize(
    ("case", "certain"),
    [
        (Case(KUBERNETES, CREATE, "500", 0, STATUS), True),
        (Case(KUBERNETES, CREATE, "500", 1, STATUS), False),
        (Case(KUBERNETES, DELETE, "500", 0, STATUS), False),
        (Case(KUBERNETES, DELETE, "500", 0, TENANT), True),
        (Case(KUBERNETES, DELETE, "500", 0, "GET /clusters", shared=True), False),
    ],
)
def test_what_is_certain(case: Case, certain: bool) -> None:
    assert case.certain is certain


def test_a_fault_comes_at_its_request_once() -> None:
    wire = Wire()
    armed = wire.arm("case1", "500", STATUS, 1)
    taken = [
        wire.take(Request(words, write=True))
        for words in (STATUS, TENANT, "PATCH /tenants/case2/status", STATUS, STATUS)
    ]
    assert taken == [None, None, None, "500", None]
    assert armed.came.is_set()
    assert [each.words for each in wire.seen["case1"]] == [STATUS, TENANT, STATUS, STATUS]


def test_a_fault_that_was_called_off_does_not_come() -> None:
    wire = Wire()
    armed = wire.arm("case1", "500", STATUS, 0)
    wire.calm("case1")
    assert wire.take(Request(STATUS, write=True)) is None
    assert not armed.came.is_set()
