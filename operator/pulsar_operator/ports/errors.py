"""Errors that the calls of ports raise."""

from __future__ import annotations

from typing import Final

RETRY_AFTER_LIMIT_SECONDS: Final = 120.0
"""Maximum delay in seconds that a server may request, so that it cannot stop reconciliation for a day."""


class PortError(Exception):
    """Base class of all errors that a port raises.

    ``retry_after`` is the delay in seconds that the server requested, at most RETRY_AFTER_LIMIT_SECONDS; otherwise
    None.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = None if retry_after is None else min(retry_after, RETRY_AFTER_LIMIT_SECONDS)


class NotFoundError(PortError):
    """The object does not exist (HTTP 404, NoNodeError)."""


class ConflictError(PortError):
    """The object differs from what the caller expects (HTTP 409, UID or version mismatch, node exists)."""


class RefusedError(PortError):
    """The server refused the request (HTTP 400, 403, 405, 412, 422); retrying the same call does not help."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ForbiddenError(RefusedError):
    """An authorizer of the Kubernetes API server, such as RBAC, denies the call to this process (HTTP 403). The
    permission may be granted later, so the call is retried.

    A denial by an admission plugin, a webhook or a quota is a RefusedError with its message: the permission exists, and
    the object is rejected.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, status=403)


class AccessError(RefusedError):
    """Pulsar does not admit this process: not its identity, or not what it asks for. The message has the remedy.

    The answer says nothing about the content of Pulsar, and a person may change something so that the call is admitted.
    """


class AuthenticationError(AccessError):
    """Pulsar does not accept the token of the request, or the request has none (HTTP 401)."""


class AuthorizationError(AccessError):
    """Pulsar knows the role of the token, and the role may not do this (HTTP 401, 403)."""


class ServerError(PortError):
    """The Kubernetes API server answered one request with HTTP 500: an admission webhook did not answer, or a pod has
    two PodDisruptionBudgets. Other requests may succeed. The call may have taken effect."""


class UnavailableError(PortError):
    """No usable answer: connection, deadline, HTTP 408, 429, 5xx, session expired. The call may have taken effect.

    HTTP 500 of the Kubernetes API server is a ServerError instead. ``status`` is that of an HTTP answer, 0 if there was
    none.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(message, retry_after=retry_after)
        self.status = status


class NotServedError(UnavailableError):
    """The Kubernetes API server does not serve a resource type, or not yet (HTTP 404 without the name of an object).
    Requests for other types may succeed."""


class DeadlineError(UnavailableError):
    """No answer came within the deadline of a call: the server, or an admission webhook behind it, hangs or does not
    run. The call may have taken effect."""


class UnownedError(UnavailableError):
    """No broker owns the topic, or none may own it: Pulsar answers HTTP 412 and has done nothing.

    This happens for a short time while the topic's bundle moves between brokers, and as long as isolation policies
    leave no broker for its namespace (class PulsarWebResource, validateTopicOwnershipAsync; observed on 4.0.8).
    """
