"""How the conformance suite runs checks and what it tells of them, with checks made up here; no Pulsar."""

from __future__ import annotations

import json
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest

from pulsar_conformance import report
from pulsar_conformance.admin import AdminError
from pulsar_conformance.context import Context, Instance
from pulsar_conformance.model import CheckFailed, CheckSkipped, Outcome, Status
from pulsar_conformance.runner import Target, run_checks, run_one
from tests.support.checks import CHECKS, ROLE_SECRET, SECRET, make

# --- the runner


def test_how_checks_end(found: Instance, outcomes: list[Outcome]) -> None:
    assert [(o.check.id, o.status, o.text) for o in outcomes] == [
        ("one.passed", Status.PASSED, "3 of 3 messages"),
        ("one.failed", Status.FAILED, "2 of 3 messages <&> \x01"),
        ("two.error", Status.ERROR, "RuntimeError: connection lost"),
        ("two.skipped", Status.SKIPPED, "needs a second cluster"),
    ]


def test_longest_checks_start_first_and_outcomes_keep_their_order(found: Instance) -> None:
    started: list[str] = []
    checks = [make(f"t.{n}", lambda ctx: started.append(ctx.name) or "", seconds=n) for n in (1, 30, 5)]
    outcomes = run_checks(found, checks, workers=1)
    assert started == ["t.30", "t.5", "t.1"]
    assert [o.check.id for o in outcomes] == ["t.1", "t.30", "t.5"]


def test_checks_run_side_by_side(found: Instance) -> None:
    meeting = threading.Barrier(3, timeout=20)
    checks = [make(f"t.{n}", lambda _ctx: str(meeting.wait() >= 0)) for n in range(3)]
    assert {o.status for o in run_checks(found, checks, workers=3)} == {Status.PASSED}


def test_each_outcome_is_told_as_it_comes(found: Instance) -> None:
    told: list[Outcome] = []
    outcomes = run_checks(found, CHECKS, on_outcome=told.append)
    assert sorted(o.check.id for o in told) == sorted(o.check.id for o in outcomes)


def test_what_a_check_defers_is_done_last_first_however_it_ends(found: Instance) -> None:
    done: list[int] = []

    def run(ctx: Context) -> str:
        ctx.defer(lambda: done.append(1))
        ctx.defer(lambda: 1 / 0)
        ctx.defer(lambda: done.append(3))
        raise CheckFailed("no")

    outcome, used = run_one(found, make("t.defer", run))
    assert (outcome.status, done, used) == (Status.FAILED, [3, 1], [])


def test_what_cannot_be_removed_is_warned_of(found: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "close", lambda _self: ["tenant/ns: 409 not empty"])
    warnings: list[str] = []
    run_checks(found, CHECKS[:1], warned=warnings.append)
    assert warnings == ["one.passed: not cleaned up: tenant/ns: 409 not empty"]


# --- what a check has at hand


def test_settings_are_read_as_text_and_number(found: Instance) -> None:
    ctx = Context(found, "t.settings")
    assert (ctx.setting("number"), ctx.number("number"), ctx.number("empty"), ctx.number("absent")) == ("12", 12, 0, 0)
    assert ctx.within_limit(400, "TTL") == 400
    with pytest.raises(CheckSkipped, match="TTL: up to 401 s, this run waits at most 400 s"):
        ctx.within_limit(401, "TTL")


def test_refused_wants_that_error(found: Instance) -> None:
    ctx = Context(found, "t.refused")
    assert ctx.refused(KeyError, lambda: {}["gone"]) == "'gone'"
    with pytest.raises(CheckFailed, match="accepted, where KeyError or OSError was expected"):
        ctx.refused((KeyError, OSError), lambda: None)
    with pytest.raises(ZeroDivisionError):
        ctx.refused(KeyError, lambda: 1 / 0)


def test_eventually_tells_what_was_seen_last(found: Instance) -> None:
    ctx = Context(found, "t.wait")
    answers = iter([0, 0, 7])
    assert ctx.eventually(lambda: next(answers), "seven", every=0) == 7
    with pytest.raises(CheckFailed, match=r"not within 0 s: the policy \(GET x: 404 gone\)"):
        ctx.eventually(lambda: raised(AdminError(404, "GET x", "gone")), "the policy", within=0)


def raised(error: Exception) -> object:
    raise error


def test_without_a_java_client_the_check_is_skipped_with_the_reason(found: Instance) -> None:
    found.java_missing = "not built: make tools"
    outcome, _ = run_one(found, make("t.java", lambda ctx: str(ctx.java)))
    assert (outcome.status, outcome.text) == (Status.SKIPPED, "needs the Java client: not built: make tools")


def test_topic_paths_are_quoted() -> None:
    assert Context.path("persistent://t/n/a/b c?") == "persistent/t/n/a%2Fb%20c%3F"


# --- the reports


def test_table_has_every_check_under_its_theme(outcomes: list[Outcome]) -> None:
    lines = report.table(outcomes).splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == ["one", "two"]
    assert [line.split()[0] for line in lines if "what " in line] == ["FAILED", "ok", "ERROR", "skipped"]
    assert "passed" in lines[3] and "what one.passed proves" in lines[3] and lines[4].strip() == "3 of 3 messages"


def test_long_evidence_is_cut(found: Instance) -> None:
    outcome = Outcome(CHECKS[0], Status.PASSED, "word " * 400, 1)
    lines = report.table([outcome]).splitlines()
    assert len(lines) == 2 + 4 and max(len(line) for line in lines[2:]) <= report.WIDTH


def test_summary_counts_what_there_was(outcomes: list[Outcome]) -> None:
    assert report.summary(outcomes, 12.3) == "4 checks in 12 s: 1 passed, 1 failed, 1 error, 1 skipped"
    assert report.summary(outcomes[:1], 1) == "1 checks in 1 s: 1 passed"


@pytest.mark.parametrize(
    ("chosen", "good"),
    [((0,), True), ((0, 3), True), ((0, 1), False), ((0, 2), False), ((3,), False), ((), False)],
)
def test_good_is_something_passed_and_nothing_failed_or_unknown(
    outcomes: list[Outcome], chosen: tuple[int, ...], good: bool
) -> None:
    assert report.good([outcomes[i] for i in chosen]) is good


def test_json_says_what_was_asked_of_whom(found: Instance, outcomes: list[Outcome], tmp_path: Path) -> None:
    report.write_json(tmp_path / "r.json", report.as_json(found, outcomes, 12.34))
    text = (tmp_path / "r.json").read_text()
    read = json.loads(text)
    assert read["instance"] == {
        "serviceUrl": "pulsar://p:6650",
        "adminUrl": "http://p:8080",
        "version": "4.0.8",
        "clusters": ["east"],
        "brokers": ["b:8080"],
    }
    assert read["seconds"] == 12.3
    assert read["counts"] == {"passed": 1, "failed": 1, "error": 1, "skipped": 1}
    assert [(c["id"], c["status"], c["evidence"], c["concepts"]) for c in read["checks"]] == [
        (o.check.id, o.status.value, o.text, ["E.reader"]) for o in outcomes
    ]


def test_junit_says_it_for_build_servers(outcomes: list[Outcome], tmp_path: Path) -> None:
    report.write_junit(tmp_path / "r.xml", outcomes, 12.34)
    suite = ET.parse(tmp_path / "r.xml").getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "12.3",
    }
    cases = {case.get("name"): case[0] for case in suite}
    assert {name: child.tag for name, child in cases.items()} == {
        "one.passed": "system-out",
        "one.failed": "failure",
        "two.error": "error",
        "two.skipped": "skipped",
    }
    assert cases["one.passed"].text == "3 of 3 messages"
    assert cases["one.failed"].get("message") == "2 of 3 messages <&> ?", "XML takes no control characters"
    assert {case.get("classname") for case in suite} == {"conformance.one", "conformance.two"}


# --- secrets


def test_tokens_are_in_no_text(found: Instance, outcomes: list[Outcome], tmp_path: Path) -> None:
    target = Target("pulsar://p", "http://p", access=found.access, role=found.role)
    report.write_junit(tmp_path / "r.xml", outcomes, 1)
    texts = [
        *map(repr, (found, target, found.role, Context(found, "t.x"), Context(found, "t.x").admin)),
        json.dumps(report.as_json(found, outcomes, 1)),
        (tmp_path / "r.xml").read_text(),
    ]
    assert [text for text in texts if SECRET in text or ROLE_SECRET in text] == []


def test_tokens_are_in_no_outcome_of_a_call_that_fails(found: Instance) -> None:
    found.admin_url = "http://127.0.0.1:1"
    begin = time.monotonic()
    outcome, _ = run_one(found, make("t.call", lambda ctx: str(ctx.admin.get("clusters"))))
    assert outcome.status is Status.ERROR and SECRET not in outcome.text
    assert time.monotonic() - begin < 30


# --- messages until the last one


class Slow:
    """A consumer that is given messages and, for None, a silence."""

    def __init__(self, *given: str | None) -> None:
        self.given = list(given)
        self.acknowledged: list[str] = []

    def receive(self, timeout_millis: int) -> Any:
        """See pulsar.Consumer."""
        text = self.given.pop(0) if self.given else None
        if text is None:
            raise pulsar.Timeout("nothing")
        return SimpleNamespace(data=text.encode)

    def acknowledge(self, message: Any) -> None:
        """See pulsar.Consumer."""
        self.acknowledged.append(message.data().decode())


def test_a_silence_before_the_last_message_is_not_the_end(found: Instance) -> None:
    ctx = Context(found, "t")
    slow = Slow("a", None, None, "last", "again", None, "too late")
    assert ctx.texts(ctx.drain(slow, until=ctx.came("last"))) == ["a", "last", "again"]
    assert slow.acknowledged == ["a", "last", "again"]
    assert ctx.texts(ctx.drain(Slow("a", None, "b"))) == ["a"], "without a mark a silence is the end"
    with pytest.raises(CheckFailed, match=r"not all that had to come came within 0 s: \['a'\]"):
        ctx.drain(Slow("a"), until=ctx.came("last"), within=0.2)
    with pytest.raises(CheckFailed, match="kept coming"):
        ctx.drain(Slow(*["last"] * 1_000_000), until=ctx.came("last"), within=0.05, ack=False)
