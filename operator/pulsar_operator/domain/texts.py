"""Text as it may be seen: in logs, events, conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"
"""Stands where something could be secret."""

_USERINFO = re.compile(r'(?<=://)[^/\s"]+@')
_LOGIN = re.compile(r"(?<=://).*@", re.DOTALL)
_SECRET = r"(?:password|passwd|passphrase|secret|token|key|credential|jaas|auth(?:entication)?[_.-]?param)"
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\[[^\]]*\]?|\{[^}]*\}?|\S+)"""
_HEADER = re.compile(r"(authorization\\?[\"']?\s*[=:]\s*).+", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_JAAS = re.compile(r"(jaas[\w.-]*\s*[=:]\s*).+", re.IGNORECASE)
# A class of Java that is named after keys or tokens is no setting: java.security.KeyStoreException: not found.
_SETTING = re.compile(
    rf"""((?<![\w.-])[\w.-]*{_SECRET}(?![\w.$-]*(?:Exception|Error)\b)[\w.-]*\\?["']?\s*(?:=>|[=:])\s*){_VALUE}""",
    re.IGNORECASE,
)
_OPTION = re.compile(rf"((?<!\S)--?[\w.-]*{_SECRET}[\w.-]*\s+)(?!-){_VALUE}", re.IGNORECASE)
_JWT = re.compile(r"\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?")


def without_userinfo(text: str) -> str:
    """A text whose URLs have nothing in front of their hosts: there is a name, and a password or token."""
    return _USERINFO.sub("...@", text)


def without_login(url: str) -> str:
    """The same of a text that is one URL and nothing else, whatever a password is made of: slashes and quotes too."""
    return _LOGIN.sub("...@", url, count=1)


def without_tokens(text: str) -> str:
    """Words about names and settings, without user info of URLs and without tokens; what settings are called like
    secrets is left, for topics and schemas have such names too."""
    return _JWT.sub(HIDDEN, _BEARER.sub(rf"\g<1> {HIDDEN}", without_userinfo(text)))


def without_secrets(text: str, values: Iterable[str] = ()) -> str:
    """One line that somebody else wrote, without what may be a secret in it, and without these values: user info of
    URLs, values of settings that are called like secrets, what follows an Authorization header, tokens."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    text = without_userinfo(text)
    for pattern in (_HEADER, _JAAS, _SETTING, _OPTION):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return without_tokens(text)


_VALUE_OF = re.compile(r"\b(?:Invalid|Unsupported|Duplicate) value: ")
_PLAIN = re.compile(r"(?:[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|true|false|null|<nil>)(?=: |, |\]|$)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`', re.DOTALL)
_OPEN, _CLOSE = "([{", ")]}"


def without_refused_values(text: str) -> str:
    """The words of Kubernetes' validation without the values it refuses; fields and rules are told.

    A value may be a secret of a user, such as the value of an environment variable. It is written as Go or JSON writes
    it (package k8s.io/apimachinery/pkg/util/validation/field, ErrorBody); where nobody can tell its end, the rest is
    left out.
    """
    parts: list[str] = []
    position = 0
    while (found := _VALUE_OF.search(text, position)) is not None:
        parts.append(text[position : found.end()])
        position = _end_of_value(text, found.end())
        if text.startswith(": ", position):
            position += 2
    return "".join([*parts, text[position:]])


def _end_of_value(text: str, begin: int) -> int:
    """Where the value ends that begins there: in front of the rule, of the next field, or of the end of a list."""
    whole = _PLAIN.match(text, begin) or _QUOTED.match(text, begin)
    if whole is not None:
        return whole.end()
    depth, position, composed = 0, begin, False
    while position < len(text):
        char = text[position]
        if char in '"`':
            quoted = _QUOTED.match(text, position)
            if quoted is None:
                break
            position = quoted.end()
            continue
        if char in _OPEN:
            depth, composed = depth + 1, True
        elif char in _CLOSE and depth:
            depth -= 1
        elif not depth and (text.startswith(": ", position) or (composed and re.match(r", |\]$", text[position:]))):
            return position
        position += 1
    return len(text)


def two_digits(value: float) -> int:
    """A count of which two digits are enough to read: what changes with each message is not written each time."""
    whole = round(value)
    return round(whole, 2 - len(str(whole))) if whole >= 100 else whole
