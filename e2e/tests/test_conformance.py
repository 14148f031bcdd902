"""The conformance suite on the quickstart's cluster, each check a test; and a sample of the mutations that prove it."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from e2e.conformance import report
from e2e.conformance.catalogue import all_checks, all_mutations
from e2e.conformance.context import Instance
from e2e.conformance.javaclient import JavaProcess
from e2e.conformance.model import Check, Outcome, Status
from e2e.conformance.mutate import try_mutations
from e2e.conformance.runner import Target, instance, run_checks
from e2e.conftest import Deployed
from e2e.kind.paths import paths
from e2e.support.changes import answers, patch_cluster

CHECKS = all_checks()
SAMPLE = 12
"""Mutations tried in every run; make verify-mutations tries all."""
CONFIGURED = (
    "key_shared.",
    "ledger.rollover",
    "transactions.on",
    "ack.batch_index",
    "size.",
)
"""Checks that need settings which are not Pulsar's defaults, or that must hold under them too."""
OTHERWISE = ("key_shared.consistent_hashing",)
"""Checks of defaults that these settings replace."""


def visible(request: pytest.FixtureRequest) -> AbstractContextManager[None]:
    """Prints show at once: the run takes minutes."""
    manager = request.config.pluginmanager.getplugin("capturemanager")
    found: AbstractContextManager[None] = manager.global_and_fixture_disabled()
    return found


def connect(deployed: Deployed, log: Path) -> AbstractContextManager[Instance]:
    """The cluster behind the proxy, with the Java client."""
    target = Target(deployed.service_url, deployed.admin_url, client_log=str(log))
    return instance(target, lambda: JavaProcess.start(classpath=str(paths().java_client)))


@pytest.fixture(scope="module")
def conformance(
    deployed: Deployed, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Instance]:
    """The instance under test."""
    with connect(deployed, tmp_path_factory.mktemp("conformance") / "client.log") as found:
        yield found


@pytest.fixture(scope="module")
def outcomes(conformance: Instance, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """Every check's outcome, from one parallel run."""
    begin = time.monotonic()
    with visible(request):
        print(f"\n{len(CHECKS)} conformance checks against Pulsar {conformance.version}")
        found = run_checks(conformance, CHECKS, said=lambda outcome: print(report.line(outcome), flush=True))
        print(report.summary(found, time.monotonic() - begin), flush=True)
    return {outcome.check.id: outcome for outcome in found}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_promise(check: Check, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[check.id]
    if outcome.status is Status.SKIPPED:
        pytest.skip(outcome.text)
    assert outcome.status is Status.PASSED, outcome.text


def test_broken_promises_are_seen(conformance: Instance, request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("MUTATION_SEED", "1"))
    quick = {check.id for check in CHECKS if check.seconds <= 20}
    mutations = [mutation for mutation in all_mutations() if mutation.check in quick]
    chosen = random.Random(seed).sample(mutations, SAMPLE)
    with visible(request):
        print(f"\n{SAMPLE} of {len(mutations)} quick mutations, MUTATION_SEED={seed}", flush=True)
        verdicts = try_mutations(conformance, CHECKS, chosen)
    missed = [verdict.line() for verdict in verdicts if not verdict.caught and not verdict.skipped]
    assert not missed, f"MUTATION_SEED={seed}\n" + "\n".join(missed)


def test_promises_that_need_other_settings(deployed: Deployed, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Settings are declared on the cluster, rolled by the operator, and the checks that need them pass."""
    checks = [check for check in CHECKS if check.id.startswith(CONFIGURED) and check.id not in OTHERWISE]
    settings = {
        "subscriptionKeySharedUseConsistentHashing": "false",
        "managedLedgerMinLedgerRolloverTimeMinutes": "0",
        "transactionCoordinatorEnabled": "true",
        "acknowledgmentAtBatchIndexLevelEnabled": "true",
    }
    try:
        change(deployed, {"config": settings, "maxMessageSizeBytes": 8 * 2**20})
        with connect(deployed, tmp_path / "client.log") as found, visible(request):
            print(f"\n{len(checks)} checks with {json.dumps(settings)} and maxMessageSizeBytes 8 MiB", flush=True)
            results = run_checks(found, checks, said=lambda outcome: print(report.line(outcome), flush=True))
        assert found.settings["maxMessageSize"] == str(8 * 2**20)
        assert [(o.check.id, o.text) for o in results if o.status is not Status.PASSED] == []
    finally:
        change(deployed, {"config": None, "maxMessageSizeBytes": None})


def change(deployed: Deployed, broker: dict[str, object]) -> None:
    """Change spec.broker and wait until clients can work again."""
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"broker": broker})
    answers(deployed.admin_url)
