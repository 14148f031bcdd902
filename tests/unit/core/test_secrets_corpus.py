"""domain/texts.py: what is secret, by one list, over one corpus; and text that can be seen."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.export.policies import shown
from pulsar_operator.domain.logical.plan import printable
from pulsar_operator.domain.texts import contains_secret, is_secret_name, visible, without_secrets
from pulsar_operator.logs import JsonFormatter, TextFormatter
from tests.support.core.clocks import SteppingClock
from tests.support.secrets.corpus import INNOCENT, PLANTED, PLANTED_LATER, RANDOM, Planted


@pytest.mark.parametrize("planted", [*PLANTED, *PLANTED_LATER, *RANDOM], ids=lambda p: f"{p.name}={p.value[:30]}")
def test_a_planted_secret_is_known(planted: Planted) -> None:
    assert contains_secret(planted.name, planted.value)
    assert contains_secret("x", planted.value) or is_secret_name(planted.name)


@pytest.mark.parametrize("planted", [*PLANTED, *PLANTED_LATER], ids=lambda p: f"{p.name}={p.value[:30]}")
def test_a_planted_secret_is_left_out_of_text(planted: Planted) -> None:
    value = planted.value.replace("\n", " ")
    quoted = json.dumps(value)
    for text in (
        f"{planted.name}={quoted}" if " " in value else f"{planted.name}={value}",
        f"at start {planted.name}: {quoted} and more",
        json.dumps({"a": 1, planted.name: value, "z": "end"}),
        f"--{planted.name} {quoted}",
    ):
        found = without_secrets(text)
        assert planted.secret not in found and found != text, text
    assert planted.secret not in shown({planted.name: planted.value})


@pytest.mark.parametrize(("name", "value"), INNOCENT)
def test_what_is_no_secret_stays(name: str, value: str) -> None:
    assert not contains_secret(name, value)
    assert without_secrets(f"{name}={value}") == f"{name}={value}"
    assert value in shown({name: value})


@pytest.mark.parametrize("style", ["|", ">", "|-", "> "])
def test_a_block_of_yaml_is_left_out_whole(style: str) -> None:
    text = f"password: {style}\n  planted\n  more-planted\nuser: ops"
    assert "planted" not in without_secrets(text)
    assert "user: ops" in without_secrets(text)


LONG = {
    "names": "key" * 20_000, "settings": "a=" * 20_000, "addresses": "://" * 20_000, "tokens": "eyJ" * 20_000,
    "headers": "Bearer " * 10_000, "users": "a:" * 20_000, "jaas": "jaas" * 20_000, "quotes": "'" * 40_000,
    "keys": "-----BEGIN PRIVATE KEY-----" * 2_000, "word": "x" * 60_000 + ":y", "modules": "LoginModule " * 5_000,
    "tags": "<password " * 10_000, "blocks": "key: |\n " * 10_000, "hashes": "$6$" * 20_000,
    "options": "-u a:" * 20_000, "encoded": "a%3D" * 20_000, "escapes": "key" + "\\" * 40_000,
}  # fmt: skip


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_the_length_of_a_text_decides_the_time_alone(text: str) -> None:
    """Quadratic time would take minutes."""
    without_secrets(text)
    contains_secret("x", text)


CONTROL = ["\x00", "\x1b[2J", "\x7f", "\x85", "\x9b31m", "\u200e", "\u202e", "\u2066", "\u2028", "\u061c", "\ufeff"]
CONTROL += ["\ud800", "\U000e0041"]


@pytest.mark.parametrize("char", CONTROL)
def test_control_characters_are_escaped_wherever_text_is_seen(char: str) -> None:
    text = f"topic a{char}b"
    assert visible(text).isprintable() and printable(text).isprintable()
    conditions = ConditionSet((ConditionType.READY,), (), 1, SteppingClock().now())
    conditions.set(ConditionType.READY, False, Reason.INVALID_SPEC, text)
    assert conditions.result()[0].message.isprintable()
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (text,), None)
    record.topic = text
    for formatter in (JsonFormatter(), TextFormatter()):
        assert formatter.format(record).isprintable()
    assert json.loads(JsonFormatter().format(record))["message"] == text


@given(st.text())
def test_visible_text_is_printable_and_loses_nothing(text: str) -> None:
    seen = visible(text, keep="")
    assert seen.isprintable()
    assert visible(seen) == seen
    assert seen == text or not text.isprintable()


def test_lines_of_a_message_stay_lines() -> None:
    assert visible("a\n\tb\r") == "a\n\tb\\r" and printable("a\nb") == "a\\nb"
