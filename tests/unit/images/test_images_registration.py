"""A bookie waits for the registration of an earlier process: where it looks, how long, and what it says."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pulsar_start.components import component_named
from pulsar_start.main import prepare
from pulsar_start.rack import RACK_VARIABLE
from pulsar_start.registration import (
    EXTRA_SECONDS,
    PAUSE_SECONDS,
    TLS_ARGUMENT,
    NotAwaitedError,
    await_registration,
    parse_servers,
    registration_of,
)
from pulsar_start.session import Node, ProtocolError, Server

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import Component
from pulsar_operator.domain.render import render_cluster
from tests.support.cluster.rendering import distributed, inputs, overrides
from tests.support.processes.zookeeper_socket import CLOSE, EXISTS, STEP_SECONDS, SocketServer, Tree, hangs

START = Path(__file__).parents[3] / "broker_image" / "pulsar_start"
ID = "b-0.b.ns.svc.cluster.local:3181"
OWN = {"advertisedAddress": "b-0.b.ns.svc.cluster.local", "bookiePort": "3181", "zkTimeout": "30000"}
WRITES, READ_ONLY = f"/ledgers/available/{ID}", f"/ledgers/available/readonly/{ID}"
CONF = OWN | {"metadataServiceUri": "metadata-store:zk:zoo:2181"}


@pytest.mark.parametrize(
    ("store", "servers", "root"),
    [
        ({"metadataServiceUri": "metadata-store:zk:zoo:2181"}, ["zoo:2181"], "/ledgers"),
        ({"metadataServiceUri": "metadata-store:zk:a:2181;b:2182/p/q"}, ["a:2181", "b:2182"], "/p/q/ledgers"),
        ({"metadataServiceUri": "metadata-store:zk:a:2181,b/p/"}, ["a:2181", "b:2181"], "/p/ledgers"),
        ({"metadataServiceUri": "metadata-store:zk:a:1/"}, ["a:1"], "/ledgers"),
        ({"metadataServiceUri": "metadata-store:a:2181/p"}, ["a:2181"], "/p/ledgers"),
        (
            {"metadataServiceUri": "metadata-store:zk:[::1]:1;[fe80::2];fe80::3:4"},
            ["[::1]:1", "[fe80::2]:2181", "[fe80::3]:4"],
            "/ledgers",
        ),
        ({"metadataServiceUri": "zk+hierarchical://a:2181;b/ledgers"}, ["a:2181", "b:2181"], "/ledgers"),
        ({"metadataServiceUri": "zk+null://a:2181/p/l"}, ["a:2181"], "/p/l"),
        ({"metadataServiceUri": "zk://[::1]:2181"}, ["[::1]:2181"], "/ledgers"),
        ({"metadataServiceUri": "metadata-store:zk:a:1", "zkServers": "b:1"}, ["a:1"], "/ledgers"),
        ({"metadataServiceUri": "", "zkServers": "a:2181,b:2181"}, ["a:2181", "b:2181"], "/ledgers"),
        ({"zkServers": "a", "zkLedgersRootPath": "/l"}, ["a:2181"], "/l"),
        ({"zkServers": "a:1/p", "zkLedgersRootPath": "/l"}, ["a:1"], "/p/l"),
    ],
)
def test_where_a_bookie_registers(store: dict[str, str], servers: list[str], root: str) -> None:
    found = registration_of(OWN | store)
    assert [str(server) for server in found.servers] == servers
    assert found.paths == (f"{root}/available/{ID}", f"{root}/available/readonly/{ID}")


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ({"metadataServiceUri": "metadata-store:etcd:http://a:1"}, "a store other than ZooKeeper"),
        ({"metadataServiceUri": "metadata-store:oxia://a:1"}, "a store other than ZooKeeper"),
        ({"metadataServiceUri": "metadata-store:rocksdb:///x"}, "a store other than ZooKeeper"),
        ({"metadataServiceUri": "metadata-store:memory:x"}, "a store other than ZooKeeper"),
        ({"metadataServiceUri": "etcd+hierarchical://a:1/ledgers"}, "a store other than ZooKeeper"),
        ({"metadataServiceUri": "zk+hierarchical:a:1"}, "a store other than ZooKeeper"),
        ({"metadataServiceUri": "metadata-store:zk:"}, "not of the form"),
        ({"metadataServiceUri": "metadata-store:zk:a:1;;b:1"}, "not of the form"),
        ({"metadataServiceUri": "metadata-store:zk:a:0"}, "not of the form"),
        ({"metadataServiceUri": "metadata-store:zk:a:65536"}, "not of the form"),
        ({"metadataServiceUri": "metadata-store:zk:a b:1"}, "not of the form"),
        ({"metadataServiceUri": "", "zkServers": " "}, "neither metadataServiceUri nor zkServers"),
        ({}, "neither metadataServiceUri nor zkServers"),
    ],
)
def test_stores_that_cannot_be_asked(store: dict[str, str], words: str) -> None:
    with pytest.raises(NotAwaitedError, match=words):
        registration_of(OWN | store)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"advertisedAddress": "h", "bookiePort": "7"}, "h:7"),
        ({"advertisedAddress": " h "}, "h:3181"),
        ({"advertisedAddress": "10.0.0.1", "useHostNameAsBookieID": "true"}, "10.0.0.1:3181"),
        ({"advertisedAddress": "h", "bookieId": "own"}, "own"),
        ({"bookieId": "own", "bookiePort": "0"}, "own"),
        ({"advertisedAddress": "h", "bookiePort": "0"}, None),
        ({"advertisedAddress": "${sys:host}"}, None),
        ({"advertisedAddress": "h/x"}, None),
        ({"bookieId": "a b"}, None),
        ({"advertisedAddress": "", "useHostNameAsBookieID": "true"}, None),
        ({}, None),
    ],
)
def test_the_id_of_a_bookie(own: dict[str, str], expected: str | None) -> None:
    conf = own | {"zkServers": "a"}
    if expected is None:
        with pytest.raises(NotAwaitedError, match="bookieId"):
            registration_of(conf)
    else:
        assert registration_of(conf).paths[0] == f"/ledgers/available/{expected}"


@pytest.mark.parametrize(
    ("text", "seconds"), [("30000", 30), ("10000", 10), ("", 30), ("x", 30), ("-1", 30), ("9" * 10, 30)]
)
def test_the_longest_wait_follows_the_session(text: str, seconds: float) -> None:
    assert registration_of(CONF | {"zkTimeout": text}).seconds == seconds + EXTRA_SECONDS


@pytest.mark.parametrize("chroot", [None, "/p"])
def test_what_the_operator_renders_is_understood(chroot: str | None) -> None:
    external = {"external": {"servers": "a.example.com,b.example.com:2281", "chroot": chroot}}
    rendered = render_cluster(inputs(distributed(metadataStore=external if chroot else {"managed": {}})))
    for bookie in rendered.bookie_ids:
        pod = {"advertisedAddress": bookie.removesuffix(":3181")}
        found = registration_of(overrides(rendered.of(Component.BOOKIE)) | pod)
        assert found.paths[0] == f"{chroot or ''}/ledgers/available/{bookie}"
        assert found.servers == parse_servers(rendered.metadata_store.servers)


Look = Node | ProtocolError | OSError | RuntimeError | None


class World:
    """Time that only pauses let pass, and a ZooKeeper whose looks are given; the last one stays."""

    def __init__(self, *looks: Look, path: str = WRITES, away: int = 0) -> None:
        self._looks, self._path, self._away = list(looks), path, away
        self.now, self.said = 0.0, list[str]()
        self.opened, self.closed, self.dropped = 0, 0, 0

    def wait(self, conf: dict[str, str] | None = None, arguments: Sequence[str] = ()) -> list[str]:
        await_registration(conf or CONF, arguments, self.said.append, self._open, lambda: self.now, self._pause)
        return self.said

    def _pause(self, seconds: float) -> None:
        self.now += seconds

    def _open(self, servers: tuple[Server, ...], left: Callable[[], float]) -> "World":
        assert servers == (Server("zoo", 2181),)
        assert 0 < left() <= 5
        if self._away > 0:
            self._away -= 1
            raise ConnectionError("zoo:2181: Connection refused")
        self.opened += 1
        return self

    def node(self, path: str, seconds: float) -> Node | None:
        assert 0 < seconds <= 5
        if path != self._path:
            return None
        look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    def close(self) -> None:
        self.closed += 1

    def drop(self) -> None:
        self.dropped += 1


THERE = Node(WRITES, ephemeral=True)
WAITS = f"waiting for the registration of an earlier process to expire: {WRITES}, 90 s at most"


def test_a_first_start_says_and_waits_nothing() -> None:
    world = World(None)
    assert world.wait() == []
    assert (world.now, world.opened, world.closed) == (0, 1, 1)


@pytest.mark.parametrize("path", [WRITES, READ_ONLY])
def test_java_starts_when_the_node_is_gone(path: str) -> None:
    there = Node(path, ephemeral=True)
    world = World(*[there] * 30, None, path=path)
    assert world.wait() == [
        WAITS.replace(WRITES, path),
        "the registration of an earlier process is gone, after 30 s",
    ]
    assert (world.opened, world.closed, world.dropped) == (1, 1, 0)


def test_a_zookeeper_that_comes_up_later_is_waited_for() -> None:
    assert World(None, away=10).wait() == [
        "waiting for ZooKeeper, 90 s at most: zoo:2181: Connection refused",
        "ZooKeeper answers, after 10 s: no earlier process is registered",
    ]
    assert World(THERE, THERE, None, away=40).wait() == [
        "waiting for ZooKeeper, 90 s at most: zoo:2181: Connection refused",
        WAITS,
        "the registration of an earlier process is gone, after 42 s",
    ]


def test_a_lost_connection_is_made_anew() -> None:
    world = World(THERE, ConnectionError("zoo:2181: closes the connection"), THERE, None)
    assert world.wait()[0] == WAITS
    assert world.said[-1] == "the registration of an earlier process is gone, after 3 s"
    assert (world.opened, world.closed, world.dropped) == (2, 1, 1)


def test_a_process_that_lives_is_left_alone_and_the_bookie_starts_in_the_end() -> None:
    world = World(THERE)
    assert world.wait() == [
        WAITS,
        f"it starts all the same, after 90 s: {WRITES} is still there. Another process of this id may be alive, and "
        "nothing is deleted",
    ]
    assert world.now == 90
    assert world.closed == 1


def test_a_zookeeper_that_never_answers_is_left_in_the_end() -> None:
    world = World(None, away=10_000)
    assert world.wait()[1:] == [
        "it starts all the same, after 90 s: ZooKeeper does not answer: zoo:2181: Connection refused"
    ]
    assert world.now == 90


def test_a_slow_look_and_a_slow_pause_end_with_the_time() -> None:
    """Time passes in looks too: no pause goes beyond the end."""
    world = World(THERE)
    world.node = lambda path, seconds: setattr(world, "now", world.now + 4.9) or THERE  # type: ignore[method-assign]
    world.wait()
    assert 90 <= world.now < 90 + 5


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Node(WRITES, ephemeral=False), f"{WRITES} belongs to no session and does not expire"),
        (ProtocolError("zoo:2181: error -102"), "ZooKeeper at zoo:2181: error -102"),
        (RuntimeError("what is this"), "RuntimeError: what is this"),
    ],
)
def test_what_waiting_does_not_help_with(look: Look, words: str) -> None:
    world = World(look)
    assert world.wait() == [f"it starts without regard to an earlier registration: {words}"]
    assert (world.now, world.closed) == (0, 1)


@pytest.mark.parametrize(
    ("conf", "arguments", "words"),
    [
        (CONF, ["-Xmx1g", f"-Da=b {TLS_ARGUMENT}"], "ZooKeeper is reached by TLS"),
        (CONF | {"metadataServiceUri": "metadata-store:oxia://a:1"}, [], "names a store other than ZooKeeper"),
        (CONF | {"advertisedAddress": ""}, [], "the bookie's id is not known yet"),
    ],
)
def test_where_nothing_can_be_seen_nothing_is_asked(conf: dict[str, str], arguments: list[str], words: str) -> None:
    world = World(THERE)
    (line,) = world.wait(conf, arguments)
    assert line.startswith("it starts without regard to an earlier registration: ") and words in line
    assert world.opened == 0


CONFIGURED = "/p/ledgers/available/b-0.b.ns.svc.cluster.local:4181"
"""By the stock file, the ConfigMap and the pod of ``environ``, together."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A distribution with a java that says that it started."""
    for folder in ("conf", "jdk/bin", "config"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("bookkeeper.conf", "broker.conf"):
        (tmp_path / "conf" / name).write_text("zkTimeout=20000\nbookiePort=4181\nmetadataServiceUri=\n")
    program = tmp_path / "jdk/bin/java"
    program.write_text("#!/bin/sh\necho java runs\n")
    program.chmod(0o755)
    return {
        "PULSAR_HOME": str(tmp_path),
        "PULSAR_OPERATOR_CONFIG": str(tmp_path / "config"),
        "PULSAR_CONF_advertisedAddress": "b-0.b.ns.svc.cluster.local",
        "JAVA_HOME": str(tmp_path / "jdk"),
        "PATH": os.environ["PATH"],
    }


def stored(environ: dict[str, str], server: SocketServer) -> None:
    text = f"metadataServiceUri=metadata-store:zk:127.0.0.1:{server.port}/p\n"
    Path(environ["PULSAR_OPERATOR_CONFIG"], "overrides.conf").write_text(text)


def test_a_bookie_asks_with_what_it_is_configured_with_and_others_do_not(environ: dict[str, str]) -> None:
    tree, said = Tree(), list[str]()
    with SocketServer(tree) as server:
        stored(environ, server)
        for name in ("autorecovery", "broker"):
            prepare(component_named(name), environ, said.append)
        assert server.connections == 0
        prepare(component_named("bookie"), environ, said.append)
        assert server.connections == 2, "a first start costs two connections, for its id and for its turn"
    paths = [request[12:-1].decode() for request in tree.requests if len(request) > 12 and b"/p/" in request]
    assert paths == [
        "/p/pulsar-operator/bookie-incarnations",
        CONFIGURED,
        CONFIGURED.replace("available", "available/readonly"),
    ]
    assert tree.kinds.count(EXISTS) == 2 and tree.kinds[-1] == CLOSE
    assert not [line for line in said if "registration" in line or "ZooKeeper" in line]


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PULSAR_EXTRA_OPTS"])
def test_tls_is_seen_wherever_java_takes_arguments_from(variable: str, environ: dict[str, str]) -> None:
    said: list[str] = []
    with SocketServer(Tree()) as server:
        stored(environ, server)
        prepare(component_named("bookie"), environ | {variable: f"-Dx=y {TLS_ARGUMENT}"}, said.append)
        assert server.connections == 0
    assert "bookie: it starts without regard to an earlier registration: ZooKeeper is reached by TLS" in said


def started(environ: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(START), "bookie"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def line_with(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    assert any(words in line for line in process.stdout), process.communicate()


def test_java_starts_after_the_session_of_an_earlier_process(environ: dict[str, str]) -> None:
    tree = Tree({CONFIGURED: 9})
    with SocketServer(tree) as server:
        stored(environ, server)
        with started(environ) as process:
            line_with(process, f"to expire: {CONFIGURED}, 80 s at most")
            tree.nodes.clear()
            output, _ = process.communicate(timeout=30)
    assert output.splitlines()[0].startswith("pulsar_start: bookie: the registration of an earlier process is gone")
    assert output.splitlines()[-1] == "java runs"


@pytest.mark.parametrize("waits_for", ["registration", "answer", "rack"])
def test_a_signal_to_end_is_obeyed_while_it_waits(waits_for: str, environ: dict[str, str], tmp_path: Path) -> None:
    """By a handler, not by the default: as process 1 of a container it has no default, and ignores the signal."""
    tree = Tree({CONFIGURED: 9})
    if waits_for == "rack":
        environ[RACK_VARIABLE] = str(tmp_path / "rack")
    with SocketServer(hangs if waits_for == "answer" else tree) as server:
        stored(environ, server)
        with started(environ) as process:
            line_with(process, "waiting for the registration" if waits_for == "registration" else "metadataServiceUri=")
            if waits_for == "answer":
                eventually(lambda: server.connections, within=STEP_SECONDS, what="it asks", every=LOCAL)
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=PAUSE_SECONDS * 10)
    assert process.returncode == 128 + signal.SIGTERM
    assert "java runs" not in output
    assert errors == ""
    if waits_for == "registration":
        assert tree.kinds[-1] == CLOSE, "its session does not stay"
