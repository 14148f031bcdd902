"""The pure plans on any live state: they make what is declared, touch nothing else, and are then empty."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.api.v1alpha1.policies import NamespacePolicies, TopicPolicies
from pulsar_operator.api.v1alpha1.quantities import MEBI
from pulsar_operator.api.v1alpha1.tenant import PulsarTenantSpec
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.domain.logical.namespace import NamespaceFacts, desired_policies, found_policies, plan_namespace
from pulsar_operator.domain.logical.owners import Claim, winner
from pulsar_operator.domain.logical.plan import Memory, Plan, Verb
from pulsar_operator.domain.logical.pulsar_names import topic_name_problem
from pulsar_operator.domain.logical.tenant import LiveTenant, TenantFacts, plan_tenant
from pulsar_operator.domain.logical.topic import TopicFacts, plan_topic
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, POLICIES, PolicyRow, Scope, lookup, lookup_each, too_old
from tests.fakes.pulsar import FakePulsar
from tests.support.policies.examples import examples
from tests.support.policies.values import values_of

BACKLOG = st.sampled_from(["ProducerRequestHold", "ProducerException", "ConsumerBacklogEviction"])
POLICY_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "retention": st.sampled_from(
            [
                {"timeMinutes": t, "size": s * MEBI if s > 0 else s}
                for t, s in ((-1, -1), (0, 0), (5, -1), (5, 1000), (9, 2000))
            ]
        ),
        "messageTTLSeconds": st.integers(0, 3),
        "backlogQuotas": st.fixed_dictionaries(
            {},
            optional={
                "destinationStorage": st.fixed_dictionaries({"limit": st.integers(0, 10_000), "policy": BACKLOG}),
                "messageAge": st.fixed_dictionaries({"limitSeconds": st.integers(1, 3), "policy": BACKLOG}),
            },
        ),
    },
)
POLICY_SPECS = st.builds(
    lambda one, two: {**one, **two},
    POLICY_SPECS,
    examples(tuple(row for row in NAMESPACE_POLICIES if row.unavailable is None)),
)
FIELDS = [row.field for row in NAMESPACE_POLICIES]


def namespace_spec(policies: dict[str, Any], **more: Any) -> PulsarNamespaceSpec:
    return PulsarNamespaceSpec.model_validate({"tenantRef": {"name": "t"}, "policies": policies, **more})


def pulsar_with(spec: PulsarNamespaceSpec) -> FakePulsar:
    pulsar = FakePulsar(version="4.2.0", clusters=["a"], tenants={"t": {"adminRoles": [], "allowedClusters": ["a"]}})
    pulsar.resource_groups = {"g1", "g2"}
    converge(pulsar, spec, Memory())
    return pulsar


def facts_of(pulsar: FakePulsar) -> NamespaceFacts:
    live = copy.deepcopy(pulsar.namespaces.get("t/n"))
    facts = NamespaceFacts("t", "n", live, frozenset({"a"}), frozenset({"a"}))
    if live is None:
        return facts
    own = {row.field: {"a": row.read(ask(pulsar, row))} for row in NAMESPACE_POLICIES if row.own_get}
    return replace(facts, answers={"a": live}, own=own)


def ask(pulsar: FakePulsar, row: PolicyRow) -> Any:
    call = row.get_call(("namespaces", "t", "n"))
    return pulsar.handle("a", call.method, call.path, call.query, None)[1]


def live_values(pulsar: FakePulsar) -> dict[str, Any]:
    """Live values by field, of the only cluster."""
    facts = facts_of(pulsar)
    assert facts.live is not None
    found = found_policies(facts.live, facts.answers, facts.own)
    return {name: next(iter(values.values())) for name, values in found.items()}


def converge(pulsar: FakePulsar, spec: PulsarNamespaceSpec, memory: Memory) -> Plan:
    """Apply plans as the controller does: what Pulsar refuses is tried again after the rest."""
    for _ in range(8):
        plan = plan_namespace(spec, facts_of(pulsar), memory)
        if not plan.actions:
            return plan
        for action in plan.actions:
            body = action.call.body.decode() if isinstance(action.call.body, bytes) else action.call.body
            pulsar.handle("a", action.call.method, action.call.path, action.call.query, body)
    raise AssertionError(f"never ends: {plan.actions}")


@given(before=POLICY_SPECS, after=POLICY_SPECS, managed=st.sets(st.sampled_from(FIELDS)))
def test_a_namespace_gets_what_is_declared_and_nothing_else(
    before: dict[str, Any], after: dict[str, Any], managed: set[str]
) -> None:
    spec = namespace_spec(after)
    pulsar = pulsar_with(namespace_spec(before))
    untouched = live_values(pulsar)
    final = converge(pulsar, spec, Memory(managed=frozenset(managed)))
    live, wanted = live_values(pulsar), desired_policies(spec)
    for row in NAMESPACE_POLICIES:
        found = live[row.field]
        if wanted[row.field] is not None:
            assert row.in_sync(wanted[row.field], found)
        elif row.field in managed and row.remove:
            assert not row.is_set(found)
        else:
            assert found == untouched[row.field]
    assert not final.problems
    assert not final.drift


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
    refused = allowed is not None and not allowed <= instance
    wanted = set() if refused else instance if allowed is None else allowed
    if now is None:
        assert not wanted
        return
    before_roles, before_clusters = (live[0], live[1]) if live is not None else (set(), set())
    assert not refused or now.allowed_clusters == before_clusters, "a list with an unknown name changes nothing"
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


def test_every_field_of_the_policies_has_a_row() -> None:
    """A field without a row would be ignored."""
    for scope, model in ((Scope.NAMESPACE, NamespacePolicies), (Scope.TOPIC, TopicPolicies)):
        paths = {row.path.removeprefix("policies.") for row in POLICIES if row.scope is scope}
        for name, info in model.model_fields.items():
            field = info.alias or name
            inside = {path for path in paths if path.startswith(f"{field}.")}
            assert field in paths or inside, f"{scope} {field}"
            group = next(a for a in get_args(info.annotation) if a is not type(None)) if inside else None
            for member, more in group.model_fields.items() if group else ():
                assert f"{field}.{more.alias or member}" in paths, f"{scope} {field}.{member}"


def test_a_row_for_a_field_the_spec_does_not_have_is_an_error() -> None:
    for find in (lookup, lambda spec, path: lookup_each(spec, [path])):
        with pytest.raises(KeyError):
            find(namespace_spec({}), "policies.noSuchPolicy")


def test_a_value_of_a_newer_pulsar_is_shown_and_differs() -> None:
    row = next(r for r in NAMESPACE_POLICIES if r.field.endswith("destinationStorage"))
    live = {"backlog_quota_map": {"destination_storage": {"limitSize": 1, "policy": "some_new_policy"}}}
    found = row.read(live)
    assert "some_new_policy" in found.raw
    assert not row.in_sync(values_of(row)[0], found)


@pytest.mark.parametrize(("version", "old"), [("3.3.9", True), ("4.0.8", False), (None, False), ("4.0.0-rc", False)])
def test_versions(version: str | None, old: bool) -> None:
    assert too_old(NAMESPACE_POLICIES[0], version) is old
