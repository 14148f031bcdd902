"""Round trips: what is exported declares what is there, no more and no less."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.policies import PolicyScope
from pulsar_operator.domain.policies import (
    GLOBAL_POLICIES,
    LOCAL_POLICIES,
    NAMESPACE_POLICIES,
    TOPIC_POLICIES,
    PolicyRow,
    declared_in,
)
from pulsar_operator.domain.policies.namespace_rows import REPLICATION_CLUSTERS
from tests.fakes.admin import FakeAdmin
from tests.support.export.memory import (
    ExportPulsar,
    dry_run,
    dry_run_of,
    exported,
    manifests,
    notes,
    plain,
    rebuilt,
    set_policy,
    text_of,
)
from tests.support.policies.values import values_of
from tests.support.yamls import documents

GROUPS = {"g1", "g2"}
Chosen = list[tuple[PolicyRow, Any]]


async def furnished(*clusters: str) -> Any:
    """A Pulsar with a tenant, a namespace and topics, nothing set."""
    admin = FakeAdmin(ExportPulsar(version="4.2.0", clusters=list(clusters or ("a",)), resource_groups=set(GROUPS)))
    body = {"adminRoles": ["root", "Ops Team"], "allowedClusters": list(clusters or ("a",))}
    await plain(admin, "PUT", "tenants", "t", body=body)
    await plain(admin, "PUT", "namespaces", "t", "n")
    for topic in ("s1", "s2", "x", "Big Topic", "a%2Fb", "süß"):
        await plain(admin, "PUT", "persistent", "t", "n", topic)
    await plain(admin, "PUT", "persistent", "t", "n", "parts", "partitions", body=3)
    await plain(admin, "PUT", "non-persistent", "t", "n", "x")
    await plain(admin, "PUT", "non-persistent", "t", "n", "split", "partitions", body=2)
    return admin


async def check_both_ways(admin: Any) -> None:
    """Nothing is left out, nothing would be done, and an empty Pulsar comes out the same."""
    found = await exported(admin)
    assert notes(found) == []
    writes, text = list(admin.writes), text_of(found)
    declared = documents(text)
    assert await dry_run_of(admin, declared) == []
    assert admin.writes == writes, "an export and a dry run write nothing"
    assert (await rebuilt(found, "a", groups=GROUPS, documents=declared)).state() == admin.pulsar.state()
    again = await exported(admin)
    assert text_of(again) == text, "two exports of the same Pulsar differ"


async def test_a_fresh_pulsar_is_exported_without_noise() -> None:
    admin = await furnished()
    await check_both_ways(admin)
    found = {(m["kind"], m["metadata"]["name"]): m["spec"] for m in manifests(await exported(admin))}
    assert found["PulsarTenant", "t"] == {
        "instanceRef": {"name": "prod"},
        "adminRoles": ["Ops Team", "root"],
        "allowedClusters": ["a"],
    }
    assert found["PulsarNamespace", "t.n"] == {
        "tenantRef": {"name": "t"},
        "name": "n",
        "bundles": {"count": 4},
        "replicationClusters": ["a"],
    }
    assert found["PulsarTopic", "t.n.parts"] == {"namespaceRef": {"name": "t.n"}, "name": "parts", "partitions": 3}
    assert found["PulsarTopic", "t.n.x.non-persistent"]["persistent"] is False
    kinds = [kind for kind, _ in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "PulsarResourceGroup": 2,
        "PulsarTenant": 1,
        "PulsarNamespace": 1,
        "PulsarTopic": 9,
    }


async def test_uneven_bundles_are_exported_as_boundaries() -> None:
    admin = await furnished()
    boundaries = ["0x00000000", "0x10000000", "0x80000000", "0xffffffff"]
    await plain(admin, "PUT", "namespaces", "t", "cut", body={"bundles": {"boundaries": boundaries}})
    await check_both_ways(admin)
    (spec,) = (m["spec"] for m in manifests(await exported(admin)) if m["metadata"]["name"] == "t.cut")
    assert spec["bundles"] == {"boundaries": boundaries}


async def test_a_single_bundle_is_exported_as_one() -> None:
    admin = await furnished()
    await plain(
        admin, "PUT", "namespaces", "t", "whole", body={"bundles": {"boundaries": ["0x00000000", "0xffffffff"]}}
    )
    (spec,) = (m["spec"] for m in manifests(await exported(admin)) if m["metadata"]["name"] == "t.whole")
    assert spec["bundles"] == {"count": 1}


def rows_of(rows: tuple[PolicyRow, ...]) -> list[Any]:
    """One case for each row that the in-memory Pulsar takes and the operator writes."""
    return [pytest.param(row, id=row.field) for row in rows if row.refused_without is None and row.unavailable is None]


@pytest.mark.parametrize("row", rows_of(NAMESPACE_POLICIES[1:]))
async def test_every_namespace_policy_with_every_example(row: PolicyRow) -> None:
    """Each in a namespace of its own, beside one without; what is exported for one is nothing that another has."""
    admin = await furnished()
    for number, example in enumerate(values_of(row)):
        name = f"e{number}"
        await plain(admin, "PUT", "namespaces", "t", name)
        await plain(admin, "PUT", "persistent", "t", name, "x")
        await plain(admin, "PUT", "persistent", "t", name, "parts", "partitions", body=3)
        await set_policy(admin, row, ("namespaces", "t", name), example)
    await check_both_ways(admin)


@pytest.mark.parametrize("row", rows_of(TOPIC_POLICIES))
async def test_every_topic_policy_with_every_example(row: PolicyRow) -> None:
    """Each on topics of its own, with and without partitions, beside some without."""
    admin = await furnished()
    for number, example in enumerate(values_of(row)):
        await plain(admin, "PUT", "persistent", "t", "n", f"x{number}")
        await plain(admin, "PUT", "persistent", "t", "n", f"parts{number}", "partitions", body=3)
        await plain(admin, "PUT", "non-persistent", "t", "n", f"split{number}", "partitions", body=2)
        for topic in ("persistent/t/n/x", "persistent/t/n/parts", "non-persistent/t/n/split"):
            await set_policy(admin, row, tuple(f"{topic}{number}".split("/")), example)
    await check_both_ways(admin)


def some(rows: tuple[PolicyRow, ...]) -> st.SearchStrategy[Chosen]:
    """Some of the rows, each with one of its examples, in any order."""
    writable = [row for row in rows if row.refused_without is None and row.unavailable is None]
    usable = [row for row in writable if row is not REPLICATION_CLUSTERS]
    picked = st.lists(st.sampled_from(usable), unique_by=lambda row: row.field, max_size=12)
    return picked.flatmap(
        lambda found: st.tuples(*(st.sampled_from(values_of(row)) for row in found)).map(
            lambda values: list(zip(found, values, strict=True))
        )
    )


SCOPES = {
    PolicyScope.LOCAL: LOCAL_POLICIES,
    PolicyScope.GLOBAL: GLOBAL_POLICIES + tuple(r for r in LOCAL_POLICIES if declared_in(r, PolicyScope.GLOBAL)),
}


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # Each example reads and rebuilds a whole Pulsar: what fails is shown as it was found.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    some(NAMESPACE_POLICIES),
    st.sampled_from(PolicyScope).flatmap(lambda scope: some(SCOPES[scope])),
    st.sampled_from(PolicyScope).flatmap(lambda scope: some(SCOPES[scope])),
)
def test_any_policies_together(namespace: Chosen, topic: Chosen, parts: Chosen) -> None:
    async def check() -> None:
        admin = await furnished()
        for base, chosen in (
            (("namespaces", "t", "n"), namespace),
            (("persistent", "t", "n", "x"), topic),
            (("persistent", "t", "n", "parts"), parts),
        ):
            for row, value in chosen:
                await set_policy(admin, row, base, value)
        found = await exported(admin)
        # Pulsar compares less than the definitions do: of two that do not go together one is left out, and said so.
        assert all("which the API server would refuse" in note for note in notes(found)), notes(found)
        declared = manifests(found)
        assert await dry_run_of(admin, declared) == []
        if not notes(found):
            assert (await rebuilt(found, "a", groups=GROUPS, documents=declared)).state() == admin.pulsar.state()

    asyncio.run(check())


async def test_several_clusters() -> None:
    admin = await furnished("a", "b")
    await plain(admin, "POST", "namespaces", "t", "n", "replication", body=["a", "b"])
    for name in list(admin.pulsar.topics["a"]):
        if "partition" not in name:
            admin.pulsar.topics.setdefault("b", {})[name] = admin.pulsar.topics["a"][name]
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1}
    rate |= {"relativeToPublishRate": False, "ratePeriodInSecond": 1}
    admin.pulsar.namespaces["t/n"]["topicDispatchRate"] = {"a": rate, "b": rate}
    found = await exported(admin)
    (about,) = notes(found)
    assert about.startswith("namespace t/n: the namespace is also in b. Settings that each cluster")
    assert await dry_run(admin, found, "a", "b") == []
    spec = next(m["spec"] for m in manifests(found) if m["kind"] == "PulsarNamespace")
    assert spec["replicationClusters"] == ["a", "b"] and spec["policies"] == {
        "dispatchRate": {"messagesPerPeriod": 5, "periodSeconds": 1, "relativeToPublishRate": False}
    }
    admin.pulsar.namespaces["t/n"]["topicDispatchRate"]["b"] = rate | {"dispatchThrottlingRateInMsg": 6}
    found = await exported(admin)
    assert any("policies.dispatchRate differs between the clusters" in note for note in notes(found))
    assert await dry_run(admin, found, "a", "b") == []
