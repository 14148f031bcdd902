"""ZooKeeper through kazoo: one client per ensemble, without blocking calls on the event loop.

kazoo has its own threads. Every operation is started there and its result is passed to the event loop. A client that
lost its connection is discarded together with everything that it still had queued, so that no write of a failed call is
sent later; the next call opens a new client. ``Deps.zookeeper`` keeps it for the life of the process, bound to one
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState

from pulsar_operator.adapters.fence import Fence, open_fence
from pulsar_operator.adapters.zookeeper_errors import port_error
from pulsar_operator.adapters.zookeeper_state import ServerStates
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.domain.render.listeners import ZOOKEEPER_PORT
from pulsar_operator.ports import ConflictError, Node, NotFoundError, RefusedError, UnavailableError

log = logging.getLogger(__name__)

PARENT_ATTEMPTS = 3
"""Maximum attempts of a create if another client deletes the parents it has just created."""

_LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError)


@dataclass(eq=False)
class _Connection:
    """One kazoo client and its state on the event loop."""

    servers: str
    client: Any
    ready: asyncio.Future[None]
    last_used: float
    in_flight: int = 0
    broken: bool = False
    watches: set[_Watch] = field(default_factory=set, repr=False)
    idle_timer: asyncio.TimerHandle | None = field(default=None, repr=False)


@dataclass(eq=False)
class _Watch:
    """A callback that is called at most once."""

    on_change: Callable[[], None]
    connection: _Connection | None = None
    live: bool = True

    def keep(self, connection: _Connection) -> None:
        """From now on the end of the client also calls it. Before that the caller only gets the error."""
        if connection.broken:
            asyncio.get_running_loop().call_soon(self.fire)
        elif self.live:
            self.connection = connection
            connection.watches.add(self)

    def fire(self) -> None:
        """Calls it the first time."""
        if self.connection is not None:
            self.connection.watches.discard(self)
        if self.live:
            self.live = False
            self.on_change()


class KazooZooKeeper:
    """Implements ports.ZooKeeperPort over kazoo.

    ``deadline_seconds`` limits opening a session and every operation. ``session_timeout_seconds`` is requested from the
    server. A client without a call for ``idle_seconds`` and without a watch is closed. ``max_workers`` threads close
    clients, which is the only part of kazoo that blocks.
    """

    def __init__(
        self,
        *,
        deadline_seconds: float = 10.0,
        session_timeout_seconds: float = 10.0,
        idle_seconds: float = 600.0,
        max_workers: int = 4,
        fence: Fence = open_fence,
    ) -> None:
        self.fence = fence
        self._deadline = deadline_seconds
        self._session_timeout = session_timeout_seconds
        self._idle = idle_seconds
        self._connections: dict[str, _Connection] = {}
        self._executor = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix="zookeeper-close")
        self._closing: set[asyncio.Future[None]] = set()
        self._closed = False
        self._states = ServerStates()
        # kazoo reports every lost connection at WARNING; the errors raised here say the same once, with the servers.
        self._kazoo_log = logging.Logger("kazoo", level=logging.CRITICAL)
        self._kazoo_log.addHandler(logging.NullHandler())

    async def session(self, servers: str, chroot: str | None = None) -> _Session:
        """Returns a live session below ``chroot``; see ports.ZooKeeperPort. All callers with the same ``servers`` share
        a client."""
        root = "" if chroot in (None, "", "/") else _checked(str(chroot))
        session = _Session(self, canonical_servers(servers), root)
        await self._connected(session.servers)
        return session

    async def server_state(self, server: str) -> ServerState:
        """Returns the current state of one server, without a session; see ports.ZooKeeperPort."""
        if self._closed:
            raise UnavailableError(f"the request to {server} was not sent, because the ZooKeeper client is closed")
        return await self._states.of(server)

    async def close(self) -> None:
        """Closes all clients. Returns after the deadline even if a server does not answer."""
        self._closed = True
        for connection in list(self._connections.values()):
            self._discard(connection)
        if self._closing:
            await asyncio.wait(set(self._closing), timeout=self._deadline)
        self._executor.shutdown(wait=False)

    @property
    def open_ensembles(self) -> list[str]:
        """Returns the servers strings that currently have a client, sorted."""
        return sorted(self._connections)

    async def watch(self, servers: str, path: str, on_change: Callable[[], None]) -> Any:
        """Watches one node, see ports.ZooKeeperSession. Raises as :meth:`run`."""
        loop, watch = asyncio.get_running_loop(), _Watch(on_change)
        try:
            return await self.run(
                servers,
                f"watch {path}",
                lambda client: client.exists_async(path, watch=lambda event: _call_soon(loop, watch.fire)),
                watch,
            )
        except BaseException:
            watch.live = False
            raise

    async def run(self, servers: str, what: str, start: Callable[[Any], Any], watch: _Watch | None = None) -> Any:
        """Starts one kazoo operation and returns its result. Raises kazoo's own errors or UnavailableError.

        ``start`` gets the client and returns kazoo's asynchronous result. ``what`` names the operation in messages.
        ``watch``, once the operation has succeeded, is called when the client is discarded.
        """
        connection = await self._connected(servers)
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        connection.in_flight += 1
        try:
            async with asyncio.timeout(self._deadline):
                # The callback runs in kazoo's thread (or here, when the result is already there).
                start(connection.client).rawlink(lambda result: _deliver(loop, outcome, result))
                answer = await outcome
            if watch is not None:
                watch.keep(connection)
            return answer
        except TimeoutError:
            self._discard(connection)
            raise UnavailableError(
                f"ZooKeeper at {servers} did not answer {what} within {self._deadline:g} s"
            ) from None
        except _LOST as error:
            self._discard(connection)
            raise UnavailableError(
                f"the connection to ZooKeeper at {servers} was lost during {what} ({type(error).__name__}); "
                "the call may have taken effect"
            ) from error
        finally:
            connection.in_flight -= 1
            connection.last_used = loop.time()

    async def _connected(self, servers: str) -> _Connection:
        """Returns the live client for ``servers``, which is opened if there is none. Concurrent callers share one
        attempt."""
        if self._closed:
            raise UnavailableError(f"the request to {servers} was not sent, because the ZooKeeper client is closed")
        connection = self._connections.get(servers) or self._open(servers)
        if connection.ready.done() and not connection.broken:
            return connection  # of a million reads each would make a timer and a future more
        connection.in_flight += 1  # a client that is waited for is not idle, however long it takes to open
        try:
            async with asyncio.timeout(self._deadline):
                await asyncio.shield(connection.ready)
        except TimeoutError:
            self._discard(connection)
            raise UnavailableError(
                f"no ZooKeeper server of {servers} accepted a session within {self._deadline:g} s. Check that the "
                "names resolve, and that the servers run and have a quorum"
            ) from None
        finally:
            connection.in_flight -= 1
            connection.last_used = asyncio.get_running_loop().time()
        if connection.broken:
            raise UnavailableError(f"the connection to ZooKeeper at {servers} was lost while it was being opened")
        return connection

    def _open(self, servers: str) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            client = KazooClient(
                hosts=servers,
                timeout=self._session_timeout,
                connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2.0},
                logger=self._kazoo_log,
            )
        except ValueError as error:
            raise RefusedError(f"ZooKeeper servers {servers!r} do not have the form host:port,... ({error})") from error
        connection = _Connection(servers, client, loop.create_future(), loop.time())
        self._connections[servers] = connection
        client.add_listener(lambda state: _call_soon(loop, self._state_changed, connection, state))
        client.start_async()
        self._watch_idle(loop, connection)
        log.debug("opening a ZooKeeper session to %s", servers)
        return connection

    def _state_changed(self, connection: _Connection, state: str) -> None:
        if state == KazooState.CONNECTED:
            if not connection.ready.done():
                connection.ready.set_result(None)
        else:  # SUSPENDED or LOST, after having been connected
            self._discard(connection)

    def _discard(self, connection: _Connection) -> None:
        """Removes the client and closes it in its own thread, once."""
        if connection.broken:
            return
        connection.broken = True
        if self._connections.get(connection.servers) is connection:
            del self._connections[connection.servers]
        if connection.idle_timer is not None:
            connection.idle_timer.cancel()
        if not connection.ready.done():
            connection.ready.set_result(None)
        for watch in connection.watches:
            asyncio.get_running_loop().call_soon(watch.fire)
        done = asyncio.get_running_loop().run_in_executor(self._executor, _stop, connection.client)
        self._closing.add(done)
        done.add_done_callback(self._closing.discard)

    def _watch_idle(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        """Closes the client if it was idle long enough, otherwise checks again when it could be."""
        left = connection.last_used + self._idle - loop.time()
        if left <= 0 and not connection.in_flight and not connection.watches:
            log.debug("closing the idle ZooKeeper session to %s", connection.servers)
            self._discard(connection)
            return
        connection.idle_timer = loop.call_later(max(left, self._idle / 10), self._watch_idle, loop, connection)


class _Session:
    """Implements ports.ZooKeeperSession: paths below a root, operations on the client that is live at the time."""

    def __init__(self, port: KazooZooKeeper, servers: str, root: str) -> None:
        self._port = port
        self.servers = servers
        self._root = root

    async def get(self, path: str) -> Node | None:
        """Returns content and version; None if the node does not exist."""
        full = self._full(path)
        try:
            data, stat = await self._run("get", full, lambda client: client.get_async(full))
        except NotFoundError:
            return None
        return Node(bytes(data or b""), int(stat.version), int(stat.czxid))

    async def children(self, path: str) -> list[str] | None:
        """Returns the names of the children, sorted; None if the node does not exist."""
        full = self._full(path)
        try:
            return sorted(await self._run("children", full, lambda client: client.get_children_async(full)))
        except NotFoundError:
            return None

    async def create(self, path: str, data: bytes) -> None:
        """Creates a persistent node and its missing parents, including the chroot. Raises ConflictError if it
        exists."""
        full = self._full(path)
        if full == "/":
            raise ConflictError("ZooKeeper node / exists already")
        parent = full.rpartition("/")[0] or "/"
        for attempt in range(PARENT_ATTEMPTS):
            try:
                await self._run("create", full, lambda client: client.create_async(full, data))
                return
            except NotFoundError:
                if attempt + 1 == PARENT_ATTEMPTS:
                    raise
                await self._run("create parents of", full, lambda client: client.ensure_path_async(parent))

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        """Replaces the content of that version. Raises ConflictError, NotFoundError."""
        full = self._full(path)
        if version < 0:  # ZooKeeper takes -1 for "any version", which would be a lost update
            raise ConflictError(f"ZooKeeper node {full} cannot be set at version {version} before it is read")
        await self._run("set", full, lambda client: client.set_async(full, data, version))

    async def delete(self, path: str, *, version: int) -> None:
        """Deletes that version of a node without children. Raises ConflictError, NotFoundError."""
        full = self._full(path)
        if version < 0:
            raise ConflictError(f"ZooKeeper node {full} cannot be deleted at version {version} before it is read")
        await self._run("delete", full, lambda client: client.delete_async(full, version))

    async def watch(self, path: str, on_change: Callable[[], None]) -> int | None:
        """Calls ``on_change`` once when the node changes or the session ends. Returns the transaction that last wrote
        the node."""
        full = self._full(path)
        try:
            stat = await self._port.watch(self.servers, full, on_change)
        except KazooException as error:
            raise port_error(error, self.servers, "watch", full) from error
        return None if stat is None else int(stat.mzxid)

    def _full(self, path: str) -> str:
        return (self._root + ("" if path == "/" else _checked(path))) or "/"

    async def _run(self, verb: str, full: str, start: Callable[[Any], Any]) -> Any:
        def fenced(client: Any) -> Any:
            if verb not in ("get", "children"):
                self._port.fence(f"{verb} {full}")
            return start(client)

        try:
            return await self._port.run(self.servers, f"{verb} {full}", fenced)
        except KazooException as error:
            raise port_error(error, self.servers, verb, full) from error


def canonical_servers(servers: str) -> str:
    """Returns the connection string with every port and without blanks, so that equal ensembles share one client."""
    hosts = [host.strip() for host in servers.split(",") if host.strip()]
    if not hosts:
        raise RefusedError(f"ZooKeeper servers {servers!r} contain no host. Give host:port,...")
    return ",".join(host if ":" in host else f"{host}:{ZOOKEEPER_PORT}" for host in hosts)


def _checked(path: str) -> str:
    """Returns the path. Raises RefusedError if ZooKeeper's PathUtils.validatePath would not accept it."""
    segments = path.split("/")
    if (
        len(segments) < 2
        or segments[0] != ""
        or any(segment in ("", ".", "..") for segment in segments[1:])
        or "\0" in path
    ):
        raise RefusedError(
            f"{path!r} is not a ZooKeeper path, because it must be absolute and have no segments that are empty, . or "
            ".."
        )
    return path


def _deliver(loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[Any], result: Any) -> None:
    _call_soon(loop, _settle, outcome, result)


def _settle(outcome: asyncio.Future[Any], result: Any) -> None:
    if outcome.done():
        return
    if result.exception is None:
        outcome.set_result(result.value)
    else:
        outcome.set_exception(result.exception)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: Any) -> None:
    """Calls a function on the event loop, from any thread. Does nothing if the loop is closed, since no caller waits
    then."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def _stop(client: Any) -> None:
    """Ends a client's session and threads. Blocks until its current connection attempt ends."""
    try:
        client.stop()
        client.close()
    except Exception as error:  # whatever it is, the client is out of use and its session ends by its timeout
        log.debug("a ZooKeeper client did not close cleanly: %s", error)
