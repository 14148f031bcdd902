"""What a cluster without authorization skips, on a secured standalone: checks of permissions, and that each can fail.

Its settings also let a ledger roll over by its number of entries, which the default makes wait for ten minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.kind.paths import paths
from pulsar_conformance.catalogue import all_checks, all_mutations, select
from pulsar_conformance.context import Instance, Role
from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.model import Check, Outcome, Status, is_slot
from pulsar_conformance.mutate import Verdict, try_mutations
from pulsar_conformance.runner import Target, instance, run_checks
from pulsar_conformance.tamper import Mutation
from tests.support.standalone.server import secured_standalone

CHECKS = tuple(
    check
    for check in select(all_checks(), [r"^permissions\.", r"^tenant\.admin$", r"^ledger\.rollover\.entries$"])
    if not is_slot(check)
)
MUTATIONS = tuple(found for found in all_mutations() if found.check in {check.id for check in CHECKS})
ROLLOVER = {"managedLedgerMinLedgerRolloverTimeMinutes": "0", "managedLedgerMaxEntriesPerLedger": "500"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """A Pulsar with tokens and authorization, a superuser and a role without rights."""
    folder = tmp_path_factory.mktemp("secured")
    with secured_standalone(paths().pulsar_home, folder, ROLLOVER) as found:
        target = Target(
            found.running.service_url,
            found.running.admin_url,
            access=Access(Token(found.admin_token)),
            role=Role(found.role, Token(found.role_token)),
            client_log=str(folder / "client.log"),
        )
        with instance(target, None) as asked:
            yield asked


@pytest.fixture(scope="module")
def outcomes(secured: Instance) -> dict[str, Outcome]:
    """All checks, side by side."""
    return {outcome.check.id: outcome for outcome in run_checks(secured, CHECKS)}


@pytest.fixture(scope="module")
def verdicts(secured: Instance) -> dict[str, Verdict]:
    """All mutations, side by side; most of them wait in vain for what they prevent."""
    return {verdict.mutation.id: verdict for verdict in try_mutations(secured, CHECKS, MUTATIONS, say=False)}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_promise_holds(outcomes: dict[str, Outcome], check: Check) -> None:
    assert outcomes[check.id].status is Status.PASSED, outcomes[check.id].text


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_broken_promise_is_noticed(verdicts: dict[str, Verdict], mutation: Mutation) -> None:
    assert verdicts[mutation.id].caught, verdicts[mutation.id].line()


def test_every_check_can_fail() -> None:
    assert {mutation.check for mutation in MUTATIONS} == {check.id for check in CHECKS}
