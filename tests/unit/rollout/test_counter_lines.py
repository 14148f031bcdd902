"""Lines of a page of metrics, written by whoever answers on the port of a pod."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.dataplane.observed import pod_counters
from pulsar_operator.domain.dataplane.observed.pod_counters import Sample, parse

NAMES = frozenset({"a", "a_total"})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a 1", Sample("a", {}, 1)),
        ("a\t1.5e3  1700000000000  ", Sample("a", {}, 1500)),
        ("a 1 -1", Sample("a", {}, 1)),
        ("a {} 1", Sample("a", {}, 1)),
        ('a{x="y"} 1', Sample("a", {"x": "y"}, 1)),
        ('a_total{x="y", _z1="} \\" ,",} 2\r', Sample("a_total", {"x": "y", "_z1": '} \\" ,'}, 2)),
        ('a{x=""} 0', Sample("a", {"x": ""}, 0)),
        ("a", None),
        ("", None),
        (" a 1", None),
        ("ab 1", None),
        ("# a 1", None),
        ("a NaN", None),
        ("a +Inf", None),
        ("a -1", None),
        ("a one", None),
        ("a 1 2 3", None),
        ("a 1 then", None),
        ('a{x="y"}1', None),
        ('a{x="y" 1', None),
        ('a{x="y\\"} 1', None),
        ("a{x=y} 1", None),
        ('a{="y"} 1', None),
        ("a{ 1", None),
        (f"a {'9' * 5000}", None),
    ],
)
def test_a_line_is_a_sample_or_left_out(line: str, found: Sample | None) -> None:
    assert parse([line], NAMES) == ([] if found is None else [found])


@given(
    st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), st.text(max_size=8), max_size=4),
    st.integers(0, 10**12),
)
def test_whatever_is_written_is_read(labels: dict[str, str], value: int) -> None:
    escaped = {key: text.replace("\\", "\\\\").replace('"', '\\"') for key, text in labels.items()}
    written = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    assert parse([f"a{{{written}}} {value}"], NAMES) == [Sample("a", escaped, value)]


@given(st.text(alphabet='a{}=", \t\\1#-', max_size=40))
def test_no_line_raises(text: str) -> None:
    parse([f"a{text}", text], NAMES)


HOSTILE: dict[str, Callable[[int], str]] = {
    "spaces": lambda n: f"a{' ' * n}x y",
    "braces": lambda n: f"a{{{'}' * n} x y",
    "braces and spaces": lambda n: f"a{{{'} ' * n}x y z",
    "no end": lambda n: "a{" + 'x="y",' * n,
    "names": lambda n: "a{" + "x" * n,
    "escapes": lambda n: 'a{x="' + "\\" * n,
    "quotes": lambda n: 'a{x="' + '"' * n,
    "commas": lambda n: "a{" + "," * n,
    "numbers": lambda n: f"a {'1' * n}",
    "fields": lambda n: f"a {'1 ' * n}",
    "tabs": lambda n: f"a{{}}{chr(9) * n}1{chr(9) * n}2{chr(9) * n}3",
}


def steps(call: Callable[[], Any]) -> int:
    """Lines of the module that are executed. Each handles at most a bounded part of the text, or the whole of it
    once."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != pod_counters.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_eight_times_the_text_takes_eight_times_the_steps_at_most(line: Callable[[int], str]) -> None:
    short, long = line(500), line(4000)
    assert steps(lambda: parse([long], NAMES)) <= 8 * steps(lambda: parse([short], NAMES)) + 50


def test_no_expression_reads_them() -> None:
    """Steps inside of one are not counted above."""
    assert not hasattr(pod_counters, "re")
