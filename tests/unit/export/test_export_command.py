"""The command: options, exit codes, files, the token, and a Pulsar that does not answer."""

from __future__ import annotations

import asyncio
import io
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from pulsar_operator.export import ExportError, Options, Progress, export
from pulsar_operator.export.calls import AGAIN_SECONDS, UNREACHABLE_CALLS
from pulsar_operator.export.reader import CONCURRENCY
from pulsar_operator.main import run
from pulsar_operator.ports import RefusedError, UnavailableError
from tests.fakes.admin import AdminCall, FakeAdmin, serve
from tests.support.core.virtual_time import run_virtual
from tests.support.export.memory import ExportPulsar, exported, manifests, notes, plain

TOKEN = "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl"
Script = Callable[[web.Request], web.StreamResponse | None]


def filled() -> ExportPulsar:
    """Two namespaces, each with topics."""
    pulsar = ExportPulsar()

    async def fill() -> None:
        admin = FakeAdmin(pulsar)
        await plain(admin, "PUT", "tenants", "t", body={"adminRoles": [], "allowedClusters": ["a"]})
        for name in ("n", "m"):
            await plain(admin, "PUT", "namespaces", "t", name)
            await plain(admin, "PUT", "persistent", "t", name, "x")
            await plain(admin, "PUT", "persistent", "t", name, "p", "partitions", body=2)
        await plain(admin, "POST", "persistent", "t", "n", "x", "maxConsumers", body=4, isGlobal="false")

    asyncio.run(fill())
    return pulsar


class Server:
    """The in-memory Pulsar over HTTP, in a thread of its own: the command has its own event loop."""

    def __init__(self) -> None:
        self.pulsar = filled()
        self.script: Script | None = None
        self.url = ""
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])

    async def _serve(self) -> None:
        def scripted(request: web.Request) -> web.StreamResponse | None:
            return self.script(request) if self.script is not None else None

        async with serve(self.pulsar, "a", scripted) as (url, _):
            self.url = url
            self._up.set()
            await self._stop.wait()

    def start(self) -> None:
        """Returns when it listens."""
        self._thread.start()
        assert self._up.wait(10)

    def stop(self) -> None:
        """Returns when it is gone."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A filled Pulsar."""
    found = Server()
    found.start()
    yield found
    found.stop()


def documents(text: str) -> list[Any]:
    """The manifests of a text."""
    return [d for d in yaml.safe_load_all(text) if d is not None]


def test_to_standard_output(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--admin-url", server.url, "--instance", "prod", "--namespace", "apps"]) == 0
    out, err = capsys.readouterr()
    kinds = [d["kind"] for d in documents(out)]
    assert kinds == ["PulsarTenant", *["PulsarNamespace"] * 2, *["PulsarTopic"] * 4]
    assert {d["metadata"]["namespace"] for d in documents(out)} == {"apps"}
    assert "tenants 1/1, namespaces 2/2, topics 4/4\n" in err
    rows = [line.split() for line in err.splitlines()]
    assert ["exported", "left", "out", "not", "read"] in rows
    for row in (["PulsarTenant", "1"], ["PulsarNamespace", "2"], ["PulsarTopic", "4"]):
        assert [*row, "0", "0"] in rows
    for part in (["with", "policies", "1"], ["subscriptions", "0"], ["schemas", "0"]):
        assert part in rows


def test_to_a_file_and_to_a_directory(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "all.yaml", tmp_path / "deep" / "er"
    assert run(["export", "--admin-url", server.url, "--output", str(file)]) == 0
    assert run(["export", "--admin-url", server.url, "--output", f"{folder}/"]) == 0
    assert capsys.readouterr().out == ""
    assert sorted(p.name for p in folder.iterdir()) == ["t.m.yaml", "t.n.yaml", "tenants.yaml"]
    each = [d for p in folder.iterdir() for d in documents(p.read_text())]
    by_name = sorted(each, key=lambda d: str(d["metadata"]))
    assert by_name == sorted(documents(file.read_text()), key=lambda d: str(d["metadata"]))
    assert "namespace" not in each[0]["metadata"]
    del server.pulsar.namespaces["t/m"]
    assert run(["export", "--admin-url", server.url, "--output", str(folder)]) == 0
    assert "do not belong to this export: t.m.yaml" in capsys.readouterr().err
    assert run(["export", "--admin-url", server.url, "--output", str(file / "x")]) == 1


def test_the_token_is_sent_and_never_reported(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = lambda request: (
        None if request.headers.get("Authorization") == f"Bearer {TOKEN}" else web.Response(status=401)
    )
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert run(["export", "--admin-url", server.url]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "HTTP 401" in err
    assert run(["export", "--admin-url", server.url, "--token-file", str(file)]) == 0
    out, err = capsys.readouterr()
    assert len(documents(out)) == 7 and TOKEN not in out + err


def test_the_token_does_not_follow_a_redirect_to_another_host(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    elsewhere = server.url.replace("127.0.0.1", "localhost")

    def moved(request: web.Request) -> web.StreamResponse | None:
        if request.host.startswith("localhost") or "tenants" not in request.path:
            return None
        return web.Response(status=307, headers={"Location": f"{elsewhere}{request.raw_path}"})

    server.script = moved
    command = ["export", "--admin-url", server.url, "--token-file", str(file)]
    assert run(command) == 1
    assert "no request was sent to localhost:" in capsys.readouterr().err
    assert run([*command, "--token-host", "localhost"]) == 0
    assert len(documents(capsys.readouterr().out)) == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--admin-url"),
        (["--admin-url", "pulsar://a:6650"], "must be a URL such as"),
        (["--admin-url", "http://"], "must be a URL such as"),
        (["--admin-url", "http://a:99999"], "must be a URL such as"),
        (["--admin-url", "http://me:pw@a"], "--token-file"),
        (["--admin-url", "http://a", "--tenants", "("], "--tenants '(' is not a regular expression"),
        (["--admin-url", "http://a", "--instance", "A b"], "--instance 'A b'"),
        (["--admin-url", "http://a", "--namespace", "x.y"], "--namespace 'x.y'"),
        (["--admin-url", "http://a", "--token-file", "/nowhere"], "token file /nowhere cannot be read: No such file"),
        (["--admin-url", "http://a", "--ca-file", "/nowhere"], "CA file /nowhere cannot be read: No such file"),
        (["--admin-url", "http://a", "--token-host", "http://b"], "--token-host 'http://b' is not a host name"),
        (["--admin-url", "http://a", "--topic-sets", "1"], "--topic-sets 1 is too small. The number must be at least"),
        (["--admin-url", "http://a", "--topic-sets", "many"], "--topic-sets"),
        (["--admin-url", "http://a", "--colour"], "--colour"),
    ],
)
def test_wrong_use(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["export", *arguments])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert said in err and "pw" not in err


@pytest.mark.parametrize("content", ["", "two words", "line\nline", "\u00e9"])
def test_a_file_without_a_token(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(SystemExit) as ended:
        run(["export", "--admin-url", "http://a", "--token-file", str(file)])
    assert ended.value.code == 2 and "does not contain a token" in capsys.readouterr().err


async def test_tenants_are_chosen_by_their_whole_name() -> None:
    admin = FakeAdmin(filled_more())
    for pattern, expected in (("t", ["t"]), ("t.*", ["t", "team"]), ("e", []), ("team|other", ["other", "team"])):
        found = await exported(admin, tenants=re.compile(pattern))
        assert [m["metadata"]["name"] for m in manifests(found) if m["kind"] == "PulsarTenant"] == expected


def filled_more() -> ExportPulsar:
    """Three tenants."""
    names = ("t", "team", "other")
    return ExportPulsar(tenants={name: {"adminRoles": [], "allowedClusters": ["a"]} for name in names})


def test_a_pulsar_that_is_not_there() -> None:
    with pytest.raises(ExportError, match="nothing was read: no answer to brokers/version") as raised:
        run_virtual(exported(Failing(lambda call: True)))
    assert "curl http://a:8080/admin/v2/brokers/health" in str(raised.value)
    again = "run the export again: pulsar-operator export --admin-url http://a:8080 --instance prod --namespace apps"
    assert str(raised.value).endswith(again)


class Failing(FakeAdmin):
    """Does not answer the calls that are chosen."""

    def __init__(self, chosen: Callable[[AdminCall], bool], pulsar: ExportPulsar | None = None) -> None:
        super().__init__(pulsar)

        def fail(call: AdminCall) -> None:
            if chosen(call):
                raise UnavailableError(f"no answer to {'/'.join(call.path)}")

        self.before.append(fail)


@pytest.fixture
def pulsar() -> ExportPulsar:
    """See filled."""
    return filled()


def test_what_does_not_answer_is_named_and_the_rest_is_exported(pulsar: ExportPulsar) -> None:
    for path, lost in (
        (("tenants", "t"), {"PulsarTenant": 0, "PulsarNamespace": 0, "PulsarTopic": 0}),
        (("namespaces", "t", "n"), {"PulsarTenant": 1, "PulsarNamespace": 1, "PulsarTopic": 2}),
        (("persistent", "t", "n"), {"PulsarTenant": 1, "PulsarNamespace": 2, "PulsarTopic": 2}),
        (("persistent", "t", "n", "p", "partitions"), {"PulsarTenant": 1, "PulsarNamespace": 2, "PulsarTopic": 3}),
    ):
        found = run_virtual(exported(Failing(lambda call, path=path: call.path == path, pulsar)))  # type: ignore[misc]
        kinds = [m["kind"] for m in manifests(found)]
        assert {kind: kinds.count(kind) for kind in lost} == lost
        assert found.failed and "/".join(path) in notes(found)[0]


def test_a_pulsar_that_falls_silent_ends_the_export(pulsar: ExportPulsar) -> None:
    async def check() -> Failing:
        for number in range(500):
            await plain(FakeAdmin(pulsar), "PUT", "persistent", "t", "n", f"y{number}")
        admin = Failing(lambda call: len(call.path) > 4, pulsar)
        with pytest.raises(ExportError, match=r"written, because Pulsar no longer answers.*\. Check the .* run"):
            await exported(admin)
        return admin

    failed = {call.path for call in run_virtual(check()).calls if len(call.path) > 4}
    assert len(failed) < UNREACHABLE_CALLS + 2 * CONCURRENCY


def test_a_call_without_an_answer_is_repeated_for_a_while(pulsar: ExportPulsar) -> None:
    """With pauses: a broker that is replaced leaves no gap in the export."""

    async def check(seconds: float) -> tuple[Any, int]:
        now = asyncio.get_running_loop().time
        admin = Failing(lambda call: call.path == ("namespaces", "t", "n") and now() < seconds, pulsar)
        found = await exported(admin)
        return found, len([call for call in admin.calls if call.path == ("namespaces", "t", "n")])

    found, asked = run_virtual(check(AGAIN_SECONDS - 3))
    assert not found.failed and 3 <= asked <= 6
    found, asked = run_virtual(check(AGAIN_SECONDS + 10))
    assert found.failed and asked <= 6


def test_topics_without_an_owner_are_waited_for_once_and_named(pulsar: ExportPulsar) -> None:
    """Nothing else is lost, and it does not count as silence."""
    for number in range(30):
        asyncio.run(plain(FakeAdmin(pulsar), "PUT", "persistent", "t", "n", f"y{number}"))
    lost = {f"persistent://t/n/y{number}" for number in range(30)}

    async def check(seconds: float) -> tuple[Any, float]:
        admin, now = FakeAdmin(pulsar), asyncio.get_running_loop().time

        def own(call: AdminCall) -> None:
            pulsar.unowned = set(lost) if now() < seconds else set()

        admin.before.append(own)
        return await exported(admin), now()

    found, took = run_virtual(check(AGAIN_SECONDS - 1))
    assert not found.failed and took == AGAIN_SECONDS
    assert len(manifests(found)) == 7 + len(lost)
    found, took = run_virtual(check(1000))
    assert found.failed and took == AGAIN_SECONDS, "the namespace is waited for, not each topic"
    assert len(manifests(found)) == 7
    said = [note for note in notes(found) if "could not be read" in note and "412: Failed to find ownership" in note]
    assert {note.split(": ")[0].removeprefix("topic ") for note in said} == lost


def test_an_export_without_some_topics_has_a_code_of_its_own(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {"reason": "no"}
    server.script = lambda request: (
        web.json_response(refused, status=403) if request.path.endswith("/x/stats") else None
    )
    file = str(tmp_path / "a b.yaml")
    options = ["--tenants", "t|u", "--topic-sets", "2", "--no-schemas"]
    assert run(["export", "--admin-url", server.url, "--output", file, *options]) == 3
    err = capsys.readouterr().err
    assert "2 items could not be read" in err and "subscriptions could not be read" in err
    again = f"--admin-url {server.url} --tenants 't|u' --topic-sets 2 --output '{file}' --no-schemas\n"
    assert f"run the export again: pulsar-operator export {again}" in err


async def test_what_goes_away_in_the_meantime_is_no_failure(pulsar: ExportPulsar) -> None:
    admin = FakeAdmin(pulsar)

    def vanish(call: AdminCall) -> None:
        if call.path == ("namespaces", "t", "m"):
            pulsar.namespaces.pop("t/m", None)
        if call.path == ("persistent", "t", "n", "p", "partitions"):
            pulsar.partitioned.pop("persistent://t/n/p", None)

    admin.before.append(vanish)
    found = await exported(admin)
    assert notes(found) == [] and len(manifests(found)) == 3


async def test_the_cluster_that_answers(pulsar: ExportPulsar) -> None:
    pulsar.clusters = ["a", "b"]
    assert (await exported(FakeAdmin(pulsar))).source.cluster == "a"
    assert (await exported(FakeAdmin(pulsar), cluster="b")).source.cluster == "b"
    admin = FakeAdmin(pulsar)

    def refuse(call: AdminCall) -> None:
        if call.path[0] == "brokers" and call.path[-1] == "runtime":
            raise RefusedError("not a super user", status=401)

    admin.before.append(refuse)
    with pytest.raises(ExportError, match=r"which of the clusters \(a, b\) answers\. .* --cluster"):
        await exported(admin)


async def test_no_more_calls_at_once_than_promised(pulsar: ExportPulsar) -> None:
    for number in range(100):
        await plain(FakeAdmin(pulsar), "PUT", "persistent", "t", "n", f"y{number}")
    admin = Counting(pulsar)
    await exported(admin)
    assert 1 < admin.most <= CONCURRENCY


class Counting(FakeAdmin):
    """Counts the calls that are under way."""

    now = most = 0

    async def call(self, *args: Any, **more: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await super().call(*args, **more)
        finally:
            self.now -= 1


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    now, out = 0.0, io.StringIO()
    progress = Progress(out, lambda: now)
    progress.total("topics", 100)
    for _ in range(100):
        now += 0.5
        progress.done("topics")
    assert out.getvalue().splitlines() == [f"topics {count}/100" for count in (20, 40, 60, 80, 100)]


async def test_progress_on_a_terminal(server: Server) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    err = Terminal()
    assert await export(Options(server.url), out=io.StringIO(), err=err) == 0
    assert "\rtenants 1/1, namespaces 2/2, topics 4/4\n" in err.getvalue()
