"""The plan of topic policies on any live state: it makes what is declared, touches nothing else, and is then empty."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.domain.logical.plan import Memory, Plan, Verb, concerned
from pulsar_operator.domain.logical.topic import TopicFacts, desired_policies, plan_topic
from pulsar_operator.domain.policies import LOCAL_POLICIES, TOPIC_POLICIES, PolicyRow, declared_in, lookup
from tests.fakes.pulsar import FakePulsar
from tests.support.policies.examples import examples, topic_spec

CLUSTERS = ("a", "b")
BASE = ("persistent", "t", "n", "x")
SPECS = st.tuples(
    examples(tuple(row for row in LOCAL_POLICIES if row.unavailable is None)), st.sampled_from(["Local", "Global"])
)
FIELDS = st.sets(st.sampled_from([row.field for row in TOPIC_POLICIES]))


def spec_of(drawn: tuple[dict[str, Any], str], **more: Any) -> PulsarTopicSpec:
    return topic_spec(drawn[0], policyScope=drawn[1], **more)


def new_pulsar() -> FakePulsar:
    pulsar = FakePulsar(
        version="4.2.0", clusters=[*CLUSTERS], tenants={"t": {"adminRoles": [], "allowedClusters": [*CLUSTERS]}}
    )
    pulsar.handle("a", "PUT", ("namespaces", "t", "n"), {}, {"replication_clusters": [*CLUSTERS]})
    for cluster in CLUSTERS:
        for name in ("x", "s1", "s2"):
            pulsar.handle(cluster, "PUT", ("persistent", "t", "n", name), {}, None)
    return pulsar


def read(pulsar: FakePulsar, row: PolicyRow) -> dict[str | None, Any]:
    call = row.get_call(BASE)
    places = CLUSTERS if row.per_cluster else CLUSTERS[:1]
    return {c: row.read(pulsar.handle(c, call.method, call.path, call.query, None)[1]) for c in places}


def everything(pulsar: FakePulsar) -> dict[str, dict[str | None, Any]]:
    return {row.field: read(pulsar, row) for row in TOPIC_POLICIES}


def plan(pulsar: FakePulsar, spec: PulsarTopicSpec, memory: Memory) -> Plan:
    rows = concerned(TOPIC_POLICIES, desired_policies(spec), memory.managed)
    found = {row.field: read(pulsar, row) for row in rows}
    facts = TopicFacts("t", "n", "x", dict.fromkeys(CLUSTERS, 0), found=found, of_the_instance=frozenset(CLUSTERS))
    return plan_topic(spec, facts, memory)


def converge(pulsar: FakePulsar, spec: PulsarTopicSpec, memory: Memory) -> Plan:
    for _ in range(4):
        made = plan(pulsar, spec, memory)
        if not made.actions:
            return made
        for action in made.actions:
            assert action.cluster is not None
            call = action.call
            status, answer = pulsar.handle(action.cluster, call.method, call.path, call.query, call.body)
            assert status < 300, (call, answer)
    raise AssertionError(f"never ends: {made.actions}")


@given(SPECS)
def test_the_values_of_the_whole_table_are_those_that_each_row_finds(drawn: tuple[dict[str, Any], str]) -> None:
    spec = spec_of(drawn)
    assert desired_policies(spec) == {
        row.field: lookup(spec, row.field) if declared_in(row, spec.policy_scope) else None for row in TOPIC_POLICIES
    }


@given(before=SPECS, after=SPECS, managed=FIELDS)
def test_a_topic_gets_what_is_declared_and_nothing_else(
    before: tuple[dict[str, Any], str], after: tuple[dict[str, Any], str], managed: set[str]
) -> None:
    pulsar, spec = new_pulsar(), spec_of(after)
    converge(pulsar, spec_of(before), Memory())
    untouched = everything(pulsar)
    final = converge(pulsar, spec, Memory(managed=frozenset(managed)))
    wanted, live = desired_policies(spec), everything(pulsar)
    for row in TOPIC_POLICIES:
        if wanted[row.field] is not None:
            assert all(row.in_sync(wanted[row.field], value) for value in live[row.field].values()), row.field
        elif row.field in managed:
            assert not any(row.is_set(value) for value in live[row.field].values()), row.field
        else:
            assert live[row.field] == untouched[row.field], row.field
    assert not final.problems
    assert final.declared == {name for name, value in wanted.items() if value is not None}


@given(spec=SPECS, live=SPECS, managed=FIELDS)
def test_report_never_changes_what_others_changed(
    spec: tuple[dict[str, Any], str], live: tuple[dict[str, Any], str], managed: set[str]
) -> None:
    pulsar = new_pulsar()
    converge(pulsar, spec_of(live), Memory())
    memory = Memory(managed=frozenset(managed), applied=True, established=True)
    made = plan(pulsar, spec_of(spec, driftPolicy="Report"), memory)
    assert not [a for a in made.actions if a.verb is Verb.REPAIR]
    assert not {a.field for a in made.actions if a.verb is Verb.SET} & managed
    assert {entry.field for entry in made.drift} <= managed
    assert len({entry.field for entry in made.drift}) == len(made.drift), "one entry for each field"


@given(spec=SPECS, managed=FIELDS)
def test_what_is_new_is_set_before_what_is_old_is_reset(spec: tuple[dict[str, Any], str], managed: set[str]) -> None:
    """So that moving from one scope to the other leaves no gap."""
    pulsar = new_pulsar()
    other = "Global" if spec[1] == "Local" else "Local"
    converge(pulsar, spec_of((spec[0], other)), Memory())
    verbs = [a.verb for a in plan(pulsar, spec_of(spec), Memory(managed=frozenset(managed))).actions]
    assert verbs == sorted(verbs, key=lambda verb: verb is Verb.RESET)


@given(spec=SPECS, managed=FIELDS)
def test_a_silent_cluster_is_kept_in_mind(spec: tuple[dict[str, Any], str], managed: set[str]) -> None:
    declared = spec_of(spec)
    facts = TopicFacts("t", "n", "x", {"a": 0}, unreachable=("b",), of_the_instance=frozenset(CLUSTERS))
    made = plan_topic(declared, facts, Memory(managed=frozenset(managed)))
    local = {row.field for row in TOPIC_POLICIES if row.per_cluster}
    assert made.kept == {name for name in managed & local if name not in made.declared}
