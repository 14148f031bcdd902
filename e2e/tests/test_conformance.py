"""The conformance suite on the quickstart's cluster, each check a test; and a sample of the mutations that prove it.

What waits for a broker's intervals or needs other settings is run by e2e.support.promises.run_configured, where those
are set.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from e2e.conftest import Deployed
from e2e.support.promises import connect
from pulsar_conformance import report
from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.context import Instance
from pulsar_conformance.model import Check, Outcome, Status
from pulsar_conformance.mutate import try_mutations
from pulsar_conformance.runner import run_checks
from pulsar_conformance.settings import at_defaults
from pulsar_conformance.skips import EXPECTED_SKIPS, not_skipped, unexpected

CHECKS = at_defaults(all_checks())
SAMPLE = 12
"""Mutations tried in every run; make verify-mutations tries all."""


def visible(request: pytest.FixtureRequest) -> AbstractContextManager[None]:
    """Prints show at once: the run takes minutes."""
    manager = request.config.pluginmanager.getplugin("capturemanager")
    found: AbstractContextManager[None] = manager.global_and_fixture_disabled()
    return found


@pytest.fixture(scope="module")
def conformance(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """The instance under test, behind the proxy."""
    log = tmp_path_factory.mktemp("conformance") / "client.log"
    with connect(deployed.service_url, deployed.admin_url, log) as found:
        yield found


@pytest.fixture(scope="module")
def outcomes(conformance: Instance, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """Every check's outcome, from one parallel run."""
    begin = time.monotonic()
    with visible(request):
        print(f"\n{len(CHECKS)} conformance checks against Pulsar {conformance.version}")
        found = run_checks(conformance, CHECKS, on_outcome=lambda outcome: print(report.line(outcome), flush=True))
        print(report.summary(found, time.monotonic() - begin), flush=True)
    return {outcome.check.id: outcome for outcome in found}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_promise(check: Check, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[check.id]
    if outcome.status is Status.SKIPPED and not unexpected([outcome]):
        pytest.skip(outcome.text)
    assert outcome.status is Status.PASSED, outcome.text


def test_exactly_the_expected_checks_are_skipped(outcomes: dict[str, Outcome]) -> None:
    found = list(outcomes.values())
    wrong = [*unexpected(found), *not_skipped(found)]
    assert not wrong, "\n".join(wrong)


def test_broken_promises_are_seen(conformance: Instance, request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("MUTATION_SEED", "1"))
    # Of what this cluster skips nothing could be seen; of all else a skip is as bad as a mutation not seen.
    quick = {check.id for check in CHECKS if check.seconds <= 20 and check.id not in EXPECTED_SKIPS}
    mutations = [mutation for mutation in all_mutations() if mutation.check in quick]
    chosen = random.Random(seed).sample(mutations, SAMPLE)
    with visible(request):
        print(f"\n{SAMPLE} of {len(mutations)} quick mutations, MUTATION_SEED={seed}", flush=True)
        verdicts = try_mutations(conformance, CHECKS, chosen)
    missed = [verdict.line() for verdict in verdicts if not verdict.caught]
    assert not missed, f"MUTATION_SEED={seed}\n" + "\n".join(missed)
