"""Interprets answers of Pulsar's admin REST: returns the decoded body, or raises one of the errors of the ports."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any

from pulsar_operator.domain.texts import without_tokens
from pulsar_operator.ports import (
    AccessError,
    AdminAccess,
    AuthenticationError,
    AuthorizationError,
    ConflictError,
    NotFoundError,
    RefusedError,
    UnavailableError,
    UnownedError,
)

UNAVAILABLE = frozenset({408, 429})
SCHEMA_REFUSALS = ("IncompatibleSchemaException", "InvalidSchemaDataException")
"""Exceptions with which the compatibility check of a schema answers 500; the upload answers 409 or 422 (observed on
4.0.8)."""
UNOWNED = ("Failed to find ownership for topic", "Can't find owner for topic")
"""Explanations with 412, which is otherwise a refusal: no broker currently owns the topic, see UnownedError."""
CANCELLED = ("", "HTTP 422 {}")
"""Uninformative explanations with 422: the broker cancelled an internal task while a topic was being deleted
(v2.PersistentTopics.deleteTopic answers so for each IllegalStateException), alone or below a namespace's deletion."""
RACE = "[no message for java.util.ConcurrentModificationException]"
"""Explanation with 400 if a broker reads isolation policies while they change (observed on 4.0.8)."""
NOT_IMPLEMENTED = 501
"""The broker lacks something that the call needs, such as a plug-in. This is a refusal, not a failure."""
UNAUTHENTICATED, FORBIDDEN = 401, 403
UNAUTHORIZED = (
    "Unauthorized to ",
    "Don't have permission",
    "You don't have admin permission",
    "This operation requires super-user access",
    "Proxy not authorized",
    "Original principal",
)
"""Beginnings of the explanations with 401 and 403 that are about the role of a request (packages broker.web and
broker.admin of 4.0.8). Other explanations with 401 are about its token, and with 403 about what it asks for."""
UNEXPECTED = "--- An unexpected error occurred in the server ---"
"""Beginning of the explanation of an error without its own status. The message and a stack trace follow."""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer with its body."""

    status: int
    body: bytes
    location: str | None = None
    retry_after: float | None = None
    page: bool = False
    """Whether the body is HTML, which comes from a proxy before Pulsar."""


def interpret(answer: Answer, words: str, *, text: bool = False, access: AdminAccess | None = None) -> Any:
    """Returns the decoded body of a success. Raises the error (ports/errors.py) of the status, with Pulsar's
    explanation. ``access`` is that of the request."""
    if 200 <= answer.status < 300:
        if not answer.body.strip():
            return None
        if text:
            return plain(answer.body, words, page=answer.page)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise UnavailableError(f"{words} returned HTTP {answer.status} with a body that is not JSON") from error
    reason = reason_of(answer.body)
    message = f"{words} returned HTTP {answer.status}" + (f": {reason}" if reason else "")
    if (denied := _denied(answer.status, reason, message, access)) is not None:
        raise denied
    if answer.status == 404:
        if not _is_pulsars(answer):
            # A proxy in front of Pulsar does not know the route: the answer says nothing about the content of Pulsar.
            raise UnavailableError(f"{message} (not from Pulsar)", retry_after=answer.retry_after)
        raise NotFoundError(message)
    if answer.status == 409:
        raise ConflictError(message)
    if answer.status == 412 and reason.startswith(UNOWNED):
        raise UnownedError(message, status=answer.status)
    failed = (answer.status == 422 and reason in CANCELLED) or reason == RACE
    refused = 400 <= answer.status < 500 and answer.status not in UNAVAILABLE and not failed
    if refused or answer.status == NOT_IMPLEMENTED or _refuses_schema(answer):
        raise RefusedError(message, status=answer.status)
    raise UnavailableError(message, retry_after=answer.retry_after, status=answer.status)


def _denied(status: int, reason: str, message: str, access: AdminAccess | None) -> AccessError | None:
    """Returns the error of an answer by which Pulsar does not admit the client; None for any other answer."""
    token = access.token if access is not None else None
    if status in (UNAUTHENTICATED, FORBIDDEN) and reason.startswith(UNAUTHORIZED):
        role = f"The role of {token}" if token is not None else "The role of a client without a token"
        text = (
            f"{role} is not permitted to make this request. Add the role to superUserRoles of the brokers, or provide "
            "a token of a role that superUserRoles contains"
        )
        return AuthorizationError(f"{text}. {message}", status=status)
    if status != UNAUTHENTICATED:
        return None
    text = "The brokers require a token, and none was sent. Provide a token of a role in superUserRoles of the brokers"
    if token is not None:
        text = (
            f"The brokers refused {token}. The token has expired, is for another audience, or is signed with a key "
            "that the brokers do not know. Replace the token, or correct the settings of the brokers"
        )
    return AuthenticationError(f"{text}. {message}", status=status)


def _is_pulsars(answer: Answer) -> bool:
    """Whether an error is Pulsar's own: its resources and its web server (Jetty, with JSON requested) answer with a
    JSON object. A 404 of a proxy or an ingress is a page, a line of text or empty, and must never be interpreted as
    "deleted"."""
    try:
        return isinstance(json.loads(answer.body[:65536].decode("utf-8", "replace"), strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _refuses_schema(answer: Answer) -> bool:
    text = answer.body[:65536].decode(errors="replace") if answer.status == 500 else ""
    return any(name in text for name in SCHEMA_REFUSALS)


def plain(body: bytes, words: str, *, page: bool) -> str:
    """Returns a body that is text, which may look like HTML: the value of a property. Raises UnavailableError for an
    HTML page, by its content type."""
    if page:
        raise UnavailableError(f"{words} returned an HTML page instead of an answer")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise UnavailableError(f"{words} returned a body that is not UTF-8") from None


def reason_of(body: bytes) -> str:
    """Returns Pulsar's explanation: ``{"reason": ...}``, ``{"message": ...}`` of its web server, or the first line of
    plain text; empty for an HTML page. Credentials that Pulsar repeats are removed, since it is shown in conditions and
    events."""
    return without_tokens(_explanation(body[:65536].decode("utf-8", "replace").strip()))[:500]


def _explanation(text: str) -> str:
    try:
        decoded = json.loads(text, strict=False)  # a message may have line ends as they are
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else text.split("\n", 1)[0]
    if not isinstance(decoded, dict):
        return ""
    reason, message = decoded.get("reason"), decoded.get("message")
    if isinstance(reason, str) and reason.strip().startswith(UNEXPECTED):
        inner = reason.partition("Message:")[2].partition("Stacktrace:")[0]
        return " ".join(inner.split())
    if isinstance(reason, str):
        return reason.strip().split("\n", 1)[0]
    # Written into JSON as it would be into HTML, in as many lines as it has.
    return " ".join(html.unescape(message).split()) if isinstance(message, str) else ""
