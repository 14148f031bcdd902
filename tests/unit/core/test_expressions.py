"""domain/expressions.py: expressions of others, as Java's String.matches takes them, in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.expressions import MAX_LENGTH, MAX_WORK, Work, covers, is_re2, unevaluated

LONG = "a" * 250


def test_an_expression_covers_the_whole_text() -> None:
    assert covers(["b-0"], "b-0") and not covers(["b-0"], "b-0.h") and not covers(["0.h"], "b-0.h")
    assert covers(["x", "b-.*"], "b-0.h") and covers([], "b-0.h") is False
    assert covers(["a|ab"], "ab") and covers(["shop/(a|b)[0-9]{1,2}"], "shop/a12")
    assert covers([".*"], "") and covers(["x.*"], "x") and covers([r"b-0\\..*"], "b-0.h") is False
    assert covers([r"b-0\..*"], "b-0.h") and covers([r"\Qa.b\E"], "a.b") and not covers([r"\Qa.b\E"], "axb")


@pytest.mark.parametrize(
    "expression", ["([a-z0-9.-]+)+!", "(a|a)*b", "(a*)*b", "(.*)*x", "((a+)+)+$b", "(a?){200}a{200}"]
)
def test_what_makes_a_backtracking_engine_hang_has_an_answer(expression: str) -> None:
    assert covers([expression], LONG) is (expression == "(a?){200}a{200}")


UNKNOWN = [
    "(?=x).*", "(?!x).*", "(?<=x).*", "(?<!x).*", r"(a)\1", r"\12", r"\0101", "a++", "a*+", "a{2}+", "(?>a).*",
    "[a[b]]", "[a-z&&[^b]]", r"\p{Alpha}", r"\Z", r"\h", r"\v", r"\R", "(?x)a b", "(?u)a", "(?U)a", "(?d)a", "(",
    "[", "a)", "*", "a{1001}", "((((a{30}){30}){30}){30})", "(?P<n>a)", "x" * MAX_LENGTH + "()", "\ud800()",
    "[[:alpha:]]", "[^[a]]", "{", "a{,2}", "a{x}", "a{1", "a(?i)*",
]  # fmt: skip


@pytest.mark.parametrize("expression", UNKNOWN)
def test_what_cannot_be_evaluated_is_unknown(expression: str) -> None:
    """Neither a match nor none, unless another expression matches."""
    assert covers([expression], "a") is None
    assert covers(["b", expression], "a") is None
    assert covers([expression, "a"], "a") is True
    assert unevaluated(["a.*", expression, "[a]"]) == [expression]


KNOWN = [
    "(?i)A",
    "(?s).",
    "(?:a)",
    "(?<n>a)",
    "[]a]",
    "[^]b]",
    r"\Qa\E",
    "[a&]",
    r"[\[a]",
    r"[a\]]",
    "(?i:A)",
    r"\p{L}",
]


@pytest.mark.parametrize("expression", KNOWN)
def test_what_both_read_alike_is_evaluated(expression: str) -> None:
    assert covers([expression], "a") is True
    assert unevaluated([expression]) == []


def test_a_dot_is_no_line_break() -> None:
    assert covers(["a.*"], "a\nb") is False and covers([".*"], "\u2028") is False
    assert covers(["a.b"], "a\nb") is None, "Java and RE2 differ in which characters these are"
    assert covers([r"\b.?"], "\u00e9") is None, "and in what is a word"


def test_work_is_bounded() -> None:
    """Each match costs by the size of the expression and of the text; what is left over is unknown."""
    work = Work(2)
    assert [covers(["[a]"], "a", work) for _ in range(4)] == [True, True, None, None]
    assert covers(["a", "a.*"], "ab", work) is True, "what needs no engine costs nothing"
    work = Work(MAX_WORK)
    covers(["(a{100}|b{100}|c{100}){5}"], LONG, work)
    assert work.left < MAX_WORK - 50


def test_what_the_api_server_takes() -> None:
    assert is_re2("[a[b]]") and is_re2(r"\p{L}") and is_re2("x" * 256)
    assert not is_re2("(?=a)") and not is_re2("(" * 5000), "no recursion either"


@given(st.text("ab/.*-", max_size=8), st.text("ab/.-", max_size=8))
def test_simple_expressions_are_as_for_any_engine(expression: str, text: str) -> None:
    try:
        wanted = re.fullmatch(expression, text) is not None
    except re.error:
        return
    found = covers([expression], text)
    assert found is None or found is wanted
