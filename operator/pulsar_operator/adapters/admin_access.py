"""Trust and identity of requests to Pulsar's admin REST (ports.AdminAccess): certificates, tokens, and their receivers.

Files are read where they are used, since they change while the process runs: a token at each request, certificates when
the file has changed. Neither a token nor any other content of a file is part of an error.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from pulsar_operator.api.hosts import is_host_of
from pulsar_operator.ports import AdminAccess, AdminEndpoint, ForbiddenError, UnavailableError

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""A token of the Bearer scheme (RFC 6750, b64token), which no line end can be part of."""
_Stamp = tuple[int, int, int]


class Tokens(Protocol):
    """Tokens of this process by audience (service_account_tokens.py)."""

    async def token(self, audience: str) -> str:
        """Returns a token for an audience. Raises PortError if there is none."""

    def refused(self, audience: str) -> None:
        """Forgets a token that a server refused."""


class Accesses:
    """The files and tokens of accesses, as they are now."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        """``tokens`` are those of this process; None if it has no ServiceAccount."""
        self._tokens = tokens
        self._trusted: dict[str, tuple[_Stamp, ssl.SSLContext]] = {}

    async def headers(self, access: AdminAccess) -> Mapping[str, str]:
        """Returns the headers that identify this process. Raises PortError if there is no token."""
        if access.token is None:
            return {}
        return {"Authorization": f"Bearer {await self._token(access)}"}

    async def _token(self, access: AdminAccess) -> str:
        if access.token_file is not None:
            try:
                return read_token(access.token_file)
            except ValueError as error:
                raise UnavailableError(str(error)) from None
        if self._tokens is None:
            raise UnavailableError(
                "the operator has no ServiceAccount to request a token for. Set PULSAR_OPERATOR_SERVICE_ACCOUNT to "
                "its name"
            )
        try:
            return await self._tokens.token(str(access.audience))
        except ForbiddenError as error:
            raise UnavailableError(
                f"the operator is not permitted to request a token of its ServiceAccount: {error}"
            ) from None

    def refused(self, access: AdminAccess | None) -> None:
        """Has the next request carry a new token, if it is one of this process."""
        if access is not None and access.audience is not None and self._tokens is not None:
            self._tokens.refused(access.audience)

    def trust(self, access: AdminAccess) -> ssl.SSLContext | bool:
        """Returns the context for connections, which verifies certificates and host names; True for the authorities of
        the system. Raises UnavailableError if the certificates cannot be read."""
        file = access.ca_file
        if file is None:
            return True
        try:
            found = Path(file).stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            known = self._trusted.get(file)
            if known is None or known[0] != stamp:
                # The stamp is older than the content, so a change in between is read at the next request.
                known = self._trusted[file] = (stamp, trusted(file))
        except OSError as error:
            raise UnavailableError(f"CA file {file} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise UnavailableError(str(error)) from None
        return known[1]


def trusted(file: str) -> ssl.SSLContext:
    """Returns a context that trusts the authorities in a PEM file alone, and verifies host names. Raises ValueError,
    whose message names the file."""
    try:
        return ssl.create_default_context(cafile=file)
    except ssl.SSLError:  # OpenSSL's own words name places in its source
        raise ValueError(f"CA file {file} contains no certificates in PEM format") from None
    except OSError as error:
        raise ValueError(f"CA file {file} cannot be read: {error.strerror}") from None


def read_token(file: str) -> str:
    """Returns the token in a file. Raises ValueError, whose message names the file and never has its content."""
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ValueError(f"token file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if TOKEN.fullmatch(token) is None:
        raise ValueError(
            f"token file {file} does not contain a token, which is one word of letters, digits and . _ - + / ="
        )
    return token


def check_host(endpoint: AdminEndpoint, url: URL) -> None:
    """Raises UnavailableError if a request carries a token and the URL is not one that may receive it.

    The hosts of the cluster may, and only over TLS if the cluster's own address uses it.
    """
    access = endpoint.access
    if access is None or access.token is None:
        return
    host = f"{url.host}:{url.port}"
    if not is_host_of(url.host or "", access.hosts):
        known = ", ".join(each.lstrip(".") for each in access.hosts) or "none"
        raise UnavailableError(
            f"no request was sent to {host}, because the request would carry a token and {host} is not among the hosts "
            f"of cluster {endpoint.cluster} that may receive it ({known})"
        )
    if urlsplit(endpoint.url).scheme == "https" and url.scheme != "https":
        raise UnavailableError(
            f"no request was sent to {host}, because the request would carry a token without TLS, although cluster "
            f"{endpoint.cluster} uses TLS"
        )


def not_trusted(endpoint: AdminEndpoint, url: URL, error: aiohttp.ClientConnectorCertificateError) -> str:
    """Returns the message for a server whose certificate is refused."""
    ca_file = endpoint.access.ca_file if endpoint.access is not None else None
    authorities = f"CA file {ca_file}" if ca_file is not None else "the system"
    why = getattr(error.certificate_error, "verify_message", "") or type(error.certificate_error).__name__
    return (
        f"the certificate of {url.host}:{url.port} in cluster {endpoint.cluster} was refused: {why}. The certificate "
        f"must be signed by an authority of {authorities} and contain the name of the host"
    )
