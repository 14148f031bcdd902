"""The command line of the conformance suite against admin REST that is played by this file."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from e2e.conformance import __main__ as cli
from e2e.conformance.context import Context
from e2e.conformance.model import Check, CheckFailed
from e2e.conformance.tamper import Mutation, drop

TOKEN = "eyJhbGciOiJIUzI1NiJ9.suite"
ANSWERS = {
    "/admin/v2/brokers/configuration/runtime": {"clusterName": "east"},
    "/admin/v2/clusters": ["east", "global"],
    "/admin/v2/brokers/east": ["b:8080"],
    "/admin/v2/brokers/version": "4.0.8",
}


class Played(ThreadingHTTPServer):
    """Answers what the suite asks before its first check."""

    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = status
        self.asked: list[tuple[str, str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One answer."""

    server: Played

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization")))
        found = ANSWERS.get(self.path)
        self.send_response(self.server.status if found is not None else 204)
        self.end_headers()
        if found is not None:
            refused = {"reason": "no rights"}
            self.wfile.write(json.dumps(found if self.server.status == 200 else refused).encode())

    do_GET = do_PUT = do_DELETE = answer  # noqa: N815 - http.server's names

    def log_message(self, *_args: object) -> None:
        """Nothing on the tests' own output."""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("SERVICE_URL", "ADMIN_URL", "CONFORMANCE_JAVA", cli.TOKEN_VARIABLE, cli.ROLE_TOKEN_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def played() -> Iterator[Played]:
    server = Played()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


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


def use(monkeypatch: pytest.MonkeyPatch, *checks: Check, mutations: tuple[Mutation, ...] = ()) -> None:
    monkeypatch.setattr(cli, "all_checks", lambda: list(checks))
    monkeypatch.setattr(cli, "all_mutations", lambda: list(mutations))


def test_all_promises_held(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, GOOD)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    files = {name: tmp_path / f"r.{name}" for name in ("json", "junit")}
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, "--token-file", str(tmp_path / "token")]
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
    assert cli.main([]) == 1
    assert "FAILED" in capsys.readouterr().out
    assert cli.main(["--only", "good"]) == 0


def test_mutations_are_run_in_place_of_the_checks(
    played: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--service-url", "pulsar://p:6650", "--admin-url", played.url, "--mutations"]
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
