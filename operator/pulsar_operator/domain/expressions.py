"""Regular expressions that Pulsar evaluates with Java's String.matches, evaluated here in bounded time.

Python's own engine backtracks: an expression of ten characters can keep it busy without end, and with it the event
loop. RE2 needs time linear in the text. It does not know all of Java's syntax, and reads some of it in another way; of
such an expression nothing is known here, which is neither a match nor none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import re2

MAX_LENGTH: Final = 2000
"""Characters of an expression; a definition allows 256, pulsar-admin any number."""
MAX_MEMORY: Final = 1 << 18
"""Bytes that RE2 may use for one expression, which bounds what it is compiled to."""
MAX_WORK: Final = 300_000
"""Units that one question about many texts may cost: a few seconds, where every expression is made to be slow."""
STEPS: Final = 2000
"""Of RE2 in a unit: instructions of the expression times characters of the text."""

_SIMPLE = re.compile(r"([A-Za-z0-9_=:/-]*)(\.\*)?")
"""A name, or what names begin with: most expressions are so, and need no engine."""
_LINE_BREAKS = "\n\r\u0085\u2028\u2029"
"""What a dot does not match in Java."""
_FLAGS = re.compile(r"\(\?(?![<=!>:])([^:)]*)")
_REPEATED_FLAGS = re.compile(r"\(\?[a-z-]*\)[*+?{]")
_REPEATED = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_CLOSED_BY = {"Q": "\\E", "p": "}", "P": "}", "x": "}"}
"""Escapes with more after them, and what ends that."""
_OTHER_ESCAPES = frozenset("0123456789vC")
"""Escapes that RE2 takes and Java reads differently, or not at all."""


class Work:
    """What a question about many texts may still cost."""

    def __init__(self, limit: int = MAX_WORK) -> None:
        self.left = limit

    def spend(self, steps: int) -> bool:
        """Charges a match of this number of steps; returns whether it may be made."""
        self.left -= 1 + steps // STEPS
        return self.left >= 0


def covers(expressions: Iterable[str], text: str, work: Work | None = None) -> bool | None:
    """Whether one of the expressions covers the whole text; None where it depends on one that cannot be evaluated."""
    found: bool | None = False
    for expression in expressions:
        one = _covers(expression, text, work or Work())
        if one:
            return True
        found = None if one is None else found
    return found


def unevaluated(expressions: Iterable[str]) -> list[str]:
    """Those among the expressions that cannot be evaluated, whatever the text."""
    return [each for each in expressions if _SIMPLE.fullmatch(each) is None and _compiled(each) is None]


def is_re2(expression: str) -> bool:
    """Whether RE2, and so the API server, takes the expression, whatever it means to Java."""
    return _compile(expression) is not None


def _covers(expression: str, text: str, work: Work) -> bool | None:
    simple = _SIMPLE.fullmatch(expression)
    if simple is not None and simple[2] is None:
        return text == expression
    if simple is not None:
        rest = text[len(simple[1]) :]
        return text.startswith(simple[1]) and not any(each in rest for each in _LINE_BREAKS)
    # What Pulsar names is ASCII. Of other text the two do not agree on what is a word, or the end of a line.
    compiled = _compiled(expression) if text.isascii() and text.isprintable() else None
    if compiled is None or not work.spend(compiled.programsize * len(text)):
        return None
    return compiled.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    """The expression for RE2; None if it is not known to mean there what it means in Java."""
    return _compile(expression) if len(expression) <= MAX_LENGTH and not _differs(expression) else None


def _compile(expression: str) -> Any:
    options = re2.Options()
    options.max_mem, options.log_errors = MAX_MEMORY, False
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeError):
        return None


def _differs(expression: str) -> bool:
    """Whether RE2 takes the expression and reads it otherwise than Java, or Java does not take it: octal escapes,
    vertical white space, classes inside of classes and intersections of them, flags with another meaning, braces that
    are no repetition."""
    other_flags = any(set(flags) - set("ims-") for flags in _FLAGS.findall(expression))
    if other_flags or _REPEATED_FLAGS.search(expression):
        return True
    inside, at = False, 0
    while at < len(expression):
        char = expression[at]
        if char == "\\":
            escaped = expression[at + 1 : at + 2]
            if escaped in _OTHER_ESCAPES:
                return True
            at += 2
            if escaped in _CLOSED_BY:
                end = expression.find(_CLOSED_BY[escaped], at)
                closed = escaped == "Q" or expression.startswith("{", at)
                at = (end + len(_CLOSED_BY[escaped]) if end >= 0 else len(expression)) if closed else at
            continue
        if not inside and char == "[":
            inside = True
            at += 2 if expression.startswith("[^", at) else 1
            at += 1 if expression.startswith("]", at) else 0
            continue
        if inside and (char == "[" or expression.startswith("&&", at)):
            return True
        if not inside and char == "{" and _REPEATED.match(expression, at) is None:
            return True
        inside = inside and char != "]"
        at += 1
    return False
