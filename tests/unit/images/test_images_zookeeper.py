"""A ZooKeeper server's files: founded once, then membership is ZooKeeper's own."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from pulsar_start import zookeeper
from pulsar_start.errors import StartError
from pulsar_start.layering import parse
from pulsar_start.paths import Paths

ENVIRON = {
    "POD_NAME": "my-zookeeper-0",
    "ZOO_STS_NAME": "my-zookeeper",
    "ZOO_DOMAIN": "my-zookeeper-headless.ns.svc.cluster.local",
    "ZOO_REPLICAS": "1",
}
EXPECTED = "-Dzookeeper.db.autocreate=false"
DIGEST = "super:rvu0yyRiRjKfVSzi+R4AzdxY5Ls="
HOST = "my-zookeeper-{}.my-zookeeper-headless.ns.svc.cluster.local"


def line(number: int, role: str = "participant") -> str:
    return f"server.{number}={HOST.format(number - 1)}:2888:3888:{role};0.0.0.0:2181"


def server(**environ: str) -> zookeeper.Server:
    return zookeeper.Server.from_environ(ENVIRON | environ)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.from_environ({"PULSAR_HOME": str(tmp_path), "PULSAR_OPERATOR_CONFIG": str(tmp_path / "config")})


def static_of(paths: Paths) -> dict[str, str]:
    pairs = parse((paths.zookeeper / "conf/zoo.cfg").read_text())
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def test_first_start_of_a_single_server(paths: Paths) -> None:
    prepared = zookeeper.prepare(server(), paths, {"maxClientCnxns": "0", "autopurge.purgeInterval": "6"})

    volume = paths.zookeeper
    assert prepared.conf == volume / "conf/zoo.cfg"
    assert prepared.jvm == ["-Dzookeeper.snapshot.trust.empty=true", EXPECTED]
    assert (volume / "myid").read_text() == "1\n"
    assert (volume / "conf/zoo.cfg.dynamic").read_text() == line(1) + "\n"
    assert static_of(paths) == {
        "tickTime": "2000",
        "initLimit": "10",
        "syncLimit": "5",
        "autopurge.snapRetainCount": "3",
        "autopurge.purgeInterval": "6",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr,mntr",
        "maxClientCnxns": "0",
        "dataDir": str(volume),
        "standaloneEnabled": "false",
        "reconfigEnabled": "true",
        "quorumListenOnAllIPs": "true",
        "dynamicConfigFile": str(volume / "conf/zoo.cfg.dynamic"),
    }


def test_founders_list_each_other_as_participants(paths: Paths) -> None:
    zookeeper.prepare(server(ZOO_REPLICAS="3", POD_NAME="my-zookeeper-2"), paths, {})
    assert (paths.zookeeper / "myid").read_text() == "3\n"
    assert (paths.zookeeper / "conf/zoo.cfg.dynamic").read_text().splitlines() == [line(1), line(2), line(3)]


def test_a_newcomer_is_an_observer_so_that_newcomers_are_no_majority(paths: Paths) -> None:
    zookeeper.prepare(server(POD_NAME="my-zookeeper-2"), paths, {})
    assert (paths.zookeeper / "conf/zoo.cfg.dynamic").read_text().splitlines() == [line(1), line(3, "observer")]


def test_second_start_keeps_the_membership_zookeeper_has_written(paths: Paths) -> None:
    zookeeper.prepare(server(), paths, {"snapCount": "10", "maxClientCnxns": "7"})
    conf = paths.zookeeper / "conf"
    reconfigured = conf / "zoo.cfg.dynamic.100000003"
    reconfigured.write_text(f"{line(1)}\n{line(2)}\n{line(3)}\nversion=100000003\n")
    (conf / "zoo.cfg.dynamic").unlink()
    # ZooKeeper writes the line without regard to our order.
    static = conf / "zoo.cfg"
    kept = [text for text in static.read_text().splitlines() if not text.startswith("dynamicConfigFile")]
    static.write_text("\n".join([f"dynamicConfigFile={reconfigured}", *kept]) + "\n")
    before = reconfigured.read_bytes()

    prepared = zookeeper.prepare(server(ZOO_REPLICAS="5"), paths, {"snapCount": "20"})

    assert prepared.jvm == ["-Dzookeeper.snapshot.trust.empty=false", EXPECTED]
    assert static_of(paths)["dynamicConfigFile"] == str(reconfigured)
    assert static_of(paths)["snapCount"] == "20"
    assert "maxClientCnxns" not in static_of(paths)
    assert reconfigured.read_bytes() == before
    assert not (conf / "zoo.cfg.dynamic").exists()


def test_trust_of_empty_snapshots_only_without_data(paths: Paths) -> None:
    (paths.zookeeper / "version-2").mkdir(parents=True)
    (paths.zookeeper / "version-2/log.1").touch()
    assert zookeeper.prepare(server(), paths, {}).jvm == ["-Dzookeeper.snapshot.trust.empty=false", EXPECTED]


def test_data_in_a_separate_log_folder_is_data(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "txn/version-2").mkdir(parents=True)
    (tmp_path / "txn/version-2/log.1").touch()
    prepared = zookeeper.prepare(server(), paths, {"dataLogDir": str(tmp_path / "txn")})
    assert prepared.jvm == ["-Dzookeeper.snapshot.trust.empty=false", EXPECTED]


def test_an_interrupted_first_start_is_done_again(paths: Paths) -> None:
    zookeeper.prepare(server(), paths, {})
    (paths.zookeeper / "conf/zoo.cfg").unlink()
    (paths.zookeeper / "conf/zoo.cfg.dynamic").write_text("server.1=half")
    zookeeper.prepare(server(), paths, {})
    assert (paths.zookeeper / "conf/zoo.cfg.dynamic").read_text() == line(1) + "\n"


def test_super_digest_is_in_the_file_of_our_user_only_and_can_be_rotated_and_removed(paths: Paths) -> None:
    prepared = zookeeper.prepare(server(ZOO_SUPER_DIGEST=DIGEST), paths, {})
    static = paths.zookeeper / "conf/zoo.cfg"
    assert static_of(paths)["DigestAuthenticationProvider.superDigest"] == DIGEST
    assert static.stat().st_mode & 0o777 == 0o600
    assert not any(DIGEST in text for text in [*prepared.jvm, *prepared.notes])
    zookeeper.prepare(server(ZOO_SUPER_DIGEST="super:bmV3"), paths, {})
    assert static_of(paths)["DigestAuthenticationProvider.superDigest"] == "super:bmV3"
    zookeeper.prepare(server(), paths, {})
    assert "superDigest" not in static.read_text()


def test_a_volume_of_another_server_is_refused(paths: Paths) -> None:
    zookeeper.prepare(server(ZOO_REPLICAS="3"), paths, {})
    with pytest.raises(StartError, match="belongs to server '1', this is server 2"):
        zookeeper.prepare(server(ZOO_REPLICAS="3", POD_NAME="my-zookeeper-1"), paths, {})


@pytest.mark.parametrize("damage", ["no line", "no file", "two lines"])
def test_membership_is_never_guessed(paths: Paths, damage: str) -> None:
    zookeeper.prepare(server(), paths, {})
    conf = paths.zookeeper / "conf"
    text = (conf / "zoo.cfg").read_text()
    if damage == "no line":
        (conf / "zoo.cfg").write_text("tickTime=2000\n")
    elif damage == "two lines":
        (conf / "zoo.cfg").write_text(text + "dynamicConfigFile=/other\n")
    else:
        (conf / "zoo.cfg.dynamic").unlink()
    with pytest.raises(StartError, match="the membership is not guessed"):
        zookeeper.prepare(server(), paths, {})


@pytest.mark.parametrize(
    "key",
    [
        "dataDir",
        "standaloneEnabled",
        "reconfigEnabled",
        "quorumListenOnAllIPs",
        "dynamicConfigFile",
        "server.1",
        "weight.1",
        "clientPort",
        "DigestAuthenticationProvider.superDigest",
        "snapshot.trust.empty",
        "db.autocreate",
    ],
)
def test_keys_of_our_own_cannot_be_overridden(paths: Paths, key: str) -> None:
    with pytest.raises(StartError, match=f"cannot be overridden: {key}"):
        zookeeper.prepare(server(), paths, {key: "x"})
    assert not (paths.zookeeper / "conf").exists()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"POD_NAME": "other-0"}, "is not my-zookeeper-<ordinal>"),
        ({"POD_NAME": "my-zookeeper"}, "is not my-zookeeper-<ordinal>"),
        ({"POD_NAME": "my-zookeeper-x"}, "is not my-zookeeper-<ordinal>"),
        ({"ZOO_REPLICAS": "0"}, "is not a number of servers"),
        ({"ZOO_REPLICAS": "three"}, "is not a number of servers"),
        ({"ZOO_DOMAIN": ""}, "ZOO_DOMAIN is not set"),
        ({"ZOO_SUPER_DIGEST": "super:x\nserver.9=evil"}, "not of the form super:<base64 of SHA-1>$"),
    ],
)
def test_bad_environment_is_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(StartError, match=message):
        server(**environ)


def test_ordinals_of_two_digits() -> None:
    assert replace(server(ZOO_REPLICAS="11", POD_NAME="my-zookeeper-10")).myid == 11


@pytest.mark.parametrize("founded", ["", "false", "true"])
@pytest.mark.parametrize("data", [True, False])
@pytest.mark.parametrize("pod", ["my-zookeeper-0", "my-zookeeper-3"])
def test_an_empty_database_is_expected_of_founders_alone(paths: Paths, founded: str, data: bool, pod: str) -> None:
    if data:
        (paths.zookeeper / "version-2").mkdir(parents=True)
        (paths.zookeeper / "version-2/log.1").touch()
    made = server(ZOO_REPLICAS="3", POD_NAME=pod, ZOO_FOUNDED=founded)
    prepared = zookeeper.prepare(made, paths, {})
    founds = pod.endswith("0") and not data and founded != "true"
    assert (paths.zookeeper / "initialize").exists() is founds
    assert prepared.lost is (founded == "true" and not data)


@pytest.mark.parametrize("founded", ["", "true"])
@pytest.mark.parametrize(
    ("files", "data"),
    [
        (["currentEpoch", "acceptedEpoch"], False),
        (["currentEpoch.tmp"], False),
        ([], False),
        (["acceptedEpoch", "currentEpoch", "log.100000001"], True),
        (["snapshot.0"], True),
        (["snapshot.0.snappy"], True),
    ],
)
def test_epochs_without_a_snapshot_or_a_log_are_no_data(
    paths: Paths, files: list[str], data: bool, founded: str
) -> None:
    """Such a server has nothing that it could vote with, and what it lost must not be founded a second time."""
    zookeeper.prepare(server(ZOO_REPLICAS="3"), paths, {})
    (paths.zookeeper / "initialize").unlink()
    (paths.zookeeper / "version-2").mkdir()
    for name in files:
        (paths.zookeeper / "version-2" / name).write_text("1")
    prepared = zookeeper.prepare(server(ZOO_REPLICAS="3", ZOO_FOUNDED=founded), paths, {})
    assert prepared.lost is (founded == "true" and not data)
    assert (paths.zookeeper / "initialize").exists() is (founded != "true" and not data)
    assert prepared.jvm[0] == "-Dzookeeper.snapshot.trust.empty=false"


def test_what_a_founding_left_behind_does_not_found_again(paths: Paths) -> None:
    """The first start was interrupted before ZooKeeper; the others founded the ensemble meanwhile."""
    zookeeper.prepare(server(ZOO_REPLICAS="3"), paths, {})
    assert (paths.zookeeper / "initialize").exists()
    assert zookeeper.prepare(server(ZOO_REPLICAS="3", ZOO_FOUNDED="true"), paths, {}).lost
    assert not (paths.zookeeper / "initialize").exists()


def waiting(answers: dict[str, Iterator[str]], replicas: str = "3") -> str:
    """The wait of an empty server 1, a second a look."""
    clock = count()

    def ask(host: str) -> str:
        answer = next(answers[host.removeprefix("my-zookeeper-")[0]])
        if not answer:
            raise ConnectionRefusedError(host)
        return answer

    made = server(ZOO_REPLICAS=replicas, ZOO_FOUNDED="true")
    return zookeeper.await_leader(made, ask, lambda: float(next(clock)), lambda seconds: None)


def test_an_empty_server_waits_for_a_leader() -> None:
    answers = {
        "1": iter(
            ["", "This ZooKeeper instance is not currently serving requests", "Mode: follower", "Mode: follower"]
        ),
        "2": iter(["", "", "", "Zookeeper version: 3\nMode: leader\nNode count: 5"]),
    }
    assert waiting(answers).startswith("my-zookeeper-2.")


@pytest.mark.parametrize("replicas", ["1", "3"])
def test_an_empty_server_without_a_leader_says_why_it_does_not_start(replicas: str) -> None:
    answers = {"1": iter(["Mode: follower"] * 99), "2": iter([""] * 99)}
    with pytest.raises(StartError, match=r"server 1 is empty.*founds no second one.*ConfigMap my-zookeeper-founded"):
        waiting(answers, replicas)
