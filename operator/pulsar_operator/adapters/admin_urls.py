"""URLs of Pulsar's admin REST: those that calls are sent to, and those that redirects name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from yarl import URL

from pulsar_operator.adapters.urls import encoded_path, encoded_query
from pulsar_operator.ports import RefusedError, UnavailableError

UNSAFE_SEGMENTS = frozenset({"", ".", ".."})


def build_url(base: str, path: Sequence[str], query: Mapping[str, str] | None = None) -> URL:
    """Returns the URL of a call. Every segment is percent-encoded completely, so a "/" in a name stays part of it.

    Raises RefusedError for a segment that is empty or made of dots, and for text that UTF-8 cannot represent (half of a
    surrogate pair, which JSON can escape); UnavailableError for a base that is not an http URL.
    """
    try:
        unsafe = next((segment for segment in path if segment in UNSAFE_SEGMENTS), None)
        encoded = encoded_path(path) if unsafe is None else ""
    except UnicodeEncodeError as error:
        unsafe = str(error.object)
    if unsafe is not None:
        raise RefusedError(f"the name {unsafe!a} cannot be used in a path of Pulsar's admin REST")
    try:
        encoded += f"?{encoded_query(sorted(query.items()))}" if query else ""
    except UnicodeEncodeError as error:
        raise RefusedError(f"the value {error.object!a} cannot be sent to Pulsar's admin REST") from None
    if not base.startswith(("http://", "https://")):
        raise UnavailableError("the URL of the admin REST API must start with http:// or https://")
    try:
        return URL(f"{base.rstrip('/')}/admin/v2{encoded}", encoded=True)
    except ValueError as error:
        raise UnavailableError("the URL of the admin REST API is not valid") from error


def display_path(path: Sequence[str]) -> str:
    """Returns the path for messages: encoded, so that a hostile name cannot forge a log line, and truncated."""
    try:
        return encoded_path(path)[:301]
    except UnicodeEncodeError:
        return encoded_path(segment.encode(errors="replace").decode() for segment in path)[:301]


def redirect_target(current: URL, location: str) -> URL:
    """Returns the target of a redirect, byte for byte. Raises UnavailableError if it is not http or https."""
    try:
        target = URL(location, encoded=True)
        if not target.scheme:
            target = current.join(target)
    except ValueError as error:
        raise UnavailableError("Pulsar sent a redirect whose target is not a valid URL") from error
    if target.scheme not in {"http", "https"} or not target.host:
        raise UnavailableError(f"Pulsar sent a redirect to scheme {target.scheme!r}, which is not followed")
    return target
