"""Warnings of the operator's chart about policies that keep less than before, on a real API server."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import Kind
from tests.integration.charts.test_charts_replication_warnings import applied as apply_spec
from tests.support.policies.examples import nested
from tests.support.policies.harmless import HARMLESS
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import OPERATOR_CHART, Helm
from tests.unit.logical.test_kept_amounts import LONGER_FIRST, UNIQUE

Json = dict[str, Any]
PARENT = {"tenantRef": {"name": "shop"}}


def change(server: ApiServer, namespace: str, name: str, old: Json, new: Json) -> list[str]:
    """Policies of a namespace are applied, and then others; the warnings of the second."""
    apply_spec(server, namespace, {"policies": old}, name=name)
    return apply_spec(server, namespace, {"policies": new}, name=name)


@pytest.fixture(scope="module")
def watched(helm: Helm, apiserver: ApiServer) -> str:
    """A namespace that the operator of an installed chart watches, the policy in force."""
    release, found = apiserver.new_namespace("keeps"), apiserver.new_namespace("keeps")
    off = {"deletionGuard": {"enabled": False}, "replicationWarnings": {"enabled": False}}
    helm.run(
        "upgrade",
        "--install",
        "op",
        str(OPERATOR_CHART),
        f"--namespace={release}",
        kubeconfig=apiserver.kubeconfig,
        values={"crds": {"install": False}, "watchNamespaces": [found], **off},
    )
    probe = [{"messageTTLSeconds": 60}, {"messageTTLSeconds": 5}]
    eventually(lambda: change(apiserver, found, "probe", *probe), what="the policy to be in force", every=LOCAL)
    return found


ROWS = [row for row in UNIQUE if row.unavailable is None]
"""Those that the API server takes."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_each_row_that_keeps_less_warns_and_names_the_field(apiserver: ApiServer, watched: str, row: Any) -> None:
    assert row.path not in HARMLESS
    documents = [nested({row.path: value})["policies"] for value in LONGER_FIRST[row.path]]
    name = row.path.rpartition(".")[2].lower()
    for more, less in itertools.pairwise(documents):
        (text,) = change(apiserver, watched, name, more, less)
        assert f"{row.path}" in text and "taken for consent" in text
        assert change(apiserver, watched, name, less, more) == []


def test_a_time_to_live_that_is_new_warns_and_a_retention_that_is_new_does_not(
    apiserver: ApiServer, watched: str
) -> None:
    assert len(change(apiserver, watched, "new", {}, {"messageTTLSeconds": 60})) == 1
    assert change(apiserver, watched, "new", {}, {"retention": {"timeMinutes": 60, "size": "1Gi"}}) == []
    assert change(apiserver, watched, "new", {"messageTTLSeconds": 60}, {"maxTopics": 3}) == [], "the operator asks"


def test_sizes_are_compared_as_bytes(apiserver: ApiServer, watched: str) -> None:
    more, less = ({"retention": {"timeMinutes": 60, "size": size}} for size in ("1Gi", "900Mi"))
    assert len(change(apiserver, watched, "sizes", more, less)) == 1
    assert change(apiserver, watched, "sizes", less, more) == []


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        (Kind.TENANT, lambda p: {"instanceRef": {"name": "i"}, "namespaceDefaults": p}, "asks for a confirmation"),
        (Kind.TOPIC, lambda p: {"namespaceRef": {"name": "n"}, "policies": p}, "spec.policies.messageTTLSeconds"),
        (
            Kind.TOPIC_SET,
            lambda p: {"namespaceRef": {"name": "n"}, "names": ["x"], "template": {"policies": p}},
            "spec.template.policies.messageTTLSeconds",
        ),
    ],
)
def test_other_kinds(apiserver: ApiServer, watched: str, kind: Kind, spec: Any, words: str) -> None:
    def applied(policies: Json) -> list[str]:
        return apply_spec(apiserver, watched, spec(policies), name="other", kind=kind)

    applied({"messageTTLSeconds": 60})
    (text,) = applied({"messageTTLSeconds": 5})
    assert words in text


@pytest.mark.parametrize(("version", "wanted"), [("1.29.0", 0), ("1.30.0", 1)])
def test_servers_that_do_not_know_the_kind(helm: Helm, version: str, wanted: int) -> None:
    values = {guard: {"enabled": False} for guard in ("deletionGuard", "replicationWarnings", "configCheck")}
    text = helm.run("template", "rel", str(OPERATOR_CHART), f"--kube-version={version}", values=values)
    assert text.count("kind: ValidatingAdmissionPolicy\n") == wanted
