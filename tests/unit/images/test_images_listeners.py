"""A broker waits for its addresses at external listeners, says so once, and never starts without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulsar_start.advertised import SETTING, VARIABLE, WAIT_SECONDS, await_listeners
from pulsar_start.errors import StartError

ADDRESSES = "internal:pulsar://b-0.b:6650,external:pulsar://nodes.example.com:30000"


class Time:
    """A clock that goes on while somebody waits; after ``after`` seconds the file is there."""

    def __init__(self, file: Path, after: float | None = None, text: str = ADDRESSES) -> None:
        self.now, self._file, self._after, self._text = 0.0, file, after, text
        self.said: list[str] = []
        self._look()

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self._look()

    def _look(self) -> None:
        if self._after is not None and self.now >= self._after:
            self._file.write_text(self._text)


def settings(time: Time, environ: dict[str, str]) -> dict[str, str]:
    return await_listeners(environ, time.said.append, time, time.pause)


def test_without_listeners_nothing_is_waited_for(tmp_path: Path) -> None:
    time = Time(tmp_path / "b-0")
    assert settings(time, {}) == {} and time.said == [] and time.now == 0


@pytest.mark.parametrize(("after", "lines"), [(0, 1), (40, 2), (WAIT_SECONDS - 1, 2)])
def test_addresses_are_awaited(tmp_path: Path, after: float, lines: int) -> None:
    file = tmp_path / "b-0"
    time = Time(file, after)
    assert settings(time, {VARIABLE: str(file)}) == {SETTING: ADDRESSES}
    assert len(time.said) == lines and time.said[-1].endswith(ADDRESSES)


@pytest.mark.parametrize(("after", "text"), [(None, ""), (5, "\n")])
def test_a_broker_without_addresses_does_not_start(tmp_path: Path, after: float | None, text: str) -> None:
    file = tmp_path / "b-0"
    time = Time(file, after, text)
    with pytest.raises(StartError, match=r"b-0 does not exist. See condition ListenersReady of the PulsarCluster"):
        settings(time, {VARIABLE: str(file)})
    assert WAIT_SECONDS <= time.now < WAIT_SECONDS + 5
    assert len(time.said) == 1
