"""The files of a ZooKeeper server on its volume.

Two rules protect the data. Membership belongs to ZooKeeper: the dynamic file is written at the very first start and
never again, and the line of the static file that names it is carried over, because ZooKeeper changes it with every
reconfiguration. And a server without its data must not found an ensemble where one exists already: an ordinal beyond
the founding replicas starts as an observer of them, so that newcomers can never be a majority among themselves; and
once the operator has put on record that the ensemble was founded, an empty server has no vote until it has the data of
a leader (ZooKeeper Administrator's Guide, "Enabling DB Existence Validation": zookeeper.db.autocreate=false, and the
file ``initialize`` where an empty database is expected).
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pulsar_start.errors import StartError
from pulsar_start.files import read, read_if_there, write_atomically
from pulsar_start.layering import layer, parse
from pulsar_start.own_name import own_hosts
from pulsar_start.paths import Paths
from pulsar_start.probe import four_letters, mode_of

QUORUM_PORT, ELECTION_PORT, CLIENT_PORT = 2888, 3888, 2181
STATIC, DYNAMIC = "zoo.cfg", "zoo.cfg.dynamic"
INITIALIZE = "initialize"
"""Its presence says that an empty database is expected; ZooKeeper deletes it at its start."""
DATA_FILES = ("snapshot.*", "log.*")
WAIT_SECONDS, PAUSE_SECONDS, ANSWER_SECONDS = 60.0, 2.0, 3.0
SUPER_DIGEST = "DigestAuthenticationProvider.superDigest"
TRUST_EMPTY, AUTOCREATE = "snapshot.trust.empty", "db.autocreate"
"""What decides whether a server without data founds a database; set at each start, for this start."""
PROPERTY = "-Dzookeeper."
"""Begins the system property of a key: ZooKeeper reads some keys from there, and puts those of its file there that it
does not know (class QuorumPeerConfig)."""

_POD = re.compile(r"(?P<statefulset>.+)-(?P<ordinal>\d+)")
_DIGEST = re.compile(r"super:[A-Za-z0-9+/=]+")
_MEMBERSHIP = re.compile(r"dynamicConfigFile|server\.\d+|group\.\d+|weight\.\d+|clientPort|clientPortAddress")

DEFAULTS = {
    "tickTime": "2000",
    "initLimit": "10",
    "syncLimit": "5",
    "autopurge.snapRetainCount": "3",
    "autopurge.purgeInterval": "1",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,mntr",
}


@dataclass(frozen=True, kw_only=True)
class Server:
    """Who this server is and whom it is founded with."""

    ordinal: int
    replicas: int
    """Servers of the ensemble at its foundation (or, later, those a new server may take as its voters)."""
    statefulset: str
    domain: str
    super_digest: str | None
    founded: bool = False
    """Whether the ensemble is on record as founded: then an empty volume is one that lost its data."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Server":
        """POD_NAME, ZOO_STS_NAME, ZOO_DOMAIN, ZOO_REPLICAS and optionally ZOO_SUPER_DIGEST and ZOO_FOUNDED."""
        pod, statefulset = _required(environ, "POD_NAME"), _required(environ, "ZOO_STS_NAME")
        match = _POD.fullmatch(pod)
        if match is None or match["statefulset"] != statefulset:
            raise StartError(f"POD_NAME {pod!r} is not {statefulset}-<ordinal>")
        replicas = _required(environ, "ZOO_REPLICAS")
        if not re.fullmatch(r"[1-9]\d?", replicas):
            raise StartError(f"ZOO_REPLICAS {replicas!r} is not a number of servers")
        digest = environ.get("ZOO_SUPER_DIGEST") or None
        if digest is not None and not _DIGEST.fullmatch(digest):
            raise StartError("ZOO_SUPER_DIGEST is not of the form super:<base64 of SHA-1>")
        return cls(
            ordinal=int(match["ordinal"]),
            replicas=int(replicas),
            statefulset=statefulset,
            domain=_required(environ, "ZOO_DOMAIN"),
            super_digest=digest,
            founded=environ.get("ZOO_FOUNDED") == "true",
        )

    @property
    def myid(self) -> int:
        """ZooKeeper counts from 1."""
        return self.ordinal + 1

    def dynamic_configuration(self) -> str:
        """The membership this server starts with."""
        founders = [self._line(ordinal, "participant") for ordinal in range(self.replicas)]
        newcomer = [] if self.ordinal < self.replicas else [self._line(self.ordinal, "observer")]
        return "\n".join(founders + newcomer) + "\n"

    @property
    def others(self) -> list[str]:
        """Hosts of the founders beside this server."""
        return [self._host(ordinal) for ordinal in range(self.replicas) if ordinal != self.ordinal]

    def _host(self, ordinal: int) -> str:
        return f"{self.statefulset}-{ordinal}.{self.domain}"

    def _line(self, ordinal: int, role: str) -> str:
        return f"server.{ordinal + 1}={self._host(ordinal)}:{QUORUM_PORT}:{ELECTION_PORT}:{role};0.0.0.0:{CLIENT_PORT}"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The files are there; this is what Java needs."""

    conf: Path
    jvm: list[str]
    notes: list[str]
    hosts: list[str]
    """The server's own hosts as its membership has them: they must be known before Java starts."""
    lost: bool = False
    """Whether the server's data is gone: it may only join a quorum that has it."""


def prepare(server: Server, paths: Paths, overrides: Mapping[str, str]) -> Prepared:
    """Writes what is missing and lays the overrides over the static file."""
    volume = paths.zookeeper
    static, dynamic = volume / "conf" / STATIC, volume / "conf" / DYNAMIC
    reserved = [key for key in overrides if _is_reserved(key, volume)]
    if reserved:
        raise StartError(f"these keys of zookeeper cannot be overridden: {', '.join(sorted(reserved))}")
    existing = read_if_there(static)
    has_data = has_version_2(volume, overrides)
    notes: list[str] = []
    if existing is None:
        # The static file comes last: it is the mark of a finished first start.
        _write_myid(volume, server)
        write_atomically(dynamic, server.dynamic_configuration())
        dynamic_name = str(dynamic)
        role = "founder" if server.ordinal < server.replicas else "newcomer"
        notes.append(f"first start of server {server.myid} as {role} of {server.replicas} server(s)")
        if has_data:
            notes.append("there is data without a configuration: it is kept and trusted")
    else:
        _check_myid(volume, server)
        dynamic_name = _dynamic_name(static, existing)
        notes.append(f"server {server.myid}, membership in {dynamic_name}")
    write_atomically(static, static_configuration(volume, dynamic_name, overrides, server.super_digest))
    trust_empty = "false" if has_data or existing is not None else "true"
    lost = server.founded and not has_data
    if lost:
        (volume / INITIALIZE).unlink(missing_ok=True)
        notes.append("the volume is empty and the ensemble was founded before: this server joins, and founds nothing")
    elif not has_data and server.ordinal < server.replicas:
        write_atomically(volume / INITIALIZE, "")
    jvm = [f"{PROPERTY}{TRUST_EMPTY}={trust_empty}", f"{PROPERTY}{AUTOCREATE}=false"]
    hosts = own_hosts(read(Path(dynamic_name)), server.myid)
    return Prepared(conf=static, jvm=jvm, notes=notes, hosts=hosts, lost=lost)


def check_arguments(arguments: Iterable[str], paths: Paths) -> None:
    """Refuses JVM arguments that set what this program decides. Raises StartError with their names."""
    names = [argument.partition("=")[0] for argument in arguments if argument.startswith(PROPERTY)]
    refused = sorted({name for name in names if _is_reserved(name.removeprefix(PROPERTY), paths.zookeeper)})
    if refused:
        raise StartError(
            f"{', '.join(refused)} cannot be set: take it out of jvm.options and of PULSAR_EXTRA_OPTS, "
            "JAVA_TOOL_OPTIONS and JDK_JAVA_OPTIONS"
        )


def await_leader(
    server: Server,
    ask: Callable[[str], str] | None = None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """The first of the others that leads a quorum; a server that lost its data can get it from there.

    Raises StartError after a minute without one: the pod's status says why, and its next start looks again.
    """
    end = clock() + WAIT_SECONDS
    while True:
        for host in server.others:
            try:
                answer = ask(host) if ask else four_letters("srvr", host, CLIENT_PORT, ANSWER_SECONDS)
            except OSError:
                continue
            if mode_of(answer) == "leader":
                return host
        if clock() >= end:
            raise StartError(
                f"the volume of server {server.myid} is empty, the ensemble was founded before and no other server "
                "leads a quorum: it founds no second one. Bring back the volumes of the others, and it joins them. "
                f"Only if all data may be lost: delete ConfigMap {server.statefulset}-founded"
            )
        pause(PAUSE_SECONDS)


def static_configuration(volume: Path, dynamic: str, overrides: Mapping[str, str], super_digest: str | None) -> str:
    """The whole static file. ZooKeeper hands keys it does not know on as system properties, so the digest is here and
    not on a command line that anybody on the node can read."""
    values = DEFAULTS | dict(overrides) | _fixed(volume)
    if super_digest is not None:
        values[SUPER_DIGEST] = super_digest
    return layer("# Written by pulsar_start at every start.", values | {"dynamicConfigFile": dynamic})


def has_version_2(volume: Path, overrides: Mapping[str, str]) -> bool:
    """Whether any snapshot or transaction log is on the volume: what ZooKeeper reads a database from (classes FileSnap
    and FileTxnLog). currentEpoch and acceptedEpoch beside them say nothing of data."""
    folders = [volume, Path(overrides.get("dataLogDir", volume))]
    return any(
        next((folder / "version-2").glob(pattern), None) is not None for folder in folders for pattern in DATA_FILES
    )


def _fixed(volume: Path) -> dict[str, str]:
    return {
        "dataDir": str(volume),
        "standaloneEnabled": "false",
        "reconfigEnabled": "true",
        # A server listens although its own name does not resolve yet.
        "quorumListenOnAllIPs": "true",
    }


def _is_reserved(key: str, volume: Path) -> bool:
    return (
        key in _fixed(volume)
        or key in (SUPER_DIGEST, TRUST_EMPTY, AUTOCREATE)
        or _MEMBERSHIP.fullmatch(key) is not None
    )


def _dynamic_name(static: Path, text: str) -> str:
    names = [value for key, value in parse(text) if key == "dynamicConfigFile"]
    if len(names) != 1:
        raise StartError(f"{static} names {len(names)} dynamicConfigFile: the membership is not guessed")
    if not Path(names[0]).is_file():
        raise StartError(f"{static} names {names[0]}, which is not there: the membership is not guessed")
    return names[0]


def _write_myid(volume: Path, server: Server) -> None:
    if (volume / "myid").exists():
        _check_myid(volume, server)
    else:
        write_atomically(volume / "myid", f"{server.myid}\n")


def _check_myid(volume: Path, server: Server) -> None:
    found = read(volume / "myid").strip()
    if found != str(server.myid):
        raise StartError(f"the volume belongs to server {found!r}, this is server {server.myid}")


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise StartError(f"{name} is not set")
    return value
