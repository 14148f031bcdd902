"""The state of one ZooKeeper server, by its four-letter words over plain TCP. It needs neither a session nor a quorum.

https://zookeeper.apache.org/doc/r3.9.4/zookeeperAdmin.html#sc_4lw. Used by KazooZooKeeper.server_state. Any program may
listen at the address, so size and duration of an answer are limited.
"""

from __future__ import annotations

import asyncio
import re

from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import Mode, ServerState
from pulsar_operator.domain.texts import without_secrets
from pulsar_operator.ports import RefusedError, UnavailableError

DEADLINE_SECONDS = 5.0
"""Time limit in seconds for all requests to a server."""
MOST_BYTES = 64 * 1024
"""Maximum size of one answer in bytes. A leader's answer to mntr has 18 KB, and 26 KB with metrics for Prometheus
(ZooKeeper 3.9.4)."""
MODES: dict[str, Mode] = {
    "leader": "leader", "follower": "follower", "observer": "observer", "standalone": "standalone",
}  # fmt: skip

_MODE = re.compile(r"^Mode: (\S+)\r?$", re.MULTILINE)
_ZXID = re.compile(r"^Zxid: 0x([0-9a-fA-F]{1,16})\r?$", re.MULTILINE)
_SYNCED = re.compile(r"^zk_synced_followers\t([0-9]{1,4})(?:\.0)?\r?$", re.MULTILINE)
"""An integer, or a floating-point number of Prometheus. Absent if another server has become leader."""


class ServerStates:
    """Requests the state of servers. ``deadline_seconds`` is for one server, ``most_bytes`` for one answer."""

    def __init__(self, *, deadline_seconds: float = DEADLINE_SECONDS, most_bytes: int = MOST_BYTES) -> None:
        self._deadline = deadline_seconds
        self._most = most_bytes

    async def of(self, server: str) -> ServerState:
        """Returns the state of a server (host:port). Raises as ports.ZooKeeperPort.server_state."""
        host, port = address_of(server)
        try:
            async with asyncio.timeout(self._deadline):
                return await self._of(server, host, port)
        except TimeoutError:
            raise UnavailableError(f"ZooKeeper server {server} did not answer within {self._deadline:g} s") from None
        except (OSError, UnicodeError) as error:
            raise UnavailableError(f"ZooKeeper server {server} does not answer ({error})") from error

    async def _of(self, server: str, host: str, port: int) -> ServerState:
        text = await self._ask(server, host, port, "srvr")
        mode, zxid = _MODE.search(text), _ZXID.search(text)
        if mode is None or zxid is None or mode[1] not in MODES:
            raise UnavailableError(f"ZooKeeper server {server} answered command srvr with: {_first_line(text)}")
        found = ServerState(MODES[mode[1]], int(zxid[1], 16))
        if found.mode != "leader":
            return found
        text = await self._ask(server, host, port, "mntr")
        synced = _SYNCED.search(text)
        if synced is None:
            raise UnavailableError(
                f"ZooKeeper server {server} is the leader, but answered command mntr with: {_first_line(text)}"
            )
        return ServerState(found.mode, found.zxid, int(synced[1]))

    async def _ask(self, server: str, host: str, port: int, word: str) -> str:
        """Returns the whole answer to a word. ZooKeeper closes the connection after it."""
        reader, writer = await asyncio.open_connection(host, port)
        try:
            # No half-close after it: ZooKeeper drops the request when it reads the end of the stream.
            writer.write(word.encode("ascii"))
            answer = b""
            while chunk := await reader.read(self._most):
                answer += chunk
                if len(answer) > self._most:
                    raise UnavailableError(
                        f"ZooKeeper server {server} answered {word} with more than {self._most} bytes"
                    )
        finally:
            writer.transport.abort()
        return answer.decode("utf-8", "replace")


def address_of(server: str) -> tuple[str, int]:
    """Returns host and port of one server. Raises RefusedError for anything but host:port."""
    host, _, port = server.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "," in server or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise RefusedError(f"ZooKeeper server {server!r} does not have the form host:port")
    return host, int(port)


def _first_line(text: str) -> str:
    """Returns the first line of an answer, without secrets and unprintable characters."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")[:200]
    return without_secrets("".join(each if each.isprintable() else "?" for each in first))
