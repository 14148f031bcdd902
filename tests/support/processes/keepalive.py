"""Connections to an HTTP server that stay open between requests."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
from collections.abc import Callable, Mapping

READS = frozenset({"GET", "HEAD"})
"""Methods that may be sent again: nothing changes when the server received both."""
CLOSED = (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""How it shows that the server closed the connection instead of answering."""


class KeptConnections:
    """A connection for each request under way, kept for the next one; any number of threads may ask at once.

    A server closes connections that rest. One that is seen to be closed is replaced before anything is sent on it;
    where the server closes it in the same moment, only a read is sent again, since a write may have been received.
    """

    def __init__(self, make: Callable[[], http.client.HTTPConnection]) -> None:
        """``make`` gives a new connection, which need not be open yet."""
        self._make = make
        self._idle: list[http.client.HTTPConnection] = []

    def request(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], *, timeout: float
    ) -> tuple[int, bytes]:
        """Status code and body of the answer. Raises OSError or http.client.HTTPException when there is none.

        ``timeout``: seconds for each wait for the server.
        """
        kept = self._kept()
        if kept is not None:
            try:
                return self._exchange(kept, method, target, body, headers, timeout)
            except CLOSED:
                if method not in READS:
                    raise
        return self._exchange(self._make(), method, target, body, headers, timeout)

    def close(self) -> None:
        """Close what is open. The next request opens a new connection."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _kept(self) -> http.client.HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            # What can be read where nothing was asked is the end of the connection.
            if connection.sock is not None and not _readable(connection.sock):
                return connection
            connection.close()

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> tuple[int, bytes]:
        connection.timeout = timeout
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            connection.request(method, target, body=body, headers=dict(headers))
            answer = connection.getresponse()
            found = answer.status, answer.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return found


def _readable(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
