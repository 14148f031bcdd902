"""The command line of each component, and a start up to the point where Java takes over."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pulsar_start import java
from pulsar_start.components import COMPONENTS, component_named
from pulsar_start.errors import StartError
from pulsar_start.files import write_atomically
from pulsar_start.layering import parse
from pulsar_start.main import prepare
from pulsar_start.paths import FOLDERS, Paths
from pulsar_start.rack import RACK_VARIABLE, WAIT_SECONDS, await_rack

ROOT = Path(__file__).parents[3]
START = ROOT / "broker_image" / "pulsar_start"
ZOO = {"POD_NAME": "zoo-0", "ZOO_STS_NAME": "zoo", "ZOO_DOMAIN": "d", "ZOO_REPLICAS": "1"}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A distribution with a java that prints how it was called."""
    for folder in ("conf", "jdk/bin", "config"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("broker.conf", "bookkeeper.conf", "proxy.conf", "standalone.conf"):
        (tmp_path / "conf" / name).write_text("# stock\nadvertisedAddress=\nstock=1\n")
    program = tmp_path / "jdk/bin/java"
    program.write_text('#!/bin/sh\nfor a in "$@"; do echo "arg $a"; done\necho "pid $$"\necho "pwd $PWD"\nenv\numask\n')
    program.chmod(0o755)
    return {
        "PULSAR_HOME": str(tmp_path),
        "PULSAR_OPERATOR_CONFIG": str(tmp_path / "config"),
        "JAVA_HOME": str(tmp_path / "jdk"),
        "PATH": os.environ["PATH"],
    }


def joined(environ: dict[str, str]) -> dict[str, str]:
    """Environment of a ZooKeeper server that was started before, and whose name is one of this machine's."""
    volume = Path(environ["PULSAR_HOME"], "data/zookeeper")
    dynamic = volume / "conf/zoo.cfg.dynamic"
    dynamic.parent.mkdir(parents=True)
    (volume / "myid").write_text("1\n")
    dynamic.write_text("server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181\n")
    (volume / "conf/zoo.cfg").write_text(f"dynamicConfigFile={dynamic}\n")
    return environ | ZOO


def argv(name: str, environ: dict[str, str]) -> list[str]:
    return prepare(component_named(name), environ, lambda line: None).argv


@pytest.mark.parametrize(
    ("name", "tail"),
    [
        ("zookeeper", ["org.apache.zookeeper.server.quorum.QuorumPeerMain", "{home}/data/zookeeper/conf/zoo.cfg"]),
        ("bookie", ["org.apache.bookkeeper.server.Main", "--conf", "{home}/conf-rendered/bookkeeper.conf"]),
        (
            "autorecovery",
            ["org.apache.bookkeeper.replication.AutoRecoveryMain", "--conf", "{home}/conf-rendered/bookkeeper.conf"],
        ),
        ("broker", ["org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", "{home}/conf-rendered/broker.conf"]),
        (
            "proxy",
            ["org.apache.pulsar.proxy.server.ProxyServiceStarter", "--config", "{home}/conf-rendered/proxy.conf"],
        ),
        (
            "standalone",
            [
                "org.apache.pulsar.PulsarStandaloneStarter",
                "--config",
                "{home}/conf-rendered/standalone.conf",
                "--metadata-url=rocksdb://{home}/data/standalone/metadata",
                "--bookkeeper-dir={home}/data/standalone/bookkeeper",
                "--no-functions-worker",
                "--no-stream-storage",
            ],
        ),
    ],
)
def test_command_line(name: str, tail: list[str], environ: dict[str, str]) -> None:
    home = environ["PULSAR_HOME"]
    command = argv(name, joined(environ))
    assert command[:3] == [f"{home}/jdk/bin/java", "-cp", f"{home}/conf:{home}/lib/*"]
    assert command[-len(tail) :] == [word.format(home=home) for word in tail]
    for always in (
        "-XX:+ExitOnOutOfMemoryError",
        "-Djute.maxbuffer=10485760",
        "-Dpulsar.log.appender=Console",
        "-Dlog4j.configurationFile=log4j2.yaml",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    ):
        assert command.count(always) == 1
    hook = "-Dlog4j.shutdownHookEnabled=false" in command
    assert hook == (name in ("broker", "standalone"))


def test_the_table_is_what_the_pods_name() -> None:
    assert list(COMPONENTS) == ["zookeeper", "bookie", "autorecovery", "broker", "proxy", "standalone"]


def test_small_heap_without_jvm_conf(environ: dict[str, str]) -> None:
    assert [word for word in argv("broker", environ) if word in java.SMALL_HEAP] == list(java.SMALL_HEAP)


def test_the_users_jvm_arguments_come_last(environ: dict[str, str]) -> None:
    Path(environ["PULSAR_OPERATOR_CONFIG"], "jvm.conf").write_text("# heap\n-Xmx1g\n\n  -XX:+UseZGC \n")
    command = argv("broker", environ | {"PULSAR_EXTRA_OPTS": "-Da='b c' -Xmx2g"})
    where = command.index("org.apache.pulsar.PulsarBrokerStarter")
    assert command[where - 4 : where] == ["-Xmx1g", "-XX:+UseZGC", "-Da=b c", "-Xmx2g"]
    assert "-XX:+UseSerialGC" not in command


def test_precedence_defaults_then_config_map_then_pod(environ: dict[str, str]) -> None:
    home = Path(environ["PULSAR_HOME"])

    def rendered() -> dict[str, str]:
        argv("standalone", environ)
        return dict(parse((home / "conf-rendered/standalone.conf").read_text()))

    assert rendered() == {"advertisedAddress": "127.0.0.1", "stock": "1"}
    (home / "config/overrides.conf").write_text("advertisedAddress=map\n")
    assert rendered()["advertisedAddress"] == "map"
    environ["PULSAR_CONF_advertisedAddress"] = "pod"
    assert rendered()["advertisedAddress"] == "pod"
    assert (home / "conf/standalone.conf").read_text() == "# stock\nadvertisedAddress=\nstock=1\n"


@pytest.mark.parametrize("name", ["PULSAR_CONF_clusterName", "ZOO_DOMAIN", "POD_IP", "PULSAR_OPERATOR_X", *FOLDERS])
@pytest.mark.parametrize("component", ["broker", "zookeeper", "standalone"])
def test_variables_of_the_operator_do_not_come_from_a_secret_as_a_whole(
    component: str, name: str, environ: dict[str, str]
) -> None:
    """A folder of data elsewhere is data that goes with the pod."""
    own = joined(environ) | {"PULSAR_CONF_autopurge.purgeInterval": "2"}
    listed = own | {"PULSAR_OPERATOR_VARIABLES": ",".join(own), "AWS_SECRET_ACCESS_KEY": "canary"}
    assert argv(component, listed)
    names = ",".join(own.keys() - {name})
    with pytest.raises(StartError, match=f"{name} cannot come from envFrom") as refused:
        argv(component, listed | {name: "canary", "PULSAR_OPERATOR_VARIABLES": names})
    assert "canary" not in str(refused.value)


def test_outside_of_kubernetes_every_variable_may_be_set(environ: dict[str, str], tmp_path: Path) -> None:
    by_hand = {"PULSAR_CONF_clusterName": "east", "POD_IP": "10.0.0.1", "PULSAR_DATA": str(tmp_path / "there")}
    assert f"--bookkeeper-dir={tmp_path}/there/standalone/bookkeeper" in argv("standalone", environ | by_hand)


GUARDS = ["-Dzookeeper.snapshot.trust.empty=false", "-Dzookeeper.db.autocreate=false"]
UNGUARDED = ["-Dzookeeper.snapshot.trust.empty=true", "-Dzookeeper.db.autocreate=true"]


def test_what_protects_the_data_of_zookeeper_comes_after_the_users_arguments(environ: dict[str, str]) -> None:
    """Of two equal arguments the last counts, also where one hides in a file of arguments."""
    Path(environ["PULSAR_HOME"], "data/zookeeper/version-2").mkdir(parents=True)
    Path(environ["PULSAR_HOME"], "data/zookeeper/version-2/snapshot.0").touch()
    command = argv("zookeeper", joined(environ) | {"PULSAR_EXTRA_OPTS": "-Dx=y @/tmp/arguments"})
    where = command.index("org.apache.zookeeper.server.quorum.QuorumPeerMain")
    assert command[where - 4 : where] == ["-Dx=y", "@/tmp/arguments", *GUARDS]


@pytest.mark.parametrize(
    "argument",
    [*UNGUARDED, "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:canary", "-Dzookeeper.dataDir=/x"],
)
@pytest.mark.parametrize("place", ["PULSAR_EXTRA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "jvm.conf"])
def test_what_protects_the_data_of_zookeeper_is_no_argument(place: str, argument: str, environ: dict[str, str]) -> None:
    """A variable may come from a Secret, where the operator does not see it."""
    if place == "jvm.conf":
        Path(environ["PULSAR_OPERATOR_CONFIG"], place).write_text(f"-Xmx1g\n{argument}\n")
    else:
        environ[place] = f"-Xmx1g '{argument}'"
    name = argument.partition("=")[0]
    with pytest.raises(
        StartError, match=f"{name} cannot be set: take it out of jvm.options and of PULSAR_EXTRA_OPTS"
    ) as refused:
        argv("zookeeper", environ | ZOO)
    assert "canary" not in str(refused.value)
    assert not Path(environ["PULSAR_HOME"], "data").exists()
    assert argv("broker", environ), "a client's properties are not a server's"


def test_rendered_configuration_is_for_our_user_only(environ: dict[str, str]) -> None:
    argv("broker", environ)
    rendered = Path(environ["PULSAR_HOME"], "conf-rendered/broker.conf")
    assert stat.S_IMODE(rendered.stat().st_mode) == 0o600
    assert [path.name for path in rendered.parent.iterdir()] == ["broker.conf"]


def run(arguments: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(START), *arguments], env=environ, capture_output=True, text=True, timeout=30, check=False
    )


def test_java_replaces_the_start_program_and_no_secret_is_printed_or_handed_on(environ: dict[str, str]) -> None:
    config = Path(environ["PULSAR_OPERATOR_CONFIG"])
    (config / "overrides.conf").write_text("clusterName=east\nbrokerClientAuthenticationParameters=token:canary\n")
    (config / "jvm.conf").write_text("-Dzookeeper.ssl.keyStore.password=quiet\n")
    with subprocess.Popen(
        [sys.executable, str(START), "broker"],
        env=environ | {"PULSAR_CONF_tokenSecretKey": "canary"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    lines = output.splitlines()
    assert lines[:4] == [
        "pulsar_start: broker: brokerClientAuthenticationParameters=***",
        "pulsar_start: broker: clusterName=east",
        "pulsar_start: broker: tokenSecretKey=***",
        "pulsar_start: broker: java -Dzookeeper.ssl.keyStore.password=***",
    ]
    assert "canary" not in output
    assert f"pid {process.pid}" in lines
    assert f"pwd {environ['PULSAR_HOME']}" in lines
    assert "OTEL_SEMCONV_STABILITY_OPT_IN=jvm" in lines
    assert "0077" in lines


def test_the_super_digest_reaches_java_only_through_its_file(environ: dict[str, str]) -> None:
    result = run(["zookeeper"], joined(environ) | {"ZOO_SUPER_DIGEST": "super:Y2FuYXJ5"})
    assert result.returncode == 0, result.stderr
    assert "Y2FuYXJ5" not in result.stdout + result.stderr
    assert "superDigest=super:Y2FuYXJ5" in Path(environ["PULSAR_HOME"], "data/zookeeper/conf/zoo.cfg").read_text()


@pytest.mark.parametrize(
    ("arguments", "change", "code", "message"),
    [
        ([], {}, 2, "usage:"),
        (["broker", "x"], {}, 2, "usage:"),
        (["websocket"], {}, 1, "no component 'websocket'"),
        (["broker"], {"JAVA_HOME": "/nowhere"}, 1, "JAVA_HOME has no program"),
        (["broker"], {"PULSAR_CONF_x": "a\nb"}, 1, "the value of x contains a line break"),
        (["broker"], {"PULSAR_EXTRA_OPTS": "-Da='b"}, 1, "PULSAR_EXTRA_OPTS: No closing quotation"),
        (["zookeeper"], {"JAVA_TOOL_OPTIONS": "-Da='b"}, 1, "JAVA_TOOL_OPTIONS: No closing quotation"),
        (["zookeeper"], {}, 1, "POD_NAME is not set"),
        (["broker"], {"PULSAR_RENDERED": "/proc/nowhere"}, 1, "cannot write /proc/nowhere/broker.conf"),
    ],
)
def test_errors_are_one_sentence(
    arguments: list[str], change: dict[str, str], code: int, message: str, environ: dict[str, str]
) -> None:
    result = run(arguments, environ | change)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_distribution_without_the_stock_file_is_an_error(environ: dict[str, str]) -> None:
    Path(environ["PULSAR_HOME"], "conf/proxy.conf").unlink()
    with pytest.raises(StartError, match=r"cannot read .*proxy\.conf"):
        argv("proxy", environ)


def test_java_from_the_path(environ: dict[str, str], tmp_path: Path) -> None:
    assert java.find_java({"PATH": str(tmp_path / "jdk/bin")}) == str(tmp_path / "jdk/bin/java")
    with pytest.raises(StartError, match="no java"):
        java.find_java({"PATH": str(tmp_path)})


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "f"
    write_atomically(target, "old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StartError, match="disk full"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_default_paths_are_those_of_the_images() -> None:
    paths = Paths.from_environ({})
    assert [str(path) for path in (paths.zookeeper, paths.standalone, paths.rendered, paths.logs, paths.config)] == [
        "/pulsar/data/zookeeper",
        "/pulsar/data/standalone",
        "/pulsar/conf-rendered",
        "/pulsar/logs",
        "/etc/pulsar-operator/config",
    ]


@pytest.mark.parametrize("folder", ["broker_image", "bookie_image", "proxy"])
def test_every_image_copies_the_one_start_program_and_drops_root(folder: str) -> None:
    lines = (ROOT / folder / "Dockerfile").read_text().splitlines()
    assert "COPY broker_image/pulsar_start /opt/pulsar-operator/pulsar_start" in lines
    assert [line for line in lines if line.startswith("USER ")][-1] == "USER 10000:0"
    assert not any("--chmod" in line or "--mount" in line for line in lines)


def test_a_bookie_waits_for_its_rack(tmp_path: Path) -> None:
    file, now = tmp_path / "rack", [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds
        if now[0] >= 5:
            file.write_text("/a\n")

    file.write_text("")
    assert await_rack({RACK_VARIABLE: str(file)}, lambda: now[0], pause) == "in rack /a, after 5 s"
    assert await_rack({RACK_VARIABLE: str(file)}, lambda: now[0], pause) == "in rack /a, after 0 s"


@pytest.mark.parametrize("there", [True, False])
def test_a_bookie_waits_a_minute_for_its_rack_at_most(tmp_path: Path, there: bool) -> None:
    file, now = tmp_path / "rack", [0.0]
    if there:
        file.write_text("")

    def pause(seconds: float) -> None:
        now[0] += seconds

    said = await_rack({RACK_VARIABLE: str(file)}, lambda: now[0], pause)
    assert said is not None and said.startswith("no rack after 60 s: it starts all the same")
    assert now[0] == WAIT_SECONDS


def test_only_a_bookie_that_is_told_to_waits(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rack").write_text("/a")
    said: list[str] = []
    for name in ("bookie", "autorecovery"):
        prepare(component_named(name), environ | {RACK_VARIABLE: str(tmp_path / "rack")}, said.append)
    prepare(component_named("bookie"), environ, said.append)
    assert [line for line in said if "rack" in line] == ["bookie: in rack /a, after 0 s"]
