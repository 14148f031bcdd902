"""domain/bookkeeper/abandoned_ledgers.py, and what condition Replicated says of it."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.bookkeeper.abandoned_ledgers import (
    LISTED,
    GivenUp,
    given_up_data,
    given_up_text,
    parse_given_up,
    pruned,
    with_given_up,
)
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan, NamingLedger
from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, LedgerUse
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated, replicated

FACTS = StorageFacts(frozenset({"a"}), frozenset(), frozenset({"a"}), UnderReplicated(0), "auditor", False)


def scan(*numbers: int, naming: int | None = None) -> LedgerScan:
    rows = tuple(
        NamingLedger(n, LedgerState.CLOSED, frozenset({"a"}), LedgerUse.DATA, None, None, 2, True) for n in numbers
    )
    return LedgerScan(9, len(rows) if naming is None else naming, 0, 0, (), rows, ())


def test_what_is_written_is_read() -> None:
    found = {"a": GivenUp((1, 5), 2), "b": GivenUp((), 1)}
    assert parse_given_up(given_up_data(found)) == found
    assert parse_given_up(b"") == {}


@pytest.mark.parametrize("data", [b"\xff", b"[]", b'{"a": 1}', b'{"a": {"ledgers": ["x"], "more": 0}}', b"1"])
def test_what_cannot_be_read_is_not_nothing(data: bytes) -> None:
    assert parse_given_up(data) is None
    assert replicated(FACTS, given_up=None)[0].value == "Unknown"


def test_given_up_twice_is_counted_once() -> None:
    """The operator is killed between the record and the cookie."""
    once = with_given_up({}, "a", scan(5, 1))
    assert once == {"a": GivenUp((1, 5))} == with_given_up(once, "a", scan(5, 1))
    many = with_given_up({}, "a", scan(*range(LISTED), naming=LISTED + 7))
    assert many["a"].more == 7 and with_given_up(many, "a", scan(*range(LISTED), naming=LISTED + 7)) == many


def test_what_ended_is_not_on_record_any_more() -> None:
    found = {"a": GivenUp((1, 5)), "b": GivenUp((1,), 3)}
    assert pruned(found, {"a": {1}, "b": {1}}) == {"a": GivenUp((5,)), "b": GivenUp((), 3)}
    assert pruned(found, {"a": {1, 5}}) == {"b": GivenUp((1,), 3)}


def test_replicated_is_false_while_a_ledger_names_a_bookie_that_lost_it() -> None:
    assert replicated(FACTS)[0].value == "True"
    status, reason, text = replicated(FACTS, given_up={"a": GivenUp(tuple(range(21)))})
    assert (status.value, reason) == ("False", Reason.LEDGERS_LOST)
    assert text.startswith("21 ledgers reference bookie a, which lost its entries of these ledgers: 0, 1, ")
    assert "19 and 1 more" in text
    lacking = StorageFacts(frozenset({"a"}), frozenset(), frozenset(), UnderReplicated(2), "auditor", False)
    status, reason, text = replicated(lacking, given_up={"a": GivenUp((4,))})
    assert (status.value, reason) == ("False", Reason.UNDER_REPLICATED) and "1 ledger references bookie a" in text
    assert "znode" in given_up_text({"a": GivenUp((), 4)})
