"""How the conformance suite breaks what checks prove, with checks and clients made up here; no Pulsar."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pulsar_conformance.admin import Admin
from pulsar_conformance.context import Context, Instance
from pulsar_conformance.model import CheckFailed, CheckSkipped, Outcome, Status
from pulsar_conformance.mutate import Verdict, run_mutations, try_mutations
from pulsar_conformance.tamper import (
    Change,
    Mutation,
    Rule,
    Tamper,
    change_admin,
    drop,
    drop_admin,
    override,
    unwrap,
    without,
)
from tests.support.checks import CHECKS, Client, fails, make

# --- breaking what is proved


def wrapped(*rules: Rule) -> tuple[Client, Any, Tamper]:
    client, tamper = Client(), Tamper(rules)
    return client, tamper.wrap("client", client), tamper


def test_without_rules_of_its_kind_an_object_stays_itself() -> None:
    client, seen, tamper = wrapped(drop("consumer", "subscribe"))
    assert seen is client and unwrap(seen) is client and tamper.used == []


def test_override_changes_keywords() -> None:
    client, seen, tamper = wrapped(override("client", "subscribe", mode="Shared"))
    assert seen.subscribe("t", mode="Exclusive", name="n") == "subscribed"
    assert client.calls == [("subscribe", ("t",), {"mode": "Shared", "name": "n"})]
    assert tamper.used == ["client.subscribe"]


def test_without_leaves_keywords_out() -> None:
    client, seen, _ = wrapped(without("client", "subscribe", "mode", "absent"))
    seen.subscribe("t", mode="Exclusive", name="n")
    assert client.calls == [("subscribe", ("t",), {"name": "n"})]


def test_drop_makes_no_call() -> None:
    client, seen, tamper = wrapped(drop("client", "subscribe", result="as if"))
    assert seen.subscribe("t") == "as if"
    assert client.calls == [] and tamper.used == ["client.subscribe"]


def test_everything_else_of_a_tampered_object_is_its_own() -> None:
    client, seen, tamper = wrapped(drop("client", "subscribe"))
    assert (seen.close(), seen.name, unwrap(seen)) == ("closed", "real", client)
    assert tamper.used == []


def test_the_first_rule_that_applies_is_taken() -> None:
    def says(word: str) -> Change:
        return lambda _call, *_args, **_kwargs: word

    client, seen, tamper = wrapped(
        Rule("client", "subscribe", says("a"), where=lambda topic: topic == "a"),
        Rule("client", "subscribe", says("b"), where=lambda topic: topic in "ab"),
    )
    assert [seen.subscribe(topic) for topic in "abc"] == ["a", "b", "subscribed"]
    assert len(tamper.used) == 2 and len(client.calls) == 1


class RecordingAdmin(Admin):
    """Admin REST that is remembered and not made."""

    def __init__(self, rule: Rule) -> None:
        super().__init__("http://p", Tamper([rule]))
        self.made: list[tuple[Any, ...]] = []

    def _call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        self.made.append((method, path, body, query))
        return "made"


def test_drop_admin_takes_one_method_and_path() -> None:
    admin = RecordingAdmin(drop_admin("POST", r"/retention$", result="as if"))
    assert admin.post("namespaces/t/n/retention", {"a": 1}) == "as if"
    assert [admin.get("namespaces/t/n/retention"), admin.post("namespaces/t/n/retention2")] == ["made", "made"]
    assert [(m, p) for m, p, _, _ in admin.made] == [
        ("GET", "namespaces/t/n/retention"),
        ("POST", "namespaces/t/n/retention2"),
    ]


def test_change_admin_sends_another_body() -> None:
    admin = RecordingAdmin(change_admin("POST", "messageTTL", lambda body: body + 1))
    admin.call("POST", "namespaces/t/n/messageTTL", 5, force=True)
    admin.call("PUT", "namespaces/t/n/messageTTL", 5)
    assert admin.made == [
        ("POST", "namespaces/t/n/messageTTL", 6, {"force": True}),
        ("PUT", "namespaces/t/n/messageTTL", 5, {}),
    ]
    assert admin.tamper.used == ["admin.call"]


# --- whether a mutation is caught


def counts(ctx: Context) -> str:
    """A check with a client of this file: its promise is that subscribing is answered."""
    ctx.expect(ctx.tamper.wrap("client", Client()).subscribe("t") == "subscribed", "nobody answered")
    return "answered"


def mutation(check: str, *rules: Rule) -> Mutation:
    return Mutation(check, "silent", "subscribing is not answered", rules)


def test_a_mutation_that_makes_the_check_fail_is_caught(found: Instance, capsys: pytest.CaptureFixture[str]) -> None:
    broken = mutation("t.counts", drop("client", "subscribe"))
    (verdict,) = try_mutations(found, [make("t.counts", counts)], [broken])
    assert verdict.caught and verdict.outcome.text == "nobody answered"
    assert "caught" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("run", "rules", "said"),
    [
        (counts, (drop("consumer", "receive"),), "no call was changed; answered"),
        (counts, (override("client", "subscribe", mode="x"),), "answered"),
        (fails(CheckFailed("anyway")), (drop("client", "subscribe"),), "no call was changed; anyway"),
    ],
    ids=["nothing changed", "the check still passes", "the check fails by itself"],
)
def test_a_mutation_that_shows_nothing_is_not_caught(
    found: Instance, run: Callable[[Context], str], rules: Sequence[Rule], said: str
) -> None:
    (verdict,) = try_mutations(found, [make("t.x", run)], [mutation("t.x", *rules)], say=False)
    assert not verdict.caught and not verdict.skipped
    assert "NOT CAUGHT" in verdict.line() and verdict.line().endswith(said)


def test_an_error_is_no_proof(found: Instance) -> None:
    def run(ctx: Context) -> str:
        return str(ctx.tamper.wrap("client", Client()).subscribe("t").upper())

    (verdict,) = try_mutations(found, [make("t.x", run)], [mutation("t.x", drop("client", "subscribe"))], say=False)
    assert verdict.used and verdict.outcome.status is Status.ERROR and not verdict.caught


def test_result_of_all_mutations(found: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checks = [make("t.counts", counts), make("t.later", fails(CheckSkipped("needs TLS")))]
    silent = drop("client", "subscribe")
    file = tmp_path / "mutations.json"
    good = [mutation("t.counts", silent), mutation("t.later", silent), mutation("not.chosen", silent)]
    assert run_mutations(found, checks, good, json_file=file) == 0
    assert "2 mutations in 0 s: 1 caught, 1 skipped, 0 not caught" in capsys.readouterr().out
    assert json.loads(file.read_text()) == [
        {
            "mutation": f"{check}/silent",
            "breaks": "subscribing is not answered",
            "caught": check == "t.counts",
            "skipped": check == "t.later",
            "seen": seen,
        }
        for check, seen in (("t.counts", "nobody answered"), ("t.later", "needs TLS"))
    ]
    assert run_mutations(found, checks, [mutation("t.counts", drop("client", "close"))]) == 1
    said = capsys.readouterr().out
    assert "0 caught, 0 skipped, 1 not caught" in said and said.count("NOT CAUGHT") == 2


def test_a_verdict_of_a_skip_is_neither(found: Instance) -> None:
    outcome = Outcome(CHECKS[3], Status.SKIPPED, "needs a second cluster", 0.1)
    verdict = Verdict(mutation("two.skipped", drop("client", "subscribe")), outcome, used=False)
    assert (verdict.caught, verdict.skipped) == (False, True)
    assert verdict.line().strip().startswith("skipped") and verdict.line().endswith("needs a second cluster")
