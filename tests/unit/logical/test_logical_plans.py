"""The pure plans on any live state: they make what is declared, touch nothing else, and are then empty."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.api.v1alpha1.tenant import PulsarTenantSpec
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.domain.logical.names import topic_name_problem
from pulsar_operator.domain.logical.namespace import NamespaceFacts, plan_namespace, wanted_policies
from pulsar_operator.domain.logical.plan import Memory, Plan, Verb
from pulsar_operator.domain.logical.siblings import Claim, winner
from pulsar_operator.domain.logical.tenant import LiveTenant, TenantFacts, plan_tenant
from pulsar_operator.domain.logical.topic import TopicFacts, plan_topic
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, POLICIES, lookup, too_old
from tests.fakes.pulsar import FakePulsar

BACKLOG = st.sampled_from(["ProducerRequestHold", "ProducerException", "ConsumerBacklogEviction"])
POLICY_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "retention": st.sampled_from(
            [{"timeMinutes": t, "sizeMegabytes": s} for t, s in ((-1, -1), (0, 0), (5, -1), (5, 1000), (9, 2000))]
        ),
        "messageTTLSeconds": st.integers(0, 3),
        "backlogQuotas": st.fixed_dictionaries(
            {},
            optional={
                "destinationStorage": st.fixed_dictionaries({"limitBytes": st.integers(0, 10_000), "policy": BACKLOG}),
                "messageAge": st.fixed_dictionaries({"limitSeconds": st.integers(1, 3), "policy": BACKLOG}),
            },
        ),
    },
)
FIELDS = [row.field for row in NAMESPACE_POLICIES]


def namespace_spec(policies: dict[str, Any], **more: Any) -> PulsarNamespaceSpec:
    return PulsarNamespaceSpec.model_validate({"tenantRef": {"name": "t"}, "policies": policies, **more})


def pulsar_with(spec: PulsarNamespaceSpec) -> FakePulsar:
    pulsar = FakePulsar(clusters=["a"], tenants={"t": {"adminRoles": [], "allowedClusters": ["a"]}})
    converge(pulsar, spec, Memory())
    return pulsar


def facts_of(pulsar: FakePulsar) -> NamespaceFacts:
    live = copy.deepcopy(pulsar.namespaces.get("t/n"))
    return NamespaceFacts("t", "n", live, frozenset({"a"}), frozenset({"a"}))


def converge(pulsar: FakePulsar, spec: PulsarNamespaceSpec, memory: Memory) -> Plan:
    """Apply plans as the controller does: what Pulsar refuses is tried again after the rest."""
    for _ in range(8):
        plan = plan_namespace(spec, facts_of(pulsar), memory)
        if not plan.actions:
            return plan
        for action in plan.actions:
            pulsar.handle("a", action.call.method, action.call.path, action.call.query, action.call.body)
    raise AssertionError(f"never ends: {plan.actions}")


@given(before=POLICY_SPECS, after=POLICY_SPECS, managed=st.sets(st.sampled_from(FIELDS)))
def test_a_namespace_gets_what_is_declared_and_nothing_else(
    before: dict[str, Any], after: dict[str, Any], managed: set[str]
) -> None:
    spec = namespace_spec(after)
    pulsar = pulsar_with(namespace_spec(before))
    untouched = {row.field: row.read(pulsar.namespaces["t/n"]) for row in NAMESPACE_POLICIES}
    final = converge(pulsar, spec, Memory(managed=frozenset(managed)))
    live, wanted = pulsar.namespaces["t/n"], wanted_policies(spec)
    for row in NAMESPACE_POLICIES:
        found = row.read(live)
        if wanted[row.field] is not None:
            assert row.in_sync(wanted[row.field], found)
        elif row.field in managed and row.remove:
            assert found is None
        else:
            assert found == untouched[row.field]
    assert not final.problems
    assert not final.drift


@given(before=POLICY_SPECS, between=POLICY_SPECS)
def test_there_and_back(before: dict[str, Any], between: dict[str, Any]) -> None:
    first = namespace_spec(before)
    pulsar = pulsar_with(first)
    start = pulsar.snapshot()
    converge(pulsar, namespace_spec(between), Memory(managed=frozenset(FIELDS)))
    converge(pulsar, first, Memory(managed=frozenset(FIELDS)))
    assert pulsar.snapshot() == start


@given(spec=POLICY_SPECS, live=POLICY_SPECS, managed=st.sets(st.sampled_from(FIELDS)))
def test_report_never_changes_what_others_changed(
    spec: dict[str, Any], live: dict[str, Any], managed: set[str]
) -> None:
    pulsar = pulsar_with(namespace_spec(live))
    declared = namespace_spec(spec, driftPolicy="Report")
    memory = Memory(managed=frozenset(managed), applied=True, established=True)
    plan = plan_namespace(declared, facts_of(pulsar), memory)
    assert not [a for a in plan.actions if a.verb is Verb.REPAIR]
    assert {d.field for d in plan.drift} <= managed
    assert not {a.field for a in plan.actions if a.verb is Verb.SET} & managed


NAMES = st.sets(st.sampled_from("abcd"), max_size=4)


@given(
    live=st.none() | st.tuples(NAMES, NAMES.filter(bool)),
    roles=NAMES,
    allowed=st.none() | NAMES.filter(bool),
    instance=NAMES.filter(bool),
    managed=st.tuples(NAMES, NAMES),
    used=NAMES,
)
def test_a_tenant_gets_what_is_declared_and_nothing_else(
    live: tuple[set[str], set[str]] | None,
    roles: set[str],
    allowed: set[str] | None,
    instance: set[str],
    managed: tuple[set[str], set[str]],
    used: set[str],
) -> None:
    body: dict[str, Any] = {"instanceRef": {"name": "i"}, "adminRoles": sorted(roles)}
    if allowed is not None:
        body["allowedClusters"] = sorted(allowed)
    spec = PulsarTenantSpec.model_validate(body)
    entries = {f"adminRoles[{r}]" for r in managed[0]} | {f"allowedClusters[{c}]" for c in managed[1]}
    now = LiveTenant(frozenset(live[0]), frozenset(live[1])) if live is not None else None
    memory = Memory(managed=frozenset(entries))
    for _ in range(5):
        facts = TenantFacts(now, frozenset(instance), frozenset("abcd"), {c: ["t/n"] for c in used})
        plan = plan_tenant("t", spec, facts, memory)
        if not plan.actions:
            break
        now = LiveTenant.parse(plan.actions[-1].call.body)
        assert now.allowed_clusters, "Pulsar refuses a tenant without clusters"
    assert not plan.actions
    wanted = (instance if allowed is None else allowed) & instance
    if now is None:
        assert not wanted
        return
    before_roles, before_clusters = (live[0], live[1]) if live is not None else (set(), set())
    assert now.admin_roles == (before_roles - (managed[0] - roles)) | roles
    assert wanted <= now.allowed_clusters
    assert (before_clusters & used) <= now.allowed_clusters, "a cluster in use is never taken away"
    if allowed is None:
        assert before_clusters - managed[1] <= now.allowed_clusters, "clusters of others stay"


@given(
    declared=st.none() | st.integers(1, 5),
    live=st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 6), min_size=1),
)
def test_a_topic_never_shrinks_and_never_changes_kind(declared: int | None, live: dict[str, int | None]) -> None:
    body: dict[str, Any] = {"namespaceRef": {"name": "n"}}
    if declared is not None:
        body["partitions"] = declared
    spec = PulsarTopicSpec.model_validate(body)
    plan = plan_topic(spec, TopicFacts("t", "n", "x", live), Memory())
    assert all(a.call.method in {"PUT", "POST"} for a in plan.actions)
    mixed = any(v is not None and (v == 0) != (declared is None) for v in live.values())
    if mixed:
        assert plan.problems
        assert not plan.actions
    for action in plan.actions:
        if action.call.method == "POST":
            assert action.call.body > max(v or 0 for v in live.values())
    missing = {c for c, v in live.items() if v is None}
    if declared is None and not mixed:
        assert {a.cluster for a in plan.actions} == missing


@given(st.lists(st.builds(Claim, st.booleans(), st.sampled_from(["1", "2"]), st.uuids().map(str)), min_size=1))
def test_one_claim_wins_whatever_the_order(claims: list[Claim]) -> None:
    assert winner(claims) == winner(list(reversed(claims)))
    first = winner(claims)
    assert not first.newcomer or all(c.newcomer for c in claims)


@pytest.mark.parametrize(
    ("name", "bad"), [("x", False), ("x-partition-1", True), ("x-partition-", False), ("a/b", True)]
)
def test_names(name: str, bad: bool) -> None:
    assert (topic_name_problem(name) is not None) is bad


def test_every_row_points_at_a_field_of_the_spec_and_has_test_values() -> None:
    seen: set[tuple[str, str]] = set()
    for row in POLICIES:
        lookup(namespace_spec({"backlogQuotas": {}}), row.field)
        assert len(row.examples) >= 2
        assert (row.scope, row.field) not in seen
        seen.add((row.scope, row.field))
        for value in row.examples[2:]:
            assert row.in_sync(value, row.decode(row.encode(value)))


def test_a_row_for_a_field_the_spec_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError):
        lookup(namespace_spec({}), "policies.noSuchPolicy")


def test_a_value_of_a_newer_pulsar_is_shown_and_differs() -> None:
    row = next(r for r in NAMESPACE_POLICIES if r.field.endswith("destinationStorage"))
    live = {"backlog_quota_map": {"destination_storage": {"limitSize": 1, "policy": "some_new_policy"}}}
    found = row.read(live)
    assert "some_new_policy" in found.raw
    assert not row.in_sync(row.examples[0], found)


@pytest.mark.parametrize(("version", "old"), [("3.3.9", True), ("4.0.8", False), (None, False), ("4.0.0-rc", False)])
def test_versions(version: str | None, old: bool) -> None:
    assert too_old(NAMESPACE_POLICIES[0], version) is old
