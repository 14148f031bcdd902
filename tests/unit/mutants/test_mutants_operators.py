"""What is changed, and what is left alone."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.operators import is_valid, mutations


def changed(source: str) -> set[str]:
    """The texts that come of a source."""
    return {each.apply(source) for each in mutations(source, "m")}


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a is not b", {"x = (a is b)"}),
        ("x = a not in b", {"x = (a in b)"}),
        ("x = a and b", {"x = (a or b)", "x = (a)", "x = (b)"}),
        ("x = a or {}", {"x = ({})"}),
        ("x = not a", {"x = (a)"}),
        ("x = any(a)", {"x = all(a)"}),
        ("x = min(a, b)", {"x = max(a, b)"}),
        ("x = 3", {"x = 4"}),
        ("x = 0.5", {"x = 1.0"}),
        ("x = True", {"x = False"}),
        ("x = a + b", {"x = (a - b)"}),
        ("x = [a for a in b if a.c]", {"x = [a for a in b if (not a.c)]", "x = [a for a in b if True]"}),
        ("x = a if b else c", {"x = a if (not b) else c"}),
        ("f(a)", {"pass"}),
        ("x.y = a", {"pass"}),
        ("x += y", {"pass", "x -= y"}),
        ("del x[y]", {"pass"}),
        ("if a:\n    b()", {"if (not a):\n    b()", "if a:\n    pass"}),
        ("def f(a=1): ...", {"def f(a=2): ..."}),
        ("while a: break", {"while (not a): break", "while a: continue"}),
        ("é = [('é', 1)]", {"é = [('é', 2)]"}),
    ],
)
def test_changes(source: str, mutants: set[str]) -> None:
    def same(text: str) -> str:
        return ast.unparse(ast.parse(text))

    assert {same(each) for each in changed(source)} == {same(each) for each in mutants}


@pytest.mark.parametrize(
    "source",
    [
        "import a",
        "'''words'''",
        "x = 'words'",
        "x = f'{a + 1} {b or c}'",
        "x = 'a' + b",
        "x = f'{a}' + b",
        "x = a[:300]",
        "assert a is not None",
        "raise ValueError(a + 1)",
        "log.info('x %s', a + 1)",
        "_log.warning(a)",
        "x: Literal[1]",
        "@f(1)\ndef g(): ...",
        "x = y",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert changed(source) == set()


def test_places() -> None:
    source = "def f(a):\n    if a and (\n        b > 1\n    ):\n        return [\n            1,\n        ]\n"
    found = {(each.what, each.line): (each.first, each.last) for each in mutations(source, "m")}
    assert found["Gt to GtE", 3] == (2, 4), "the condition without what depends on it"
    assert found["number changed", 6] == (5, 7)
    assert all(is_valid(each.apply(source)) for each in mutations(source, "m"))
