"""Runs of the job: whatever happens to files and runs, the same recording gives the same answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pulsar_operator.balance.model.ranges import boundary_points
from pulsar_sizing.job.inventory import UNREADABLE, WRONG_SCHEMA
from pulsar_sizing.job.landing import BAD_NUMBER
from pulsar_sizing.job.request import RequestError

Labs = Callable[..., Any]
Answer = Callable[[Any], dict[str, Any]]
NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)


def test_new_files_alone_give_what_all_of_them_give(lab: Labs, answer: Answer) -> None:
    grown = lab("grown")
    grown.record(0, 1)
    old = [grown.root / f"state/{version}/instance=demo/cluster=east/segments/run" for version in ("v1", "v2")]
    for folder in old:
        folder.mkdir(parents=True)
    assert grown.run().hours_made == 1
    assert not any(folder.exists() for folder in old), "what a job without tables left is deleted"
    grown.record(1, 3)
    outcome = grown.run()
    assert (outcome.hours_made, outcome.hours_kept) == (2, 1)
    whole = lab("whole")
    rows = whole.record(0, 3)
    undisturbed = answer(whole.run())
    assert answer(outcome) == undisturbed
    again = grown.run()
    assert (again.hours_made, answer(again)) == (0, undisturbed), "a second run finds nothing new"
    assert undisturbed["samples"] == rows
    assert undisturbed["completeness"] == 1
    assert undisturbed["rejected"] == {}
    sizes = {n["namespace"]: (n["bundles_now"], n["boundaries"]) for n in undisturbed["namespaces"]}
    for now, boundaries in sizes.values():
        assert now == 4
        assert set(boundary_points(boundaries)) >= {0, 1 << 30, 1 << 31, 3 << 30}, "today's boundaries stay"
    balance = undisturbed["balance"]
    assert balance["bound"] <= balance["after"] <= balance["before"]


def test_late_and_duplicate_files_change_nothing(lab: Labs, answer: Answer) -> None:
    plain = lab("plain")
    rows = plain.record(0, 2)
    undisturbed = plain.run()
    wanted = answer(undisturbed)
    late = lab("late")
    late.record(0, 2)
    held = late.files()[1]
    away = late.root.parent / "held.parquet"
    shutil.move(held, away)
    assert late.run().result.samples < rows
    shutil.move(away, held)
    assert answer(late.run()) == wanted, "a late file counts when it comes"
    copy = held.with_name("again-" + held.name)
    shutil.copy(held, copy)
    twice = late.run().result
    copied = pq.read_metadata(copy).num_rows
    assert (twice.samples, twice.rejected) == (rows, {"row_duplicate": copied})
    assert twice.namespaces == undisturbed.result.namespaces
    copy.unlink()
    outcome = late.run()
    assert (outcome.hours_made, answer(outcome)) == (1, wanted)


def test_damaged_files_are_left_out_and_counted(lab: Labs, answer: Answer) -> None:
    one = lab()
    one.record(0, 2)
    first, second, third = one.files()[:3]
    rest = sum(pq.read_metadata(path).num_rows for path in one.files()[1:])
    sound = first.read_bytes()
    first.write_bytes(sound[:-30])
    empty = first.with_name("empty-" + first.name)
    empty.write_bytes(b"")
    other = pq.read_table(second).drop_columns(["topic"])
    pq.write_table(other, second.with_name("other-" + second.name))
    found = one.run(min_completeness=0.5).result
    assert found.rejected == {UNREADABLE: 2, WRONG_SCHEMA: 1}
    assert found.samples == rest
    assert found.completeness < 1, "a broker's sample whose file is damaged is missing"
    first.write_bytes(sound)
    # A sound footer over damaged pages: only found while reading.
    pages = bytearray(third.read_bytes())
    start = pq.read_metadata(third).row_group(0).column(4).data_page_offset
    pages[start : start + 200] = b"\xff" * 200
    third.write_bytes(bytes(pages))
    outcome = one.run(min_completeness=0.5)
    assert outcome.result.rejected == {UNREADABLE: 2, WRONG_SCHEMA: 1}
    assert outcome.result.samples > rest - 24, "a file that is whole again counts"
    assert answer(one.run(min_completeness=0.5, full=True)) == answer(outcome)


def test_dirty_rows_of_an_hour_change_nothing_but_their_count(lab: Labs, answer: Answer) -> None:
    plain = lab("plain")
    plain.record(0, 2)
    one = lab("dirty")
    one.record(0, 2)
    path = one.files()[0]
    row = pq.ParquetFile(path).read().slice(0, 1)
    column = row.column_names.index("bytes_in")
    negative = row.set_column(column, row.schema.field(column), [[-1.0]])
    pq.write_table(negative, path.with_name("dirty-" + path.name), store_schema=False)
    assert answer(one.run()) == answer(plain.run()) | {"rejected": {BAD_NUMBER: 1}}


def test_too_little_traffic_gives_no_recommendation(lab: Labs) -> None:
    one = lab()
    one.record(0, 2)
    for path in [p for p in one.files() if "broker-1" in p.name]:
        path.unlink()
    found = one.run().result
    assert found.completeness < 0.8
    assert (found.namespaces, found.verdict.verdict) == ((), "Unknown")
    assert "is there" in found.verdict.reason
    shutil.rmtree(one.root / "markers")
    found = one.run(min_completeness=0.0).result
    assert (found.namespaces, found.completeness) == ((), 0)
    assert "No markers" in found.verdict.reason


def test_old_days_leave_the_window(lab: Labs) -> None:
    one = lab()
    old = one.record(0, 1)
    one.record(24, 25, days=2)
    assert one.run(window_days=2).result.samples == 2 * old
    found = one.run(window_days=1)
    assert found.result.samples == old
    assert len(found.snapshot.hours) == 2, "the day before is kept for the profile"
    one.record(48, 49, days=3)
    found = one.run(window_days=1)
    assert (found.result.samples, found.hours_made, found.hours_kept) == (old, 1, 1)
    assert len(found.snapshot.hours) == 2
    first = one.recording.hours[0]
    past = one.run(start=first, end=first + timedelta(hours=1))
    assert (past.result.samples, past.hours_made) == (old, 1), "a question about the past reads it again"


def test_a_day_to_come_is_not_the_end_of_the_window(lab: Labs) -> None:
    """A collector's clock ran ahead for a minute: the job would have answered from that minute until that day."""
    one = lab()
    rows = one.record(0, 2)
    day = one.files()[0].parents[1]
    shutil.copytree(day, day.with_name("day=2031-01-01"))
    found = one.run()
    assert (found.result.samples, found.hours_made) == (rows, 2)
    assert one.run(now=datetime(2026, 1, 1, tzinfo=UTC)).result.samples == 0, "all is to come: the last day counts"


@pytest.mark.parametrize(
    "question, words",
    [
        ({"percentile": 101}, "percentile is 101: must be between"),
        ({"growth": 0}, "growth is 0"),
        ({"capacity": -1}, "capacity is -1"),
        ({"start": datetime(2026, 3, 2, 1, 30, tzinfo=UTC)}, "whole hour"),
        ({"start": datetime(2026, 3, 2, tzinfo=UTC), "end": datetime(2026, 3, 1, tzinfo=UTC)}, "before to"),
        ({}, "no traffic of instance 'demo'"),
    ],
)
def test_what_cannot_be_answered_is_said(lab: Labs, question: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        lab().run(**question)


def test_a_cluster_without_a_loaded_topic_has_a_result_that_recommends_nothing(lab: Labs) -> None:
    """Its brokers answered, and had none: of them there are markers only."""
    one = lab()
    one.record(0, 1)
    shutil.rmtree(one.root / "traffic")
    for path in one.files("markers"):
        found = pq.read_table(path, partitioning=None)
        at = found.schema.get_field_index("topics")
        pq.write_table(found.set_column(at, found.schema.field(at), [[0] * len(found)]), path)
    result = one.run().result
    assert (result.namespaces, result.verdict.verdict, result.samples) == ((), "Unknown", 0)
    assert result.to_time == datetime(2026, 3, 2, 1, tzinfo=UTC)
    assert (result.completeness, result.verdict.reason) == (1.0, "No traffic was recorded.")


def test_the_command_stores_the_result_and_writes_a_report(
    lab: Labs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pulsar_sizing.job.cli import main

    one = lab()
    one.record(0, 2)
    where = ["--root", str(one.root), "--instance", "demo", "--cluster", "east", "--scratch", str(tmp_path / "scratch")]
    where += ["--min-coverage-hours", "0"]
    assert main(["size", *where, "--capacity", "1e12"]) == 0
    stored = one.store.latest_result("demo", "east")
    assert stored.verdict.verdict == "OverProvisioned"
    assert "bundles      4 now" in capsys.readouterr().out
    assert main(["report", *where, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    for title in ("Load per broker", "Bundles", "Hottest topic"):
        assert title in printed
    document = (tmp_path / "out/report.html").read_text()
    assert document.count("<svg ") == 5
    assert "http" not in document
    for name in ("load-per-broker.png", "bundle-weights.png", "hot-topics.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    assert main(["size", *where, "--cluster", "west"]) == 1
    assert "no traffic of instance" in capsys.readouterr().err
    assert main(["size", *where, "--conf", "nonsense"]) == 2
