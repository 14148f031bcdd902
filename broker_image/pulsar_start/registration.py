"""A bookie waits until the registration of an earlier process of the same id is gone.

A bookie that was killed leaves its ephemeral node until its ZooKeeper session expires. Pulsar's registration takes that
for the lock of somebody else, since BookieServiceInfo has no equals by which it would know its own: LockBusyException
"Resource at ... is already locked" (source: PulsarRegistrationManager and ResourceLockImpl of Pulsar 4.0). BookKeeper
then ends the bookie within a Java process that stays. So Java starts when the node is gone.

Nothing is deleted here: the node may be that of a process that lives, on a node that Kubernetes has lost.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pulsar_start.session import Node, ProtocolError, Server, Session, open_session

EXTRA_SECONDS = 60.0
"""How long a wait may be beyond the time-out of a session (zkTimeout): for a ZooKeeper that starts together with the
bookie, and gives every session its whole time once more. Then the bookie starts all the same, and Java says what is
wrong."""
SESSION_SECONDS = 30.0
"""zkTimeout of the stock bookkeeper.conf, where it is not a number."""
PAUSE_SECONDS, ANSWER_SECONDS = 1.0, 5.0
CLIENT_PORT, BOOKIE_PORT = 2181, "3181"
DEFAULT_ROOT = "/ledgers"
"""Below the chroot (source: BookKeeperConstants.DEFAULT_ZK_LEDGERS_ROOT_PATH)."""
TLS_ARGUMENT = "-Dzookeeper.client.secure=true"

_PULSAR_SCHEME = "metadata-store:"
_OTHER_STORES = ("rocksdb:", "memory:", "etcd:", "oxia:")
"""Stores of Pulsar's MetadataStoreFactoryImpl; everything else is ZooKeeper, with or without zk: in front."""
_OF_BOOKKEEPER = re.compile(r"zk(\+[a-z]+)?://(?P<servers>[^/]+)(?P<root>/.*)?")
_BOOKIE_ID = re.compile(r"[A-Za-z0-9:_.\-]+")
"""Source: BookieId of BookKeeper."""
_PORT = re.compile(r"[1-9]\d{0,4}")
_SERVER = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s\[\]]+?))(?::(?P<port>\d{1,5}))?")


class NotAwaitedError(Exception):
    """It cannot be seen whether an earlier process is registered, or waiting does not help; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """Where a bookie registers."""

    servers: tuple[Server, ...]
    paths: tuple[str, str]
    """Node of a bookie that takes writes, and of one that is read-only; with the chroot."""
    seconds: float
    """The longest wait."""


def await_registration(
    conf: Mapping[str, str],
    arguments: Iterable[str],
    say: Callable[[str], None],
    opened: Callable[[tuple[Server, ...], Callable[[], float]], Session] = open_session,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Returns when Java may start, at the latest after zkTimeout and EXTRA_SECONDS. Never raises an error.

    ``conf`` is the whole bookkeeper.conf, ``arguments`` what Java is started with, in any number of texts.
    """
    try:
        if any(TLS_ARGUMENT in text for text in arguments):
            raise NotAwaitedError("ZooKeeper is reached by TLS")
        _Wait(registration_of(conf), say, opened, clock, pause).run()
    except NotAwaitedError as error:
        say(f"it starts without regard to an earlier registration: {error}")
    except Exception as error:
        # Whatever it is, a bookie with data is needed more than this wait.
        say(f"it starts without regard to an earlier registration: {type(error).__name__}: {error}")


def registration_of(conf: Mapping[str, str]) -> Registration:
    """From bookkeeper.conf, as the drivers of Pulsar and BookKeeper read it. Raises NotAwaitedError."""
    servers, root = store_of(conf)
    node = f"{root.rstrip('/')}/available"
    bookie = _bookie_id(conf)
    return Registration(
        servers=servers,
        paths=(f"{node}/{bookie}", f"{node}/readonly/{bookie}"),
        seconds=session_seconds(conf) + EXTRA_SECONDS,
    )


def store_of(conf: Mapping[str, str]) -> tuple[tuple[Server, ...], str]:
    """Servers, and the path of ledgers with the chroot in front (source: AbstractMetadataDriver of Pulsar, which has
    ledgers at /ledgers whatever the chroot; ZKMetadataDriverBase and AbstractConfiguration of BookKeeper)."""
    uri = conf.get("metadataServiceUri", "").strip()
    if uri.startswith(_PULSAR_SCHEME):
        store = uri.removeprefix(_PULSAR_SCHEME)
        if store.startswith(_OTHER_STORES):
            raise NotAwaitedError("metadataServiceUri names a store other than ZooKeeper")
        servers, slash, chroot = store.removeprefix("zk:").partition("/")
        return parse_servers(servers), f"{slash}{chroot}".rstrip("/") + DEFAULT_ROOT
    if uri:
        match = _OF_BOOKKEEPER.fullmatch(uri)
        if match is None:
            raise NotAwaitedError("metadataServiceUri names a store other than ZooKeeper")
        return parse_servers(match["servers"]), match["root"] or DEFAULT_ROOT
    servers, slash, chroot = conf.get("zkServers", "").strip().partition("/")
    if not servers:
        raise NotAwaitedError("neither metadataServiceUri nor zkServers is set")
    root = conf.get("zkLedgersRootPath", "").strip() or DEFAULT_ROOT
    return parse_servers(servers), f"{slash}{chroot}".rstrip("/") + root


def parse_servers(text: str) -> tuple[Server, ...]:
    """host:port,... or with semicolons. Without brackets what follows the last colon is a port, also of an IPv6 address
    (source: ConnectStringParser of ZooKeeper). Raises NotAwaitedError."""
    found = []
    for each in re.split(r"[,;]", text):
        match = _SERVER.fullmatch(each.strip())
        port = int(match["port"] or CLIENT_PORT) if match else 0
        if match is None or not 0 < port < 1 << 16:
            raise NotAwaitedError("the servers of ZooKeeper are not of the form host:port,host:port")
        found.append(Server(match["ipv6"] or match["host"], port))
    return tuple(found)


def _bookie_id(conf: Mapping[str, str]) -> str:
    """Source: BookieImpl.getBookieId and getBookieAddress of BookKeeper. Without either setting the id is made of the
    addresses of the host as Java sees them."""
    own, host = conf.get("bookieId", "").strip(), conf.get("advertisedAddress", "").strip()
    port = conf.get("bookiePort", "").strip() or BOOKIE_PORT
    if not own and not host:
        raise NotAwaitedError("neither bookieId nor advertisedAddress is set: the bookie's id is not known yet")
    found = own or f"{host}:{port}"
    if not _BOOKIE_ID.fullmatch(found) or not (own or _PORT.fullmatch(port)):
        raise NotAwaitedError("bookieId, advertisedAddress or bookiePort is no plain value")
    return found


def session_seconds(conf: Mapping[str, str]) -> float:
    """After how long a session of Java's expires."""
    text = conf.get("zkTimeout", "").strip()
    return int(text) / 1000 if re.fullmatch(r"\d{1,9}", text) else SESSION_SECONDS


class _Wait:
    """One wait. A session is kept for all of it, so that it costs ZooKeeper two transactions and not two a second."""

    def __init__(
        self,
        registration: Registration,
        say: Callable[[str], None],
        opened: Callable[[tuple[Server, ...], Callable[[], float]], Session],
        clock: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        self._registration, self._say, self._open = registration, say, opened
        self._clock, self._pause = clock, pause
        self._begin = clock()
        self._session: Session | None = None
        self._found: Node | None = None
        """What an earlier process left."""
        self._told: set[str] = set()
        self._last = ""
        """What the last look found, in words."""

    def run(self) -> None:
        """Returns when there is nothing more to wait for, or no more time; says why."""
        try:
            while not self._over():
                self._pause(max(0.0, min(PAUSE_SECONDS, self._left())))
                if self._left() <= 0:
                    self._say(f"it starts all the same, after {self._waited:.0f} s: {self._last}")
                    return
        finally:
            if self._session is not None:
                self._session.close()

    def _over(self) -> bool:
        """Looks once; whether there is nothing more to wait for."""
        try:
            node = self._look()
        except OSError as error:
            if self._session is not None:
                self._session.drop()
                self._session = None
            self._last = f"ZooKeeper does not answer: {error}"
            self._tell("ZooKeeper", f"waiting for ZooKeeper, {self._limit}: {error}")
            return False
        except ProtocolError as error:
            raise NotAwaitedError(f"ZooKeeper at {error}") from error
        if node is None:
            self._gone()
            return True
        if not node.ephemeral:
            raise NotAwaitedError(f"{node.path} belongs to no session and does not expire")
        self._found = node
        self._last = f"{node.path} is still there. Another process of this id may be alive, and nothing is deleted"
        self._tell("node", f"waiting for the registration of an earlier process to expire: {node.path}, {self._limit}")
        return False

    def _look(self) -> Node | None:
        if self._session is None:
            self._session = self._open(self._registration.servers, self._left)
        for path in self._registration.paths:
            if (node := self._session.node(path, self._left())) is not None:
                return node
        return None

    def _gone(self) -> None:
        if self._found is not None:
            self._say(f"the registration of an earlier process is gone, after {self._waited:.0f} s")
        elif self._told:
            self._say(f"ZooKeeper answers, after {self._waited:.0f} s: no earlier process is registered")

    def _tell(self, subject: str, line: str) -> None:
        """Once for each subject."""
        if subject not in self._told:
            self._told.add(subject)
            self._say(line)

    @property
    def _waited(self) -> float:
        return self._clock() - self._begin

    @property
    def _limit(self) -> str:
        return f"{self._registration.seconds:.0f} s at most"

    def _left(self) -> float:
        """Seconds that the next step may take."""
        return min(ANSWER_SECONDS, self._registration.seconds - self._waited)
