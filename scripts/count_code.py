"""Counts the lines of code of Python packages: no imports, blank lines, comments or docstrings.

    python scripts/count_code.py [FOLDER ...] [--by-folder] [--small N]

A line counts if it holds a token of a statement that is neither an import nor a docstring (a string that stands alone,
also behind a field). The default folder is operator/pulsar_operator.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def lines_of_code(source: str) -> int:
    """The number of lines of code in the text of a module."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOTHING:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def main() -> None:
    """Prints the number of each folder and their sum."""
    parser = argparse.ArgumentParser(description="Counts lines of code: no imports, blanks, comments or docstrings.")
    parser.add_argument("folders", nargs="*", type=Path, default=[ROOT / "operator/pulsar_operator"])
    parser.add_argument("--by-folder", action="store_true", help="a line for each folder")
    parser.add_argument("--small", type=int, metavar="N", help="list the modules with fewer than N lines of code")
    arguments = parser.parse_args()
    modules = {
        path: lines_of_code(path.read_text(encoding="utf-8"))
        for folder in arguments.folders
        for path in sorted(folder.resolve().rglob("*.py"))
    }
    if arguments.by_folder:
        by_folder: Counter[Path] = Counter()
        for path, lines in modules.items():
            by_folder[path.parent] += lines
        for folder, lines in sorted(by_folder.items()):
            print(f"{lines:7,} {_shown(folder)}")
    if arguments.small is not None:
        for path, lines in modules.items():
            if lines < arguments.small and path.name != "__init__.py":
                print(f"{lines:7,} {_shown(path)}")
    print(f"{sum(modules.values()):7,} lines of code in {len(modules):,} modules")


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    main()
