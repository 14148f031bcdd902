"""What Pulsar promises of two clusters of one instance, by the suite's own checks: the pair of examples/geo.yaml, each
in a Kubernetes namespace of its own, and a configuration store of neither; and one cluster of another instance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.conftest import CLUSTER, Deployed
from e2e.support.apiproxy import through_api_server
from e2e.support.deploy import Helm
from e2e.support.eventually import eventually
from e2e.support.faults_command import Owner, command
from e2e.support.foreigncluster import NAMESPACE as FOREIGN_NAMESPACE
from e2e.support.foreigncluster import foreign_cluster
from e2e.support.geopair import EAST, INSTANCE, WEST, brokers, deployed, others, ready
from e2e.support.kubectl import Kubectl
from pulsar_conformance import report
from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.commands import fault_command
from pulsar_conformance.context import Instance, Remote
from pulsar_conformance.model import Status, is_slot
from pulsar_conformance.mutate import try_mutations
from pulsar_conformance.runner import Target, instance, run_checks

CHECKS = [check for check in all_checks() if check.theme == "geo" and not is_slot(check)]


@pytest.fixture(scope="module")
def pair(kubectl: Kubectl, helm: Helm, clean: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """Both clusters, one of another instance, and what the suite needs to know of them."""
    doors = Deployed(kubectl, helm, f"{CLUSTER}-control-plane")
    fault = command(
        kubectl,
        doors.node,
        EAST.namespace,
        EAST.name,
        instance=Owner(EAST.namespace, INSTANCE),
        remote=WEST,
    )
    with (
        deployed(kubectl, helm, FOREIGN_NAMESPACE),
        foreign_cluster(kubectl) as foreign,
        through_api_server(kubectl, WEST.namespace, "west-proxy", 8080) as west_admin,
    ):
        target = Target(
            doors.service_url,
            doors.admin_url,
            client_log=str(tmp_path_factory.mktemp("geo") / "client.log"),
            fault=fault_command(fault),
            remote=Remote(doors.second_url, west_admin),
            foreign=foreign,
        )
        with instance(target, None) as found:
            yield found


@pytest.mark.geo(2)
def test_broken_promises_of_two_clusters_are_seen(pair: Instance, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of checks that stop no process: the others are broken in memory (tests/unit/conformance).

    First, for brokers are told of no change any more once the configuration store was away (docs/geo.md).
    """
    gentle = {check.id for check in CHECKS if not check.alone}
    mutations = [mutation for mutation in all_mutations() if mutation.check in gentle]
    with capsys.disabled():
        print()
        verdicts = try_mutations(pair, CHECKS, mutations)
    assert mutations
    assert [verdict.line() for verdict in verdicts if not verdict.caught] == []


@pytest.mark.geo(2)
def test_promises_of_two_clusters(pair: Instance, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    """No pod is replaced for what the checks do to brokers and to the configuration store, but for those whose sessions
    with the store have ended."""
    before, rest = brokers(kubectl), others(kubectl)
    with capsys.disabled():
        print()
        found = run_checks(
            pair, CHECKS, on_outcome=lambda outcome: print(report.line(outcome), flush=True), warned=print
        )
    assert [(o.check.id, o.text) for o in found if o.status is not Status.PASSED] == []
    eventually(lambda: brokers(kubectl).isdisjoint(before), within=300, what="brokers are replaced", every=1.0)
    ready(kubectl, within=300)
    assert others(kubectl) == rest
