"""Makes text safe to show in logs, events and conditions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from math import log2

HIDDEN = "***"
"""Replaces text that may be secret."""
ENTROPY = 3.7
"""Bits of a character above which a mixed word of 20 characters is no chosen name."""

_USERINFO = re.compile(r'(?<=://)[^/\s"]+@')
_LOGIN = re.compile(r"(?<=://).*@", re.DOTALL)

# What is called like a secret: the only list of such words.
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|passcode|pwd|(?<![a-z])pass(?![a-z])|(?-i:(?<=[a-z0-9])Pass(?![a-z]))|"
    r"(?:store|trust|db|admin|user|root|proxy)[_.-]?pass(?![a-z])|secret|token|key|credential|"
    r"(?<![a-z])creds?(?![a-z])|jaas|auth(?:entication)?[_.-]?param|(?<![a-z])auth(?![a-z])|authorization|bearer|private|"
    r"signature|(?<![a-z])(?:sig|sas|dsn|pin|otp)(?![a-z])|conn(?:ection)?[_.-]?str(?:ing)?|cookie|session[_.-]?id",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(r"(?:Exception|Error)(?:\$\w*)?$")
"""Matches Java classes that are named after keys or tokens and are not settings: java.security.KeyStoreException: not
found."""
# What is a secret by how it looks, whatever it is called: what is masked follows the group.
_SECRET_VALUES = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(-----BEGIN [a-z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----).*?"
        r"(?:-----END [a-z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|$)",
        r"(\bbearer\s{1,9})[\w.~+/=-]{6,}",
        r"(\bbasic\s{1,9})(?=[a-z0-9+/]{0,400}[0-9=])[a-z0-9+/]{8,}={0,2}",
        r"(LoginModule\s{1,9}(?:required|requisite|sufficient|optional)\b).*",
        r"(\bjdbc:oracle:\w{1,9}:)[^@\s]{1,400}@",
        # A URL that whoever knows it may write to.
        r"(://(?:hooks\.slack\.com|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks|"
        r"[\w-]{1,63}\.webhook\.office\.com)/)[^\s\"'<>]+",
        # Hashes of passwords (crypt(5)): they are guessed at leisure by whoever has them.
        r"()\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:i|d|id)|scrypt|pbkdf2[\w-]{0,20})\$[\w./$,=+-]{8,}",
        r"((?<!\S)(?:-u|--(?:proxy-)?user)[\s=]{1,9}[\"']?)[^\s:]{1,100}:[^\s\"']+",
        r"()\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?",
        r"((?<![\w.+/:@-])[\w.+-]{1,100}:)(?!//)[^\s:@/]{3,200}@(?=[\w\[])",
        # A sentence. A word of letters alone may be the next one of it, and Secrets and tokens have names.
        r"((?:password|passwd|passphrase|pwd)\s{1,9}(?:(?:is|was)\s{1,9})?)(?=\S{0,200}\d)(?=\S{0,200}[a-z])\S{8,}",
    )
) + tuple(
    re.compile(rf"()(?<![A-Za-z0-9]){pattern}")
    for pattern in (
        r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",
        r"(?:gh[pousr]_|github_pat_|glpat-|npm_|pypi-|dop_v1_|hv[sb]\.|xox[abeprs]-|ya29\.|AIza|[srp]k_(?:live|test)_)"
        r"[\w.-]{10,}",
        r"SG\.[\w-]{16,}\.[\w-]{16,}",
    )
)
_VALUE = re.compile(
    r"""(?:[|>][+-]?[ \t]*+\n(?:[ \t]++[^\n]*+(?:\n|$))++|"""  # a block of YAML
    r"""\\++["'][^"']*+["']?|"""  # quoted inside of quotes
    r""""(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|\[[^\]]*+\]?|\{[^}]*+\}?|\S+)"""
)
_HEADER = re.compile(
    r"((?:authorization|(?<![\w-])(?:set-)?cookie|(?<![\w.-])[\w.-]{0,100}jaas[\w.-]{0,100})"
    r"\\?[\"']?\s{0,9}[=:]\s{0,9}).+",
    re.IGNORECASE,
)
_NAMED = re.compile(r"""(?<![\w.-])([\w.-]++)(?:%3[AD]|\\*+["']?\s*+(?:=>|[=:])\s*+)""", re.IGNORECASE)
_OPTION = re.compile(r"(?<!\S)--?([\w.-]++)\s++(?!-)")
_TAG = re.compile(r"<([\w.:-]{1,100})(?:\s[^<>]{0,200})?>")
_CONTENT = re.compile(r"[^<]++")
_RANDOM = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
_HEX = re.compile(r"(?<![0-9A-Za-z-])[0-9a-fA-F]{32,}(?![0-9A-Za-z-])")


def is_secret_name(name: str) -> bool:
    """Whether the name of a setting, property or member indicates a secret."""
    return _SECRET_NAME.search(name) is not None and _NO_SECRET_NAME.search(name) is None


def sentence(text: str) -> str:
    """Returns the text as it follows a full stop: with its first letter in upper case, unless it begins with a field,
    an object or another name that is not a word."""
    first = text.split(maxsplit=1)[0].rstrip(",;:").removesuffix("'s") if text.strip() else ""
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def contains_secret(name: str, value: str) -> bool:
    """Whether a value may be a secret, judged by its name or its form. False positives are preferred: the location is
    reported, and the owner can copy the value from there."""
    return is_secret_name(name) or without_secrets(value) != value or _resembles_random(value)


def resembles_secret(value: str) -> bool:
    """Whether a value looks like a secret, in texts in which words like key and token have another meaning."""
    return without_tokens(value) != value


def _resembles_random(value: str) -> bool:
    if _HEX.search(value):
        return True
    for found in _RANDOM.findall(value):
        mixed = any(c.isupper() for c in found) and any(c.islower() for c in found) and any(c.isdigit() for c in found)
        if mixed and -sum(n / len(found) * log2(n / len(found)) for n in Counter(found).values()) > ENTROPY:
            return True
    return False


def visible(text: str, keep: str = "\n\t") -> str:
    """Returns the text with only visible characters. Characters that reverse or hide text or move the cursor of a
    terminal (control characters of both sets, directional and other format characters, separators) are written as
    escapes, except those in ``keep``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else json.dumps(c)[1:-1] for c in text)


def without_userinfo(text: str) -> str:
    """Returns the text without the user info of its URLs, which may contain a password or token."""
    return _USERINFO.sub("...@", text)


def without_login(url: str) -> str:
    """Returns a text that consists of a single URL without its user info. The password may contain any character,
    including slashes and quotes."""
    return _LOGIN.sub("...@", url, count=1)


def without_tokens(text: str) -> str:
    """Returns text about names and settings without what has the form of a secret. Values of settings whose names
    indicate a secret are kept, since topics and schemas also have such names."""
    text = without_userinfo(text)
    for pattern in _SECRET_VALUES:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def without_secrets(text: str, values: Iterable[str] = ()) -> str:
    """Returns one line of another writer without ``values`` and without possible secrets: user info of URLs, values of
    settings whose names suggest a secret, the value of an Authorization header, and tokens."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    text = without_userinfo(text)
    text = _HEADER.sub(rf"\g<1>{HIDDEN}", text)
    text = _without_named(_without_named(text, _NAMED), _OPTION)
    return without_tokens(_without_named(text, _TAG, _CONTENT))


def quoted(text: str) -> str:
    """Returns a text of another writer as one line for a condition, an event or a log: without refused values, possible
    secrets and control characters."""
    words = without_secrets(" ".join(without_refused_values(text).split()))
    return "".join(each if each.isprintable() else " " for each in words)


def _without_named(text: str, names: re.Pattern[str], values: re.Pattern[str] = _VALUE) -> str:
    """Returns the text without the values that follow names of secrets. The run time is linear in the length of the
    text."""
    parts: list[str] = []
    begin = position = 0
    while (found := names.search(text, position)) is not None:
        position = found.end()
        value = values.match(text, position) if is_secret_name(found[1]) else None
        if value is not None:
            parts += [text[begin:position], HIDDEN]
            begin = position = value.end()
    return "".join([*parts, text[begin:]])


_VALUE_OF = re.compile(r"\b(?:Invalid|Unsupported|Duplicate) value: ")
_PLAIN = re.compile(r"(?:[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|true|false|null|<nil>)(?=: |, |\]|$)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`', re.DOTALL)
_OPEN, _CLOSE = "([{", ")]}"


def without_refused_values(text: str) -> str:
    """Returns the message of Kubernetes' validation without the refused values; fields and rules stay.

    A value may be a secret of a user, such as the value of an environment variable. It is written as Go or JSON writes
    it (package k8s.io/apimachinery/pkg/util/validation/field, ErrorBody); if its end cannot be determined, the rest is
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
    """Returns the position at which the value that starts at ``begin`` ends: before the rule, the next field or the end
    of a list."""
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
    """Returns a count, rounded to two digits from 100 on, so that small changes do not cause a new message each
    time."""
    whole = round(value)
    return round(whole, 2 - len(str(whole))) if whole >= 100 else whole
