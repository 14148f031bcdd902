"""Who asks, and whom the clients trust: tokens and certificates, in files that others may replace during a run."""

from __future__ import annotations

import functools
import ssl
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulsar


@dataclass(frozen=True)
class Token:
    """The token of a role: a text, or a file, which is read at each use since it may hold another one by then."""

    text: str = field(default="", repr=False)
    file: Path | None = None

    def __call__(self) -> str:
        """The token. Raises OSError, ValueError; neither has anything of what the file holds."""
        if self.file is None:
            return self.text
        try:
            found = self.file.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            found = ""
        if not found or len(found.split()) > 1:
            raise ValueError(f"{self.file} holds no token")
        return found

    def supplier(self) -> Callable[[], str]:
        """What gives a client of the Python library the token whenever it connects.

        The library ends the process for an exception in it: while the file cannot be read it gives the last one.
        Raises as the token does when there is none yet.
        """
        last = self()

        def current() -> str:
            nonlocal last
            try:
                last = self()
            except (OSError, ValueError):
                return last
            return last

        return current


@dataclass(frozen=True)
class Access:
    """Who asks, and whom the clients trust."""

    token: Token | None = None
    ca_file: Path | None = None
    """Authorities of the servers' certificates, in PEM. If unset, those of the system. Host names are verified."""
    hosts: tuple[str, ...] = ()
    """Hosts that admin REST may send the token on to besides that of its URL; one that begins with a dot stands for all
    that end with it."""

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments of pulsar.Client."""
        found: dict[str, Any] = {"tls_validate_hostname": True}
        if self.token is not None:
            found["authentication"] = pulsar.AuthenticationToken(self.token.supplier())
        if self.ca_file is not None:
            found["tls_trust_certs_file_path"] = str(self.ca_file)
        return found

    def context(self) -> ssl.SSLContext:
        """For connections made here. Raises OSError when the certificates cannot be read."""
        if self.ca_file is None:
            return _context("", 0)
        return _context(str(self.ca_file), self.ca_file.stat().st_mtime_ns)

    def opener(self) -> urllib.request.OpenerDirector:
        """For requests; it follows no redirect. Raises OSError when the certificates cannot be read."""
        return _opener(self.context())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        """Nothing: a redirect is an answer like any other."""


@functools.lru_cache(maxsize=16)
def _context(ca_file: str, _changed: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file or None)


@functools.lru_cache(maxsize=16)
def _opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
