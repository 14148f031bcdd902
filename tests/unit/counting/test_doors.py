"""The maker of new connections sees each that fails, and that there were none."""

from __future__ import annotations

from e2e.support.doors import Doors
from e2e.support.eventually import eventually


def test_answers_are_counted_and_nothing_else_is_said() -> None:
    with Doors("http://unused", lambda: None) as doors:
        eventually(lambda: doors.answered >= 3, what="three answers", within=10)
        assert doors.failures() == []


def test_a_refused_connection_is_a_failure_and_so_is_silence() -> None:
    def refused() -> None:
        raise ConnectionRefusedError("closed")

    with Doors("http://unused", refused) as doors:
        eventually(doors.failures, what="failures", within=10)
        found = doors.failures()
    assert "ConnectionRefusedError: closed" in found[0] and found[-1] == "no connection was answered"


def test_without_a_call_there_is_nothing_to_trust() -> None:
    assert Doors("http://unused", lambda: None).failures() == ["no connection was answered"]
