"""Encodes names for paths and queries of requests."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from urllib.parse import quote

REMEMBERED = 4096
"""Number of names whose encoding is cached: a pass over a topic sends its tenant, namespace and name a dozen times."""


@functools.lru_cache(maxsize=REMEMBERED)
def encoded(text: str) -> str:
    """Returns the text percent-encoded completely, including slashes.

    Raises UnicodeEncodeError for text that UTF-8 cannot represent: half of a surrogate pair, which JSON can escape.
    """
    return quote(text, safe="")


def encoded_path(segments: Iterable[str]) -> str:
    """Returns an absolute path of these segments, each percent-encoded completely. Raises UnicodeEncodeError."""
    return "/" + "/".join(map(encoded, segments))


def encoded_query(items: Iterable[tuple[str, str]]) -> str:
    """Returns a query of these names and values, without the question mark. Raises UnicodeEncodeError."""
    return "&".join(f"{encoded(name)}={encoded(value)}" for name, value in items)
