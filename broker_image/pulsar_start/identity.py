"""The id that a bookie registers with. A volume that holds an id keeps it; on empty volumes the id is never a used one.

A writer may keep a ledger open whose metadata no longer shows it. It names bookies by id; a bookie that returns empty
under the same id takes its entries, acknowledges them, and nobody can read them (apache/bookkeeper#4812). So a bookie
has an incarnation number. Incarnation 0 has the id that BookKeeper makes of advertisedAddress and bookiePort. A later
one has an id of its own, which is no name of a host, and a port of its own: Pulsar's registration client keeps the
address of a bookie if it missed the end of its registration, and would reach the new process at the old port (source:
PulsarRegistrationClient of Pulsar 4.0).

The operator counts the incarnations in a znode beside the cookies. This program reads the znode itself, and no mounted
file: a new session of ZooKeeper sees every earlier write, and the kubelet's copy of a file may be older.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pulsar_start.errors import StartError
from pulsar_start.files import read_if_there
from pulsar_start.registration import (
    ANSWER_SECONDS,
    BOOKIE_PORT,
    DEFAULT_ROOT,
    EXTRA_SECONDS,
    PAUSE_SECONDS,
    TLS_ARGUMENT,
    NotAwaitedError,
    session_seconds,
    store_of,
)
from pulsar_start.session import ProtocolError, Server, Session, open_session

RECORD_PATH = "/pulsar-operator/bookie-incarnations"
"""Below the chroot. JSON: by ordinal ``number``, the incarnation that a bookie on empty volumes has, and ``seen``, the
highest that ever had a cookie."""
PORTS = 1000
"""Incarnations until a port comes again."""
MOST = 999_999_999
"""Highest incarnation that an id may have."""
FOLDERS = ("journalDirectory", "journalDirectories", "ledgerDirectories", "indexDirectories")
"""Settings of BookKeeper that name folders with a cookie."""

_HOST = re.compile(r"(?P<pod>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?-(?P<ordinal>0|[1-9][0-9]{0,9}))\.(?P<rest>[a-z0-9.-]+)")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_ORDINAL = re.compile(r"0|[1-9][0-9]{0,9}")
_COOKIE = re.compile(r'^bookieHost: "([^"\\]*)"$', re.MULTILINE)
"""Source: Cookie of BookKeeper, whose text is that of protobuf's message CookieFormat."""


@dataclass(frozen=True)
class Names:
    """The ids of one pod's bookie, by incarnation."""

    pod: str
    ordinal: str
    rest: str
    port: int

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> "Names | None":
        """From bookkeeper.conf; None where the id is given, or made of something else than a pod's name."""
        host = _HOST.fullmatch(conf.get("advertisedAddress", "").strip())
        port = conf.get("bookiePort", "").strip() or BOOKIE_PORT
        if conf.get("bookieId", "").strip() or host is None or not _PORT.fullmatch(port):
            return None
        return cls(host["pod"], host["ordinal"], host["rest"], int(port))

    def id(self, incarnation: int) -> str:
        """Id of an incarnation."""
        if incarnation == 0:
            return f"{self.pod}.{self.rest}:{self.port}"
        return f"{self.pod}.i{incarnation}.{self.rest}"

    def incarnation(self, bookie: str) -> int | None:
        """Incarnation of an id; None where it is no id of this pod's bookie."""
        if bookie == self.id(0):
            return 0
        match = re.fullmatch(rf"{re.escape(self.pod)}\.i([1-9][0-9]{{0,8}})\.{re.escape(self.rest)}", bookie)
        return int(match[1]) if match else None

    def settings(self, incarnation: int) -> dict[str, str]:
        """What bookkeeper.conf needs for an incarnation."""
        if incarnation == 0:
            return {}
        return {"bookieId": self.id(incarnation), "bookiePort": str(self.port + incarnation % PORTS)}


@dataclass(frozen=True)
class Count:
    """What the record says of one ordinal."""

    number: int = 0
    seen: int = -1


def identity(
    conf: Mapping[str, str],
    arguments: Iterable[str],
    say: Callable[[str], None],
    opened: Callable[[tuple[Server, ...], Callable[[], float]], Session] = open_session,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """Settings that give the bookie its id; none where BookKeeper makes it. Raises StartError if ZooKeeper does not
    tell which id a bookie on empty volumes may have.

    ``conf`` is the whole bookkeeper.conf, ``arguments`` what Java is started with, in any number of texts.
    """
    names = Names.of(conf)
    if names is None:
        return {}
    found = cookies(conf)
    if len(found) > 1:
        listed = "; ".join(f"{bookie}: {', '.join(folders)}" for bookie, folders in sorted(found.items()))
        raise StartError(
            f"the folders of this bookie hold cookies of several bookies: {listed}. Bring its volumes back"
        )
    for bookie in found:
        incarnation = names.incarnation(bookie)
        # A volume of another bookie's: BookKeeper compares the ids, and refuses.
        return names.settings(incarnation) if incarnation is not None else {}
    try:
        if any(TLS_ARGUMENT in text for text in arguments):
            raise NotAwaitedError("ZooKeeper is reached by TLS")
        servers, root = store_of(conf)
    except NotAwaitedError as error:
        say(
            "the volumes of this bookie are empty. The start program does not ask ZooKeeper for its incarnation, and "
            f"BookKeeper makes its id of host and port: {error}"
        )
        return {}
    number = _Question(names, servers, root, session_seconds(conf) + EXTRA_SECONDS, say, opened, clock, pause).ask()
    if number:
        say(f"the volumes of this bookie are empty: it becomes incarnation {number}, id {names.id(number)}")
    return names.settings(number)


def cookies(conf: Mapping[str, str]) -> dict[str, list[str]]:
    """Folders that hold a cookie, by the id in it. Raises StartError for one that cannot be read."""
    found: dict[str, list[str]] = {}
    folders = [each.strip() for name in FOLDERS for each in conf.get(name, "").split(",")]
    for folder in dict.fromkeys(each for each in folders if each):
        file = Path(folder) / "current" / "VERSION"
        text = read_if_there(file)
        if text is None:
            continue
        match = _COOKIE.search(text)
        if match is None:
            raise StartError(f"{file} holds no cookie that names a bookie")
        found.setdefault(match[1], []).append(folder)
    return found


def parse_record(data: bytes | None, ordinal: str) -> Count:
    """The count of an ordinal in the znode. Raises StartError for content that is no count."""
    try:
        record = json.loads(data or b"{}")
        each = record.get(ordinal, {"number": 0, "seen": -1})
        found = Count(each["number"], each["seen"])
        numbers = type(found.number) is int and type(found.seen) is int
        numbers = numbers and 0 <= found.number <= MOST and -1 <= found.seen <= MOST
        # An ordinal that is written in another way may be this one.
        if numbers and all(_ORDINAL.fullmatch(key) for key in record):
            return found
    except (ValueError, AttributeError, TypeError, KeyError):
        pass
    raise StartError(
        f"znode {RECORD_PATH} does not hold a count of incarnations that this version reads. Condition Replicated of "
        "the PulsarCluster says how to repair it"
    )


class _Question:
    """Asks ZooKeeper until it answers with a number that no bookie has used."""

    def __init__(
        self,
        names: Names,
        servers: tuple[Server, ...],
        root: str,
        seconds: float,
        say: Callable[[str], None],
        opened: Callable[[tuple[Server, ...], Callable[[], float]], Session],
        clock: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        self._names, self._servers, self._root, self._seconds = names, servers, root, seconds
        self._say, self._open, self._clock, self._pause = say, opened, clock, pause
        self._begin = clock()
        self._told, self._spent = set[str](), ""

    def ask(self) -> int:
        """The incarnation. Raises StartError after the time limit, or at once if waiting does not help."""
        session: Session | None = None
        try:
            while True:
                try:
                    session = session or self._open(self._servers, self._left)
                    number = self._look(session)
                    if number is not None:
                        return number
                    subject = "the operator to count the next incarnation"
                    problem = f"id {self._spent} was used, and its cookie is deleted"
                except OSError as error:
                    if session is not None:
                        session.drop()
                        session = None
                    subject, problem = "ZooKeeper", str(error)
                except ProtocolError as error:
                    raise StartError(
                        f"the volumes of this bookie are empty, and ZooKeeper cannot be asked for its id: {error}"
                    ) from None
                words = f"waiting for {subject}, {self._seconds:.0f} s at most: {problem}"
                if subject not in self._told:
                    self._told.add(subject)
                    self._say(f"the volumes of this bookie are empty, and it has no id yet; {words}")
                if self._clock() - self._begin >= self._seconds:
                    raise StartError(f"the volumes of this bookie are empty, and it has no id: it was {words}")
                self._pause(PAUSE_SECONDS)
        finally:
            if session is not None:
                session.close()

    def _look(self, session: Session) -> int | None:
        """The incarnation; None while the id that the record names is used up."""
        chroot = self._root.removesuffix(DEFAULT_ROOT)
        count = parse_record(session.data(f"{chroot}{RECORD_PATH}", self._left()), self._names.ordinal)
        self._spent = self._names.id(count.number)
        if count.seen < count.number or session.node(f"{self._root}/cookies/{self._spent}", self._left()) is not None:
            # With a cookie in the store, and none on its volumes, BookKeeper refuses to start.
            return count.number
        return None

    def _left(self) -> float:
        """Seconds that the next step may take."""
        return min(ANSWER_SECONDS, max(0.0, self._seconds - (self._clock() - self._begin)))
