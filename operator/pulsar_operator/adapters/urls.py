"""Names in the paths and queries of requests."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from urllib.parse import quote

REMEMBERED = 4096
"""Names whose encoding is kept: a pass over a topic sends its tenant, namespace and name a dozen times."""


@functools.lru_cache(maxsize=REMEMBERED)
def encoded(text: str) -> str:
    """The text percent-encoded completely, slashes too.

    Raises UnicodeEncodeError for what UTF-8 cannot have: half of a surrogate pair, which JSON can escape.
    """
    return quote(text, safe="")


def encoded_path(segments: Iterable[str]) -> str:
    """An absolute path of these segments, each percent-encoded completely. Raises UnicodeEncodeError."""
    return "/" + "/".join(map(encoded, segments))


def encoded_query(items: Iterable[tuple[str, str]]) -> str:
    """A query of these names and values, without the question mark. Raises UnicodeEncodeError."""
    return "&".join(f"{encoded(name)}={encoded(value)}" for name, value in items)
