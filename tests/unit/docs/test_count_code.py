"""scripts/count_code.py: imports, blank lines, comments and docstrings are no code; all other lines are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "count_code.py"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ('"""A module."""\n\nfrom a import (\n    b,\n    c,\n)\nimport d  # why\n', 0),
        ("# a comment\n\nx = 1  # another\n", 1),
        ("def f():\n    '''Says\n    what.'''\n    return 1\n", 2),
        ('class C:\n    a: int\n    """Of a field."""\n    b: str = """\n\n    text"""\n', 5),
        ("x = f(\n    1,\n    # why\n\n    2,\n)\n", 4),
        ("def f():\n    import a\n    return a\n", 2),
    ],
)
def test_lines_of_code(source: str, lines: int) -> None:
    spec = importlib.util.spec_from_file_location("count_code", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.lines_of_code(source) == lines
