"""The command line of the conformance suite against admin REST that is played."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_conformance import __main__ as cli
from pulsar_conformance.context import Context
from pulsar_conformance.credentials import Access
from pulsar_conformance.java.client import JavaProcess
from pulsar_conformance.model import Check, CheckFailed, CheckSkipped
from pulsar_conformance.tamper import Mutation, drop
from tests.support.checks import fails as raises
from tests.support.played_admin import ANSWERS, Played

TOKEN = "eyJhbGciOiJIUzI1NiJ9.suite"
WITHOUT = "--without-java"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in (
        "SERVICE_URL",
        "ADMIN_URL",
        "REMOTE_SERVICE_URL",
        "REMOTE_ADMIN_URL",
        "FOREIGN_SERVICE_URL",
        "FOREIGN_ADMIN_URL",
        "CONFORMANCE_JAVA",
        cli.TOKEN_VARIABLE,
        cli.ROLE_TOKEN_VARIABLE,
    ):
        monkeypatch.delenv(name, raising=False)


def closes(ctx: Context) -> str:
    ctx.expect(ctx.tamper.wrap("client", Closing()).close() == "closed", "not closed")
    return "closed"


class Closing:
    """Has a method to be broken."""

    def close(self) -> str:
        return "closed"


def fails(_ctx: Context) -> str:
    raise CheckFailed("nothing came")


GOOD = Check("t.good", "it holds", ("E.reader",), closes, 1)
BAD = Check("t.bad", "it does not hold", ("E.reader",), fails, 1)
JAVA = Check("t.java", "it needs the Java client", ("E.reader",), lambda ctx: f"told by {ctx.java}", 1)


def use(monkeypatch: pytest.MonkeyPatch, *checks: Check, mutations: tuple[Mutation, ...] = ()) -> None:
    monkeypatch.setattr(cli, "all_checks", lambda: list(checks))
    monkeypatch.setattr(cli, "all_mutations", lambda: list(mutations))


def test_all_promises_held(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    files = {name: tmp_path / f"r.{name}" for name in ("json", "junit")}
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, WITHOUT]
    arguments += ["--token-file", str(tmp_path / "token")]
    written = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    assert cli.main([*arguments, *written]) == 0
    said = "".join(capsys.readouterr())
    assert "Pulsar 4.0.8 at pulsar://p:6650, 1 broker(s) of east" in said
    assert "1 checks in 0 s: 1 passed" in said
    assert json.loads(files["json"].read_text())["counts"]["passed"] == 1
    assert ET.parse(files["junit"]).getroot().get("tests") == "1"
    assert {authorization for _, _, authorization in played.asked} == {f"Bearer {TOKEN}"}
    assert TOKEN not in said + files["json"].read_text() + files["junit"].read_text()
    writes = [(method, path) for method, path, _ in played.asked if method != "GET"]
    assert writes == [("PUT", "/admin/v2/tenants/conformance"), ("DELETE", "/admin/v2/tenants/conformance")]


def test_a_broken_promise_is_exit_code_1(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD, BAD)
    monkeypatch.setenv("SERVICE_URL", "pulsar://p:6650")
    monkeypatch.setenv("ADMIN_URL", played.url)
    assert cli.main([WITHOUT]) == 1
    assert "FAILED" in capsys.readouterr().out
    assert cli.main([WITHOUT, "--only", "good"]) == 0


def test_mutations_are_run_in_place_of_the_checks(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, WITHOUT, "--mutations"]
    use(monkeypatch, GOOD, mutations=(Mutation("t.good", "open", "it stays open", (drop("client", "close"),)),))
    assert cli.main(arguments) == 0
    assert "1 caught" in capsys.readouterr().out
    use(monkeypatch, GOOD, mutations=(Mutation("t.good", "none", "nothing", (drop("client", "open"),)),))
    assert cli.main(arguments) == 1


def test_nobody_there_is_exit_code_2_with_the_next_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD)
    monkeypatch.setenv(cli.TOKEN_VARIABLE, TOKEN)
    assert cli.main(["--service-url", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1"]) == 2
    said = "".join(capsys.readouterr())
    assert "admin REST at http://127.0.0.1:1 does not answer" in said
    assert "next: curl -i http://127.0.0.1:1/admin/v2/clusters" in said
    assert TOKEN not in said


def test_no_rights_is_exit_code_2_with_pulsars_reason(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD)
    played.status = 401
    assert cli.main(["--service-url", "pulsar://p:6650", "--admin-url", played.url]) == 2
    assert "401 no rights" in capsys.readouterr().err


def test_wrong_calls_are_exit_code_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, GOOD)
    assert cli.main([]) == 2
    assert "needs --service-url and --admin-url" in capsys.readouterr().err
    assert cli.main(["--only", "no-such"]) == 2
    assert "no check matches no-such" in capsys.readouterr().err


def test_list_needs_no_instance(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, GOOD, BAD)
    assert cli.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["t.good", "t.bad"]


# --- the Java client


class Started(JavaProcess):
    """One that was started, on paper."""

    def __init__(self) -> None:
        self.closed = False

    def client(self, service_url: str, *, access: Access | None = None, **conf: object) -> Any:
        """Its client is a word."""
        return Word("Java")

    def close(self) -> None:
        """Remembered."""
        self.closed = True


class Word(str):
    """Can be closed."""

    __slots__ = ()

    def close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("arguments", [[], ["--java-classpath", "no/such/folder"], ["--mutations"]])
def test_no_java_client_is_exit_code_2_with_the_command_that_builds_it(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    use(monkeypatch, GOOD)
    assert cli.main(["--service-url", "pulsar://p:6650", "--admin-url", played.url, *arguments]) == 2
    out, said = capsys.readouterr()
    assert out == "", "no check was run"
    assert said.startswith("no Java client: ") and said.count("python -m e2e.kind java-client") == 1
    assert "--without-java skips the checks that need it" in said
    assert played.asked[-1][:2] == ("DELETE", "/admin/v2/tenants/conformance"), "nothing is left behind"


def test_a_java_client_that_does_not_start_is_exit_code_2(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*_args: object, **_options: object) -> JavaProcess:
        raise FileNotFoundError("No such file or directory: 'java'")

    use(monkeypatch, GOOD)
    monkeypatch.setattr(cli.JavaProcess, "start", start)
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, "--java-classpath", "jars"]
    assert cli.main(arguments) == 2
    assert "no Java client: No such file or directory: 'java'; python -m e2e.kind java-client" in capsys.readouterr()[1]


def test_checks_have_the_java_client_that_was_started(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD, JAVA)
    java, asked = Started(), list[object]()
    monkeypatch.setattr(cli.JavaProcess, "start", lambda classpath: asked.append(classpath) or java)
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, "--java-classpath", "jars"]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "told by Java" in out and "for want of" not in out
    assert asked == ["jars"] and java.closed


def test_without_the_java_client_on_purpose_what_needs_it_is_named_at_the_end(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD, JAVA)
    assert cli.main(["--service-url", "pulsar://p:6650", "--admin-url", played.url, WITHOUT, "--expect-skips"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "1 not run for want of the Java client: t.java"
    mutation = Mutation("t.java", "none", "nothing", (drop("client", "close"),))
    use(monkeypatch, JAVA, mutations=(mutation,))
    assert cli.main(["--service-url", "pulsar://p:6650", "--admin-url", played.url, WITHOUT, "--mutations"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "skipped: t.java"


# --- skips


def test_a_skip_nobody_expects_is_exit_code_1_where_that_is_asked(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offers = raises(CheckSkipped("brokers have delayedDeliveryEnabled=false"))
    use(monkeypatch, GOOD, Check("t.skipped", "it is offered", ("E.reader",), offers, 1))
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, WITHOUT]
    assert cli.main(arguments) == 0
    assert cli.main([*arguments, "--expect-skips"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "t.skipped was skipped unexpectedly: brokers have delayedDeliveryEnabled=false"


def test_an_expected_skip_is_exit_code_0(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = raises(CheckSkipped("needs 2 brokers, this cluster has 1"))
    use(monkeypatch, GOOD, Check("rebalancing.shedding", "it sheds", ("E.reader",), reason, 1))
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, WITHOUT, "--expect-skips"]
    assert cli.main(arguments) == 0


# --- another cluster of the instance


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Admin REST of a second cluster, west, that east's instance has too."""
    monkeypatch.setitem(ANSWERS, "/admin/v2/clusters", ["east", "global", "west"])
    server = Played(cluster="west")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def beside(played: Played, url: str) -> list[str]:
    """The command line with another cluster."""
    return [
        *("--service-url", "pulsar://p:6650", "--admin-url", played.url, WITHOUT),
        *("--remote-service-url", "pulsar://q:6650", "--remote-admin-url", url),
    ]


def test_checks_have_the_other_cluster_and_the_tenant_may_use_both(
    played: Played, other: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    use(monkeypatch, Check("t.both", "it sees both", ("E.geo",), lambda ctx: seen.append(ctx.instance.remote) or "", 1))
    assert cli.main(beside(played, other.url)) == 0
    assert (seen[0].cluster, seen[0].service_url) == ("west", "pulsar://q:6650")
    assert "1 broker(s) of east beside west;" in capsys.readouterr().out
    assert played.bodies["/admin/v2/tenants/conformance"] == {"adminRoles": [], "allowedClusters": ["east", "west"]}


def test_a_tenant_that_is_there_may_use_both_and_keeps_what_it_has(
    played: Played, other: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/admin/v2/tenants/conformance"
    use(monkeypatch, GOOD)
    monkeypatch.setitem(ANSWERS, path, {"adminRoles": ["mine"], "allowedClusters": ["east", "north"]})
    played.refused = {("PUT", path): 409}
    assert cli.main(beside(played, other.url)) == 0
    assert [(method, where) for method, where, _ in played.asked if method != "GET"] == [("PUT", path), ("POST", path)]
    assert played.bodies[path] == {"adminRoles": ["mine"], "allowedClusters": ["east", "north", "west"]}


@pytest.mark.parametrize("name", ["east", "elsewhere"])
def test_a_cluster_that_is_no_other_one_of_the_instance_is_exit_code_2(
    played: Played,
    other: Played,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    use(monkeypatch, GOOD)
    other.cluster = name
    assert cli.main(beside(played, other.url)) == 2
    said = capsys.readouterr().err
    assert said == f"{other.url} is of cluster {name}, and not of another one of east's: east, west\n"
    assert {method for method, _, _ in (*played.asked, *other.asked)} == {"GET"}, "nothing was made"


def test_another_cluster_that_does_not_answer_is_named(
    played: Played, other: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD)
    assert cli.main(beside(played, "http://127.0.0.1:1")) == 2
    assert "admin REST of the other cluster at http://127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert cli.main(beside(played, other.url)[:-2]) == 2
    assert "needs both: --remote-service-url and --remote-admin-url" in capsys.readouterr().err


# --- a cluster of another instance


def apart(played: Played, url: str) -> list[str]:
    """The command line with a cluster of another instance."""
    return [word.replace("--remote", "--foreign") for word in beside(played, url)]


def test_checks_have_the_cluster_of_another_instance_and_the_tenant_may_not_use_it(
    played: Played, other: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    use(monkeypatch, Check("t.apart", "it sees it", ("E.geo",), lambda c: seen.append(c.instance.foreign) or "", 1))
    other.cluster = "north"
    assert cli.main(apart(played, other.url)) == 0
    assert (seen[0].cluster, seen[0].service_url) == ("north", "pulsar://q:6650")
    assert "1 broker(s) of east, apart from north;" in capsys.readouterr().out
    assert played.bodies["/admin/v2/tenants/conformance"] == {"adminRoles": [], "allowedClusters": ["east"]}
    assert {method for method, _, _ in other.asked} == {"GET"}


def test_a_cluster_of_another_instance_that_is_of_no_use_is_exit_code_2(
    played: Played, other: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD)
    other.cluster = "east"
    for url, said in (
        (other.url, f"{other.url} is of a cluster east too: name a cluster of another name\n"),
        ("http://127.0.0.1:1", "admin REST of the cluster of another instance at http://127.0.0.1:1 does not answer"),
    ):
        assert cli.main(apart(played, url)) == 2
        assert capsys.readouterr().err.startswith(said)
    assert cli.main(apart(played, other.url)[:-2]) == 2
    assert "needs both: --foreign-service-url and --foreign-admin-url" in capsys.readouterr().err
    assert {method for method, _, _ in (*played.asked, *other.asked)} == {"GET"}, "nothing was made"
