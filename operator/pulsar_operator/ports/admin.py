"""Pulsar's admin REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class AdminAccess:
    """How a client trusts the servers of one cluster and identifies itself to them.

    It holds no secret: files are named here, and read where they are used.
    """

    hosts: tuple[str, ...] = ()
    """Names of the hosts that requests with a token may be sent to. A name that begins with a dot stands for every name
    that ends with it."""
    token_file: str | None = None
    """File with the token that requests carry."""
    ca_file: str | None = None
    """PEM file with the certificates of the authorities that sign the servers' certificates. If None, those of the
    system are trusted."""
    audience: str | None = None
    """Audience of the token that requests carry, of the ServiceAccount of this process. If None, and there is no file,
    they carry no token."""

    @property
    def token(self) -> str | None:
        """Returns what the token is called in messages; None if requests carry none."""
        if self.token_file is not None:
            return f"the token in {self.token_file}"
        return f"the operator's token for audience {self.audience}" if self.audience is not None else None


@dataclass(frozen=True)
class AdminEndpoint:
    """Address of the admin REST API of one cluster."""

    cluster: str
    """Name of the cluster in Pulsar, by which concurrency is limited."""
    url: str
    """Base URL such as http://c-broker.ns.svc.cluster.local:8080."""
    access: AdminAccess | None = None
    """Trust and identity of the requests. If None, they carry no token and may be redirected to any host."""


class PulsarAdminPort(Protocol):
    """Pulsar's admin REST as one generic call. Rules about Pulsar are in the policy table and the domain."""

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
        """Calls ``/admin/v2/<path>`` and returns the decoded JSON (None for an empty answer).

        ``path`` is a sequence of raw segments. Each is percent-encoded, so a hostile name cannot change the path.
        Redirects are followed with the same method and body. 429, 5xx and connection errors of idempotent calls are
        retried within the deadline (seconds). ``body`` None sends no body, bytes are sent unchanged, anything else is
        sent as JSON. With ``text`` the answer is plain text regardless of its content type, as for some endpoints of
        Pulsar.

        Raises NotFoundError (404), ConflictError (409), AuthenticationError and AuthorizationError (401, 403),
        RefusedError (other 4xx, with Pulsar's message; status 0 if not sent), DeadlineError, UnavailableError; the last
        one also for a host that is not among those of the endpoint's access, which receives no request.
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
        """Sends GET ``/admin/v2/<path>``, whose answer may have any size, and passes each piece of it to ``feed``.

        ``feed`` is called on the event loop with at most 32 KiB at a time, and other tasks run between two calls. An
        error that it raises ends the request and is raised here. The request is not repeated once a piece was passed.
        The number of concurrent streams of a cluster is limited, and others wait. The deadline (seconds, until the last
        byte) does not include that wait, and a broker that sends nothing for half a minute ends the request earlier.

        Raises as ``call`` does; UnavailableError also if the connection breaks inside the answer.
        """
