"""Text as it may be seen: in logs, events, conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"
"""Stands where something could be secret."""

_USERINFO = re.compile(r'(?<=://)[^/\s"]+@')
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


def without_secrets(text: str, values: Iterable[str] = ()) -> str:
    """One line that somebody else wrote, without what may be a secret in it, and without these values: user info of
    URLs, values of settings that are called like secrets, what follows an Authorization header, tokens."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    text = without_userinfo(text)
    for pattern in (_HEADER, _JAAS, _SETTING, _OPTION):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return _JWT.sub(HIDDEN, _BEARER.sub(rf"\g<1> {HIDDEN}", text))
