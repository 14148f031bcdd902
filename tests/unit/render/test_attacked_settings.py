"""Attacks on the check of config keys: input that decides the running time, keys that slip through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.render.settings import KnownSettings, judge
from pulsar_operator.runtime import known_settings

KNOWN = known_settings()


class Counted(dict[str, str]):
    """A config that counts how often it is read as a whole."""

    reads = 0

    def items(self) -> Any:
        """See dict."""
        self.reads += 1
        return super().items()


def test_a_config_of_unknown_keys_is_read_a_fixed_number_of_times() -> None:
    """The largest one that a CRD lets through took minutes of the only thread, in each pass."""
    config = Counted({f"unknown{number}": "a,b" for number in range(512)})
    assert len(judge(Component.BROKER, "4.0.8", config, KNOWN).problems) == 512
    assert config.reads <= 3


@pytest.mark.parametrize("key", ["managedLedgerOffloadDriver", "PULSAR_PREFIX_managedLedgerOffloadDriver"])
def test_offload_slips_through_by_no_spelling(key: str) -> None:
    found = judge(Component.BROKER, "4.0.8", {key: "aws-s3", "entryFilterNames": "mine"}, KNOWN)
    assert "managedLedgerOffloadDriver" not in {each.strip().removeprefix("PULSAR_PREFIX_") for each in found.applied}


def hostile() -> Iterator[str]:
    """Values that a class name could be looked for in for ever."""
    yield "a." * 4000
    yield "a_" * 4000
    yield "," * 8192
    yield ("a." * 40 + "!,") * 100


@pytest.mark.parametrize("value", [*hostile()], ids=["dots", "words", "commas", "both"])
def test_a_long_value_ends(value: str) -> None:
    found = judge(Component.BROKER, "4.0.8", {"nosuchkeyatall": value}, KNOWN)
    assert len(found.problems) == 1


def test_a_version_without_a_list_applies_all() -> None:
    assert judge(Component.BROKER, "9.9.9", {"x": "1"}, KnownSettings()).applied == {"x": "1"}
