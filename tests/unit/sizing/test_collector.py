"""collector/rounds.py, client.py and run.py against fake brokers on the loopback address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_sizing.collector.client import CollectError, Target, broker_order
from pulsar_sizing.collector.metrics import CollectorMetrics
from pulsar_sizing.collector.rounds import Limits, Round, Sampler
from pulsar_sizing.collector.run import Collector, until_next
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.settings import Settings
from pulsar_sizing.store import Store
from tests.fakes.broker_stats import FakeBrokers, FakeTopic, Fault
from tests.fakes.killed_filesystem import KilledFileSystem

NOW = datetime(2025, 1, 1, 12, 30, 0, 123_456, UTC)
SAMPLE_TIME = NOW.replace(microsecond=123_000)
A, B, C = "broker-a:8080", "broker-b:8080", "broker-c:8080"


def topics(broker: str, count: int) -> list[FakeTopic]:
    name = broker.split(":", maxsplit=1)[0]
    return [
        FakeTopic(f"persistent://t/ns/{name}-{i}", 10.0 + i, 20.0, 1e3, 2e3, producers=1, consumers=(1,))
        for i in range(count)
    ]


@pytest.fixture
async def brokers() -> AsyncIterator[FakeBrokers]:
    fake = await FakeBrokers({A: topics(A, 3), B: topics(B, 5), C: topics(C, 7)}).start()
    yield fake
    await fake.close()


def sampler(brokers: FakeBrokers, root: Path | Store, limits: Limits | None = None, **target: Any) -> Sampler:
    where = Target("east", (brokers.url,), brokers.template)
    store = root if isinstance(root, Store) else Store(str(root))
    return Sampler("i", replace(where, **target), store, CollectorMetrics(), limits or Limits(batch_rows=2))


def recorded(root: Path, table: str = TRAFFIC) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in Store(str(root)).recorded_files(
        "i", "east", NOW - timedelta(days=1), NOW + timedelta(days=1), table=table
    ):
        rows += pq.read_table(path, partitioning=None).to_pylist()
    return rows


def markers(root: Path) -> dict[str, tuple[bool, int, str | None]]:
    return {r["broker"]: (r["answered"], r["topics"], r["error"]) for r in recorded(root, MARKERS)}


def of(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {b: sum(r["broker"] == b for r in rows) for b in sorted({r["broker"] for r in rows})}


def leftovers(root: Path) -> list[str]:
    return [p.name for p in (root / "_tmp").iterdir()] if (root / "_tmp").exists() else []


def sample_of(done: Round, broker: str) -> Any:
    return next(s for s in done.brokers if s.broker == broker)


async def test_a_round_records_every_broker(brokers: FakeBrokers, tmp_path: Path) -> None:
    done = await sampler(brokers, tmp_path).sample(NOW)
    assert done.complete and done.sample_time == SAMPLE_TIME
    rows = recorded(tmp_path)
    assert of(rows) == {A: 3, B: 5, C: 7}
    assert {r["sample_time"] for r in rows} == {SAMPLE_TIME} == {r["sample_time"] for r in recorded(tmp_path, MARKERS)}
    assert markers(tmp_path) == {A: (True, 3, None), B: (True, 5, None), C: (True, 7, None)}
    assert leftovers(tmp_path) == [] and sorted(brokers.asked) == ["", A, B, C]
    row = next(r for r in rows if r["topic"] == "persistent://t/ns/broker-a-2")
    assert (row["messages_in"], row["messages_out"], row["bytes_in"], row["bytes_out"]) == (12.0, 20.0, 1e3, 2e3)


async def test_the_same_round_again_changes_nothing(brokers: FakeBrokers, tmp_path: Path) -> None:
    for _ in range(2):
        await sampler(brokers, tmp_path).sample(NOW)
    assert of(recorded(tmp_path)) == {A: 3, B: 5, C: 7} and len(recorded(tmp_path, MARKERS)) == 3


FAULTS = {
    "error": (Fault(status=500), "HTTP 500"),
    "no superuser": (Fault(status=403), "HTTP 403 (the role is no superuser, as broker statistics need)"),
    "redirect": (Fault(status=307, location="/broker-c/admin/v2/broker-stats/topics"), "HTTP 307"),
    "no statistics yet": (Fault(body=b""), "its answer is empty, because the broker has no statistics yet"),
    "a page": (Fault(body=b"<html>"), "its answer is not JSON"),
    "half a document": (
        Fault(body=b'{"t/ns": {"0x00000000_0xffffffff": {"persistent": {'),
        "its answer is not complete",
    ),
    "another document": (Fault(body=b'["a"]'), "its answer is not a broker-stats/topics document"),
    "hangs": (Fault(hang=True), "no whole answer within 2 s"),
    "cut connection": (Fault(cut_after=5000), "the connection broke"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
async def test_a_broker_that_fails_is_marked_and_has_no_row(brokers: FakeBrokers, tmp_path: Path, fault: str) -> None:
    what, words = FAULTS[fault]
    brokers.faults[B] = what
    done = await sampler(brokers, tmp_path, Limits(deadline=2 if what.hang else 60, batch_rows=1)).sample(NOW)
    assert not done.complete and done.error is None
    assert of(recorded(tmp_path)) == {A: 3, C: 7}
    found = markers(tmp_path)
    assert found[A][0] and found[C][0]
    answered, count, error = found[B]
    assert (answered, count) == (False, 0) and error is not None and error.startswith(words)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("fault", "again"),
    [(Fault(503, times=1), True), (Fault(cut_after=5000, times=1), True), (Fault(500, times=1), False)],
)
async def test_a_passing_fault_is_asked_once_more(
    brokers: FakeBrokers, tmp_path: Path, fault: Fault, again: bool
) -> None:
    brokers.faults[B] = fault
    done = await sampler(brokers, tmp_path).sample(NOW)
    assert done.complete == again and brokers.asked.count(B) == (2 if again else 1)
    assert of(recorded(tmp_path)) == ({A: 3, B: 5, C: 7} if again else {A: 3, C: 7})


async def test_a_broker_that_is_gone(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.registered = [A, B, C, "127.0.0.1:1"]
    done = await sampler(brokers, tmp_path, broker_url=None).sample(NOW)
    assert sample_of(done, "127.0.0.1:1").error == "no connection: Connection refused"
    assert markers(tmp_path)["127.0.0.1:1"][0] is False


async def test_a_broker_without_topics_answered(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.topics[B] = []
    done = await sampler(brokers, tmp_path).sample(NOW)
    assert done.complete and markers(tmp_path)[B] == (True, 0, None) and of(recorded(tmp_path)) == {A: 3, C: 7}


@pytest.mark.parametrize(
    "broker", ["evil.example", "a:80/x", "user@evil.example:80", "a:80?x", "", "a b:80", "a:port", "-:1"]
)
async def test_an_id_that_is_no_host_and_port_is_never_dialled(
    brokers: FakeBrokers, tmp_path: Path, broker: str
) -> None:
    brokers.registered = [A, broker]
    done = await sampler(brokers, tmp_path).sample(NOW)
    assert set(brokers.asked) <= {"", A}
    if broker:
        assert sample_of(done, broker).error == "its id is not host:port" and of(recorded(tmp_path)) == {A: 3}
    else:
        assert done.error is not None and "no list of broker ids" in done.error


async def test_without_the_list_the_brokers_known_before_are_missing(brokers: FakeBrokers, tmp_path: Path) -> None:
    one = sampler(brokers, tmp_path)
    brokers.faults[""] = Fault(status=500)
    first = await one.sample(NOW)
    assert first.brokers == () and recorded(tmp_path, MARKERS) == [], "nothing is known to be expected"
    brokers.faults.clear()
    await one.sample(NOW + timedelta(minutes=1))
    brokers.faults[""] = Fault(status=500)
    third = await one.sample(NOW + timedelta(minutes=2))
    assert third.error == "no list of brokers: HTTP 500" and not third.complete
    last = [r for r in recorded(tmp_path, MARKERS) if r["sample_time"] == SAMPLE_TIME + timedelta(minutes=2)]
    assert {r["broker"]: r["answered"] for r in last} == {A: False, B: False, C: False}
    assert of(recorded(tmp_path)) == {A: 3, B: 5, C: 7}, "only the second round has rows"


async def test_the_next_admin_url_is_tried(brokers: FakeBrokers, tmp_path: Path) -> None:
    done = await sampler(brokers, tmp_path, admin_urls=("http://127.0.0.1:1", brokers.url + "/")).sample(NOW)
    assert done.complete and len(done.brokers) == 3


async def test_the_token_is_read_for_every_round_and_never_told(
    brokers: FakeBrokers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    one = sampler(brokers, tmp_path / "root", token_file=token)
    brokers.token = "secret-2"
    problems = []
    for written in (None, "secret-1\n", "secret-2\n", "two words", ""):
        if written is not None:
            token.write_text(written)
        done = await one.sample(NOW)
        problems.append(done.error)
    assert problems == [
        f"token file {token} cannot be read: FileNotFoundError",
        "no list of brokers: HTTP 401 (no valid token: give --token-file)",
        None,
        f"token file {token} holds no single token",
        f"token file {token} holds no single token",
    ]
    assert "secret" not in caplog.text + str(recorded(tmp_path / "root", MARKERS))


async def test_brokers_asked_at_once_are_bounded(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.topics = {f"b{i}:1": topics(f"b{i}", 20) for i in range(9)}
    brokers.hold = True
    task = asyncio.create_task(sampler(brokers, tmp_path, Limits(concurrency=2)).sample(NOW))
    async with asyncio.timeout(60):
        for gone in range(9):
            while len(brokers.asked) - 1 < min(gone + 2, 9):  # noqa: ASYNC110 - the fake broker is waited for
                await asyncio.sleep(0.005)
            brokers.let_one_go()
        done = await task
    assert done.complete and len(done.brokers) == 9 and brokers.most_at_once == 2


async def test_when_the_time_of_a_round_is_over_the_rest_is_missing(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.faults[A] = Fault(hang=True)
    one = sampler(brokers, tmp_path, Limits(concurrency=1, deadline=60, round_seconds=0.2))
    first = await one.sample(NOW)
    assert [s.answered for s in first.brokers] == [False, False, False]
    assert {s.error for s in first.brokers} == {"not asked or not answered: the time of the round was over"}
    assert leftovers(tmp_path) == []
    brokers.faults.clear()
    brokers.asked.clear()
    one.limits = Limits(concurrency=1)
    assert (await one.sample(NOW + timedelta(minutes=1))).complete
    assert brokers.asked == ["", B, C, A], "the order moves on"


def test_order_moves_on_by_one() -> None:
    assert [broker_order(["a", "b", "c"], turn) for turn in (0, 1, 5)] == [list("abc"), list("bca"), list("cab")]
    assert broker_order([], 7) == []


async def test_a_store_that_fails_is_no_answer(brokers: FakeBrokers, tmp_path: Path) -> None:
    (tmp_path / "traffic").write_text("a file where a folder belongs")
    done = await sampler(brokers, tmp_path).sample(NOW)
    told = [(s.answered, (s.error or "").partition(": ")[0]) for s in done.brokers]
    assert told == [(False, "its sample could not be stored")] * 3
    assert {m[0] for m in markers(tmp_path).values()} == {False} and len(markers(tmp_path)) == 3
    (tmp_path / "markers").rename(tmp_path / "aside")
    (tmp_path / "markers").write_text("a file where a folder belongs")
    done = await sampler(brokers, tmp_path).sample(NOW)
    assert done.error is not None and done.error.startswith("the markers could not be stored: ")


async def test_markers_come_after_the_traffic(brokers: FakeBrokers, tmp_path: Path) -> None:
    def look() -> None:
        marked = {b for b, (answered, count, _) in markers(tmp_path).items() if answered and count}
        assert marked <= set(of(recorded(tmp_path)))

    handler = KilledFileSystem(watch=look)
    done = await sampler(brokers, Store(str(tmp_path), filesystem=handler.filesystem())).sample(NOW)
    assert done.complete and handler.writes[-1] == "move" and len(markers(tmp_path)) == 3


async def test_a_round_that_is_cancelled_leaves_nothing_half(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.topics = {A: topics(A, 4000), B: []}
    brokers.faults[B] = Fault(hang=True)
    task = asyncio.create_task(sampler(brokers, tmp_path, Limits(batch_rows=100)).sample(NOW))
    async with asyncio.timeout(20):
        while not recorded(tmp_path):  # noqa: ASYNC110 - another thread writes the file
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert of(recorded(tmp_path)) in ({}, {A: 4000}) and recorded(tmp_path, MARKERS) == [] and leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("admin", "template", "expected"),
    [
        ("http://x:80", None, "http://b.svc:8080"),
        ("https://x", None, "https://b.svc:8080"),
        ("https://x", "https://{host}:8443", "https://b.svc:8443"),
        ("http://x", "http://127.0.0.1:{port}", "http://127.0.0.1:8080"),
    ],
)
def test_addresses_of_brokers(admin: str, template: str | None, expected: str) -> None:
    assert Target("c", (admin,), template).address("b.svc:8080") == expected
    with pytest.raises(CollectError):
        Target("c", (admin,), template).address("b.svc")


def settings(brokers: FakeBrokers, root: Path, **more: Any) -> Settings:
    cluster = (f"east={brokers.url}", "west=http://127.0.0.1:1")
    return Settings(instance="i", root=str(root), cluster=cluster, broker_url=brokers.template, **more)


async def test_once_takes_all_clusters_at_one_time(brokers: FakeBrokers, tmp_path: Path) -> None:
    collector = Collector(settings(brokers, tmp_path), Store(str(tmp_path)), now=lambda: NOW)
    east, west = await collector.once()
    assert east.complete and east.sample_time == west.sample_time == SAMPLE_TIME
    assert west.error == "no list of brokers: no connection: Connection refused"
    status = await collector.status()
    assert [b["topics"] for b in status["clusters"]["east"]["brokers"]] == [3, 5, 7]
    text = collector.metrics.render().decode()
    for line in (
        'pulsar_sizing_rounds_total{cluster="east",result="complete"} 1.0',
        'pulsar_sizing_rounds_total{cluster="west",result="failed"} 1.0',
        'pulsar_sizing_brokers_answered{cluster="east"} 3.0',
        'pulsar_sizing_brokers_missing{cluster="east"} 0.0',
        'pulsar_sizing_rows_total{cluster="east"} 15.0',
        'pulsar_sizing_round_duration_seconds_count{cluster="east"} 1.0',
    ):
        assert line in text
    assert 'pulsar_sizing_received_bytes_total{cluster="east"} 0.0' not in text


async def test_it_keeps_on_after_failures_and_stops_when_told(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.faults[""] = Fault(status=500, times=1)
    collector = Collector(settings(brokers, tmp_path, interval=1), Store(str(tmp_path)))
    task = asyncio.create_task(collector.run())
    async with asyncio.timeout(30):
        while brokers.asked.count(C) < 2:  # noqa: ASYNC110 - the fake broker is what is waited for
            await asyncio.sleep(0.02)
    assert collector.alive() is None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_liveness_is_about_rounds_and_not_about_answers(brokers: FakeBrokers, tmp_path: Path) -> None:
    moment = [NOW]
    collector = Collector(settings(brokers, tmp_path), Store(str(tmp_path)), now=lambda: moment[0])
    assert collector.alive() is None
    moment[0] = NOW + timedelta(seconds=180)
    assert collector.alive() is None
    moment[0] = NOW + timedelta(seconds=181)
    assert collector.alive() == "east: 181 s since its last round; west: 181 s since its last round"
    await collector.once()
    assert collector.alive() is None, "west fails all the time"


@pytest.mark.parametrize(("second", "wait"), [(0.0, 60.0), (0.5, 59.5), (59.0, 1.0)])
def test_rounds_keep_their_beat(second: float, wait: float) -> None:
    now = datetime(2025, 1, 1, 12, 30, tzinfo=UTC) + timedelta(seconds=second)
    assert until_next(now, 60.0) == pytest.approx(wait)


async def test_arrow_errors_of_the_store_do_not_end_the_round(
    brokers: FakeBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, data: Any) -> None:
        raise pa.ArrowInvalid("out of space\nmore")

    monkeypatch.setattr("pulsar_sizing.store.Upload.write", fail)
    done = await sampler(brokers, tmp_path).sample(NOW)
    assert {s.error for s in done.brokers} == {"its sample could not be stored: out of space"}
    assert done.error == "the markers could not be stored: out of space"


def cpu(root: Path) -> dict[str, float | None]:
    return {row["broker"]: row["cpu"] for row in recorded(root, MARKERS)}


async def test_markers_tell_the_cpu_that_brokers_use(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.cpu = {A: 37.5, B: -1.0}
    done = await sampler(brokers, tmp_path).sample(NOW)
    assert done.complete and cpu(tmp_path) == {A: 0.375, B: None, C: None}
    assert {error for *_, error in markers(tmp_path).values()} == {None}, "one that does not say has not failed"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(status=500), "its CPU is not known: HTTP 500"),
        (Fault(body=b"<html>"), "its CPU is not known: its answer is not JSON"),
        (Fault(hang=True), None),
    ],
)
async def test_traffic_counts_without_the_cpu(
    brokers: FakeBrokers, tmp_path: Path, fault: Fault, words: str | None
) -> None:
    brokers.cpu = {A: 10.0, B: 20.0, C: 30.0}
    brokers.metrics_faults = {B: fault}
    done = await sampler(brokers, tmp_path, Limits(cpu_seconds=0.3 if fault.hang else 60)).sample(NOW)
    assert done.complete and of(recorded(tmp_path)) == {A: 3, B: 5, C: 7}
    if not fault.hang:
        assert cpu(tmp_path) == {A: 0.1, B: None, C: 0.3}
        assert (markers(tmp_path)[B][2] or "").startswith(words or "")
    else:
        assert cpu(tmp_path)[B] is None


async def test_who_did_not_answer_is_not_asked_for_its_cpu(brokers: FakeBrokers, tmp_path: Path) -> None:
    brokers.cpu = {A: 10.0, B: 20.0, C: 30.0}
    brokers.faults[B] = Fault(status=500)
    await sampler(brokers, tmp_path).sample(NOW)
    assert cpu(tmp_path) == {A: 0.1, B: None, C: 0.3} and markers(tmp_path)[B][2] == "HTTP 500"
