"""What a call of a port may end with."""

from __future__ import annotations

from typing import Final

RETRY_AFTER_LIMIT_SECONDS: Final = 120.0
"""Longest delay that another side may ask for: nobody else decides that an object is not observed for a day."""


class PortError(Exception):
    """Base of all errors a port raises.

    ``retry_after`` is in seconds, when the other side named one; at most RETRY_AFTER_LIMIT_SECONDS.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = None if retry_after is None else min(retry_after, RETRY_AFTER_LIMIT_SECONDS)


class NotFoundError(PortError):
    """The thing does not exist (HTTP 404, NoNodeError)."""


class ConflictError(PortError):
    """The thing is not what the caller believed (HTTP 409, UID or version mismatch, node exists)."""


class RefusedError(PortError):
    """The other side understood and said no (HTTP 400, 403, 405, 412, 422); retrying the same call is useless."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ForbiddenError(RefusedError):
    """The account of this process has no right to the call at the Kubernetes API (HTTP 403 of an authorizer, such as
    RBAC). It may have it later, and asks again.

    What an admission plugin, a webhook or a quota denies is a RefusedError, with its own words: there the right is
    given and the object is not wanted.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, status=403)


class ServerError(PortError):
    """The Kubernetes API server answered one request with HTTP 500: an admission webhook did not answer, or a pod has
    two PodDisruptionBudgets. Other requests may succeed. The call may have taken effect."""


class UnavailableError(PortError):
    """No usable answer: connection, deadline, HTTP 408, 429, 5xx, session expired. The call may have taken effect.

    HTTP 500 of the Kubernetes API server is a ServerError instead.

    ``status`` is that of an HTTP answer, 0 where there was none.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(message, retry_after=retry_after)
        self.status = status


class NotServedError(UnavailableError):
    """The Kubernetes API server does not serve a resource type, or not yet (HTTP 404 without the name of an object).
    Requests for other types may succeed."""


class DeadlineError(UnavailableError):
    """Nothing came within the deadline of a call: the other side, or an admission webhook behind it, hangs or is not
    there. It may have taken effect."""


class UnownedError(UnavailableError):
    """No broker has the topic just now, or none may have it: Pulsar answers HTTP 412 and did nothing.

    So it is while the topic's bundle is between two brokers, which passes, and as long as isolation policies leave no
    broker for its namespace (class PulsarWebResource, validateTopicOwnershipAsync; seen on 4.0.8).
    """
