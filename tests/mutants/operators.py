"""Small changes of a source text, one at a time, as somebody might get it wrong.

On ``ast``, since places in the text are all that is needed: a mutant is the text with one span replaced, and differs
from the original in nothing else. Left alone, because a difference there is no behaviour or one that mypy tells:
messages (text, f-strings, lengths of cut texts), docstrings, annotations, decorators, imports, assertions, log lines,
what is raised, and the empty values that stand for absent fields (``x or {}``).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
"""At the boundary, and the opposite."""
_COUNTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLED: Final = {"any": "all", "all": "any", "min": "max", "max": "min"}
_LONG: Final = 100
"""A slice that ends here or later cuts a message."""
_LOGS: Final = frozenset({"debug", "info", "warning", "error", "exception", "log"})


@dataclass(frozen=True, order=True)
class Mutation:
    """One change of one module."""

    module: str
    line: int
    """Where the change begins."""
    start: int
    """In characters from the beginning of the text."""
    end: int
    text: str
    """In place of what was there."""
    what: str
    """Kind of change, in words."""
    first: int
    """First line of the statement that is changed, without the statements in it; its tests are asked."""
    last: int

    def apply(self, source: str) -> str:
        """The mutant's text."""
        return f"{source[: self.start]}{self.text}{source[self.end :]}"


def mutations(source: str, module: str) -> list[Mutation]:
    """All changes of a text, in order. A few are not valid Python: ``is_valid`` tells."""
    return sorted({each for each in _Finder(source, module).found() if each.apply(source) != source})


def is_valid(text: str) -> bool:
    """Whether a text can be compiled."""
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class _Finder:
    """Walks one module."""

    def __init__(self, source: str, module: str) -> None:
        self._source, self._module = source, module
        self._lines = source.splitlines(keepends=True)
        self._begins = [0]
        for line in self._lines:
            self._begins.append(self._begins[-1] + len(line))
        self._out: list[Mutation] = []
        self._first = self._last = 0

    def found(self) -> list[Mutation]:
        for statement in ast.parse(self._source).body:
            self._statement(statement)
        return self._out

    # Statements.

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Raise() | ast.Global() | ast.Nonlocal():
                return
            case ast.Expr(value=ast.Constant()):
                return
        bodies = [name for name in ("body", "orelse", "finalbody") if isinstance(getattr(node, name, None), list)]
        self._extent(node, bodies)
        first = self._first
        match node:
            case ast.Expr():
                if _is_log(node.value):
                    return
                self._add(node, "pass", "statement left out")
            case ast.AugAssign():
                self._add(node, "pass", "statement left out")
                self._operator(node.op, lambda op: ast.AugAssign(node.target, op, node.value), node)
            case ast.Assign() if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
                self._add(node, "pass", "statement left out")
            case ast.Delete():
                self._add(node, "pass", "statement left out")
            case ast.If() | ast.While():
                self._negated(node.test)
            case ast.Continue():
                self._add(node, "break", "continue to break")
            case ast.Break():
                self._add(node, "continue", "break to continue")
        for name, value in ast.iter_fields(node):
            if name in {"decorator_list", "annotation", "returns", "bases", *bodies, "handlers", "cases"}:
                continue
            if name == "args" and isinstance(value, ast.arguments):
                for default in (*value.defaults, *(each for each in value.kw_defaults if each is not None)):
                    self._expression(default)
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.expr):
                    self._expression(each)
                elif isinstance(each, ast.withitem):
                    self._expression(each.context_expr)
        for name in bodies:
            for each in getattr(node, name):
                self._statement(each)
        for handler in getattr(node, "handlers", ()):
            for each in handler.body:
                self._statement(each)
        for case in getattr(node, "cases", ()):
            if case.guard is not None:
                self._first, self._last = first, case.guard.end_lineno or first
                self._negated(case.guard)
                self._expression(case.guard)
            for each in case.body:
                self._statement(each)

    def _extent(self, node: ast.stmt, bodies: list[str]) -> None:
        """Lines of a statement without those in it."""
        inner = [each.lineno for name in bodies for each in getattr(node, name) if each.lineno > node.lineno]
        inner += [each.pattern.lineno for each in getattr(node, "cases", ())]
        self._first = node.lineno
        self._last = max(node.lineno, min(inner) - 1) if inner else (node.end_lineno or node.lineno)

    # Expressions.

    def _expression(self, node: ast.expr) -> None:
        match node:
            case ast.JoinedStr():
                return  # a message
            case ast.Constant():
                self._constant(node)
            case ast.Compare():
                self._compare(node)
            case ast.BoolOp():
                self._bool_op(node)
            case ast.BinOp():
                if not _is_text(node):
                    self._operator(node.op, lambda op: ast.BinOp(node.left, op, node.right), node)
            case ast.UnaryOp(op=ast.Not()):
                self._add(node, f"({ast.unparse(node.operand)})", "not left out")
            case ast.IfExp():
                self._negated(node.test)
            case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
                self._add(node.func, _CALLED[name], f"{name} to {_CALLED[name]}")
        for name, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.comprehension):
                    self._comprehension(each)
                elif isinstance(each, ast.keyword):
                    self._expression(each.value)
                elif isinstance(each, ast.Slice):
                    self._slice(each)
                elif isinstance(each, ast.expr) and not (isinstance(node, ast.AnnAssign) and name == "annotation"):
                    self._expression(each)

    def _constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, str(not value), f"{value} to {not value}")
        elif isinstance(value, int):
            self._add(node, str(value + 1), "number changed")
        elif isinstance(value, float):
            self._add(node, repr(value * 2 or 1.0), "number changed")

    def _compare(self, node: ast.Compare) -> None:
        for place, op in enumerate(node.ops):
            for other in _COMPARED[type(op)]:
                ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                text = f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
                self._add(node, text, f"{type(op).__name__} to {other.__name__}")

    def _bool_op(self, node: ast.BoolOp) -> None:
        default = isinstance(node.op, ast.Or) and _is_empty(node.values[-1])
        if not default:
            other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
            words = "or to and" if isinstance(node.op, ast.Or) else "and to or"
            self._add(node, f"({ast.unparse(ast.BoolOp(other, node.values))})", words)
        for place in range(len(node.values) - default):
            rest = [*node.values[:place], *node.values[place + 1 :]]
            text = ast.unparse(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
            self._add(node, f"({text})", "part of a condition left out")

    def _comprehension(self, node: ast.comprehension) -> None:
        self._expression(node.iter)
        for condition in node.ifs:
            self._negated(condition)
            if not any(isinstance(each, ast.NamedExpr) for each in ast.walk(condition)):
                self._add(condition, "True", "filter left out")
            self._expression(condition)

    def _slice(self, node: ast.Slice) -> None:
        for each in (node.lower, node.upper, node.step):
            if each is None or (isinstance(each, ast.Constant) and isinstance(each.value, int) and each.value >= _LONG):
                continue
            self._expression(each)

    def _negated(self, test: ast.expr) -> None:
        """A condition turned round, where nothing else turns it."""
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        self._add(test, f"(not ({ast.unparse(test)}))", "condition turned round")

    def _operator(self, op: ast.operator, make: Callable[[ast.operator], ast.AST], node: ast.stmt | ast.expr) -> None:
        other = _COUNTED.get(type(op))
        if other is None:
            return
        text = ast.unparse(ast.fix_missing_locations(make(other())))
        words = f"{type(op).__name__} to {other.__name__}"
        self._add(node, text if isinstance(node, ast.stmt) else f"({text})", words)

    # Text.

    def _add(self, node: ast.stmt | ast.expr, text: str, what: str) -> None:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._at(node.lineno, node.col_offset)
        end = self._at(node.end_lineno, node.end_col_offset)
        self._out.append(Mutation(self._module, node.lineno, start, end, text, what, self._first, self._last))

    def _at(self, line: int, column: int) -> int:
        """Place in the text; columns of ast are bytes."""
        return self._begins[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _is_empty(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return not value
        case ast.Dict(keys=[]) | ast.Tuple(elts=[]) | ast.List(elts=[]):
            return True
    return False


def _is_text(node: ast.BinOp) -> bool:
    """Whether it is about text: joined, or formatted."""
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in _operands(node)
    )


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from _operands(node.left)
        yield from _operands(node.right)
    else:
        yield node


def _is_log(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
            return attr in _LOGS and name.lower().lstrip("_").startswith("log")
    return False
