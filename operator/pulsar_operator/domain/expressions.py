"""Evaluates in bounded time the regular expressions that Pulsar evaluates with Java's String.matches.

Python's own engine backtracks: an expression of ten characters can occupy it without end and block the event loop. RE2
needs time linear in the length of the text. It does not support all of Java's syntax and interprets some of it
differently. The result for such an expression is unknown, which is neither a match nor a mismatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import re2

MAX_LENGTH: Final = 2000
"""Maximum length of an expression in characters. A definition allows 256, pulsar-admin any number."""
MAX_MEMORY: Final = 1 << 18
"""Bytes of memory that RE2 may use for one expression, which limits the size of the compiled program."""
MAX_WORK: Final = 300_000
"""Units that one question about many texts may cost: a few seconds if every expression is built to be slow."""
STEPS: Final = 2000
"""RE2 steps in one unit: instructions of the expression times characters of the text."""

_SIMPLE = re.compile(r"([A-Za-z0-9_=:/-]*)(\.\*)?")
"""A literal name, or a literal prefix followed by ``.*``. Most expressions have this form and need no engine."""
_LINE_BREAKS = "\n\r\u0085\u2028\u2029"
"""Characters that a dot does not match in Java."""
_FLAGS = re.compile(r"\(\?(?![<=!>:])([^:)]*)")
_REPEATED_FLAGS = re.compile(r"\(\?[a-z-]*\)[*+?{]")
_REPEATED = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_CLOSED_BY = {"Q": "\\E", "p": "}", "P": "}", "x": "}"}
"""Escapes that are followed by an argument, with the text that ends the argument."""
_OTHER_ESCAPES = frozenset("0123456789vC")
"""Escapes that RE2 accepts and Java interprets differently or rejects."""


class Work:
    """The remaining match budget of one query, which may match many texts."""

    def __init__(self, limit: int = MAX_WORK) -> None:
        self.left = limit

    def spend(self, steps: int) -> bool:
        """Charges a match of this number of steps; returns whether it may be made."""
        self.left -= 1 + steps // STEPS
        return self.left >= 0


def covers(expressions: Iterable[str], text: str, work: Work | None = None) -> bool | None:
    """Whether one of the expressions matches the whole text. None if the answer depends on one that cannot be
    evaluated."""
    found: bool | None = False
    for expression in expressions:
        one = _covers(expression, text, work or Work())
        if one:
            return True
        found = None if one is None else found
    return found


def unevaluated(expressions: Iterable[str]) -> list[str]:
    """Returns the expressions that cannot be evaluated for any text."""
    return [each for each in expressions if _SIMPLE.fullmatch(each) is None and _compiled(each) is None]


def is_re2(expression: str) -> bool:
    """Whether RE2, and therefore the API server, accepts the expression, regardless of its meaning in Java."""
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
    """Returns the expression compiled with RE2. None if it is not known to have the same meaning as in Java."""
    return _compile(expression) if len(expression) <= MAX_LENGTH and not _differs(expression) else None


def _compile(expression: str) -> Any:
    options = re2.Options()
    options.max_mem, options.log_errors = MAX_MEMORY, False
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeError):
        return None


def _differs(expression: str) -> bool:
    """Whether RE2 accepts the expression but interprets it differently than Java, or Java rejects it: octal escapes,
    vertical white space, nested character classes and their intersections, flags with another meaning, and braces that
    are not a repetition."""
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
