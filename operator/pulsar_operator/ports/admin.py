"""Pulsar's admin REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class AdminEndpoint:
    """Address of the admin REST API of one cluster."""

    cluster: str
    """Name of the cluster inside Pulsar; also the key of per-cluster concurrency limits."""
    url: str
    """Base URL such as http://c-broker.ns.svc.cluster.local:8080."""


class PulsarAdminPort(Protocol):
    """Pulsar's admin REST: one generic call; rules about Pulsar are in the policy table and the domain."""

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """Call ``/admin/v2/<path>`` and return the decoded JSON (None for an empty answer).

        ``path`` is a sequence of raw segments; each is percent-encoded, so a hostile name cannot change the path.
        Redirects are followed with the method and body kept; 429, 5xx and connection errors of idempotent calls are
        retried within the deadline (seconds). ``body`` None sends no body, bytes are sent as they are, anything else is
        JSON. With ``text`` the answer is plain text, whatever its content type says: some endpoints of Pulsar do so.
        Raises NotFoundError (404), ConflictError (409), RefusedError (other 4xx, with Pulsar's message; status 0 =
        not sent), DeadlineError, UnavailableError.
        """

    async def stream(
        self,
        endpoint: AdminEndpoint,
        path: Sequence[str],
        feed: Callable[[bytes], None],
        *,
        query: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> None:
        """GET ``/admin/v2/<path>``, whose answer may be of any size, and pass each piece of it to ``feed``.

        ``feed`` is called on the event loop with at most 32 KiB at a time, and other tasks run between two calls; an
        error that it raises ends the request and is raised here. The request is not repeated once a piece was passed.
        Streams of one cluster beyond a few wait for each other; the deadline (seconds, until the last byte) counts
        without that, and a broker that sends nothing for half a minute is not waited for until then.
        Raises as ``call`` does; UnavailableError also where the connection breaks inside the answer.
        """
