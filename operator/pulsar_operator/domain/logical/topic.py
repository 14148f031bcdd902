"""The plan of a PulsarTopic: it exists in every cluster of its namespace, with at least the declared partitions.

The number of partitions is in the configuration store, so one write applies to all clusters. A non-partitioned topic is
created in each cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import DriftPolicy
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.api.v1alpha1.policies import PolicyScope
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.domain.cron import Schedule
from pulsar_operator.domain.logical.clusters import keep_refused, refuses
from pulsar_operator.domain.logical.consent import Guard
from pulsar_operator.domain.logical.entries import Live, plan_entries
from pulsar_operator.domain.logical.plan import Action, Draft, Memory, Plan, Problem, Verb, plan_policies, printable
from pulsar_operator.domain.logical.pulsar_names import topic_name, topic_path
from pulsar_operator.domain.logical.schema import SchemaFacts, plan_schema, schema_path
from pulsar_operator.domain.logical.subscriptions import LiveSubscriptions, plan_subscriptions
from pulsar_operator.domain.policies import TOPIC_POLICIES, Call, PolicyRow, Unreadable, declared_in, lookup_each
from pulsar_operator.domain.policies.entry_rows import TOPIC_ENTRIES, EntryRow

PARTITIONS = "partitions"
LOCAL_CLUSTERS = "replicationClusters"
GLOBAL_CLUSTERS = f"{LOCAL_CLUSTERS}@{PolicyScope.GLOBAL}"
METADATA = "application/vnd.partitioned-topic-metadata+json"
"""Media type of PartitionedTopicMetadata. The same path also accepts a number as JSON."""
_FIELDS = tuple(row.field for row in TOPIC_POLICIES)
_FIELDS_IN = {scope: tuple(row.field for row in TOPIC_POLICIES if declared_in(row, scope)) for scope in PolicyScope}
"""Fields of the policies that get their value from a specification with that spec.policyScope."""


@dataclass(frozen=True)
class TopicFacts:
    """The facts the plan depends on."""

    tenant: str
    namespace: str
    name: str
    clusters: Mapping[str, int | None]
    """Number of partitions in each cluster of the namespace that answered (``GET .../partitions``): None if it has no
    such topic, 0 if the topic is not partitioned."""
    unreachable: tuple[str, ...] = ()
    """Clusters of the namespace that did not answer."""
    found: Mapping[str, Mapping[str | None, Any]] = field(default_factory=dict)
    """Live policies by field and cluster: those that are declared or managed, in clusters that have the topic."""
    entries: Mapping[str, Live] = field(default_factory=dict)
    """Live lists by field: those that are declared or managed, if the topic exists."""
    subscriptions: LiveSubscriptions = field(default_factory=dict)
    """Subscriptions for each cluster that has the topic; empty if none is declared or managed."""
    schemas: Mapping[str, SchemaFacts | Unreadable] = field(default_factory=dict)
    """Schemas for each cluster that has the topic; empty if none is declared."""
    version: str | None = None
    """Pulsar version of the cluster that calls are sent to."""
    safe: frozenset[str] = frozenset()
    """Clusters in the namespace's allowed_clusters, which never delete the topic. Known if the spec has
    replicationClusters."""
    of_the_instance: frozenset[str] = frozenset()
    """Pulsar names of the instance's clusters."""
    guard: Guard | None = None
    """The consent to keep less; None if no change needs it."""
    partitioned: bool | None = None
    """Whether the topic is declared with partitions; None if this does not matter."""
    record: Mapping[str, str] = field(default_factory=dict)
    """Properties with which a new topic is created besides the declared ones: the owner record."""

    @property
    def as_declared(self) -> bool:
        """Whether a cluster has the topic, and every cluster that has it has it with, or without, partitions as
        declared."""
        found = [count for count in self.clusters.values() if count is not None]
        kinds = {count > 0 for count in found}
        return bool(found) and (self.partitioned is None or kinds == {self.partitioned})

    @property
    def absent(self) -> bool:
        """Whether no cluster has the topic."""
        return all(found is None for found in self.clusters.values())


def desired_policies(spec: PulsarTopicSpec) -> dict[str, Any]:
    """Returns the declared values by field. The policies of the other scope have none."""
    return dict.fromkeys(_FIELDS) | lookup_each(spec, _FIELDS_IN[spec.policy_scope])


def plan_topic(spec: PulsarTopicSpec, facts: TopicFacts, memory: Memory) -> Plan:
    """Returns the plan that makes the topic match the spec."""
    draft = Draft()
    if spec.partitions is not None:
        draft.declared.add(PARTITIONS)
    _check_schedule(draft, spec)
    other = {
        cluster: found
        for cluster, found in facts.clusters.items()
        if found is not None and (found == 0) != (spec.partitions is None)
    }
    if other:
        _refuse_kind(draft, spec, facts, other)
    elif spec.partitions is None:
        _plan_plain(draft, spec, facts, memory)
    elif facts.clusters:
        _plan_partitioned(draft, spec, facts, memory, spec.partitions)
    if not other:
        _plan_policies(draft, spec, facts, memory)
        _plan_entries(draft, spec, facts, memory)
        _plan_parts(draft, spec, facts, memory)
    return draft.done()


def _check_schedule(draft: Draft, spec: PulsarTopicSpec) -> None:
    if spec.compaction is None:
        return
    try:
        Schedule.parse(spec.compaction.schedule)
    except ValueError as error:
        draft.problems.append(Problem("compaction.schedule", Reason.INVALID_SPEC, f"spec.compaction.schedule: {error}"))


def _plan_policies(draft: Draft, spec: PulsarTopicSpec, facts: TopicFacts, memory: Memory) -> None:
    """Plans the policies. New values are set before old ones are reset, so that a change of policyScope leaves no
    gap."""
    desired = desired_policies(spec)
    absent = facts.absent
    rows = _without_loss(draft, desired, facts, memory, _with_known_clusters(draft, desired, facts, memory))
    plan_policies(
        draft,
        sorted(rows, key=lambda row: desired[row.field] is None),
        desired,
        _nothing_set(facts, desired) if absent else facts.found,
        base=_path(spec, facts),
        # What a topic that is made again lacks was not taken away by another writer.
        memory=replace(memory, applied=False) if absent else memory,
        repair=spec.drift_policy is DriftPolicy.REPAIR,
        version=facts.version,
        unreachable=facts.unreachable,
        guard=facts.guard,
    )


def _with_known_clusters(
    draft: Draft, desired: Mapping[str, Any], facts: TopicFacts, memory: Memory
) -> Sequence[PolicyRow]:
    """Returns the policies without a list that names an unknown cluster, or one in which the namespace may not be.

    Such a list is not written at all: a misspelt name is a cluster that would no longer get the topic.
    """
    for field_ in (LOCAL_CLUSTERS, GLOBAL_CLUSTERS):
        refused = refuses(draft, field_, desired[field_], facts.of_the_instance)
        outside = _outside(field_, desired[field_] or (), facts)
        draft.problems += outside
        if refused or outside:
            keep_refused(draft, field_, memory)
            return [row for row in TOPIC_POLICIES if row.field != field_]
    return TOPIC_POLICIES


def _outside(field_: str, given: Sequence[str], facts: TopicFacts) -> list[Problem]:
    """Returns the problem of a list with clusters that have left the namespace, or have not joined it yet."""
    outside = sorted((set(given) & facts.of_the_instance) - {*facts.clusters, *facts.unreachable})
    if not outside:
        return []
    names, namespace = ", ".join(outside), f"{facts.tenant}/{facts.namespace}"
    text = (
        f"spec.replicationClusters names {names}, but namespace {namespace} is not allowed in {names}. The other "
        f"clusters of the list would keep messages for {names} that are never delivered. Remove {names} from the "
        f"list, or add {names} to spec.allowedClusters of the PulsarNamespace"
    )
    return [Problem(field_, Reason.INVALID_SPEC, text)]


def _without_loss(
    draft: Draft, desired: Mapping[str, Any], facts: TopicFacts, memory: Memory, rows: Sequence[PolicyRow]
) -> Sequence[PolicyRow]:
    """Returns the policies that may be written. A global list applies to every cluster, and brokers of a cluster that
    is not in it delete the topic, unless the namespace's allowed_clusters name it (class PersistentTopic,
    checkReplication)."""
    declared = desired[GLOBAL_CLUSTERS]
    lost = sorted({*facts.clusters, *facts.unreachable} - set(declared) - facts.safe) if declared is not None else []
    if not lost or all(row.field != GLOBAL_CLUSTERS for row in rows):
        return rows
    draft.declared |= {GLOBAL_CLUSTERS} & memory.managed
    names = ", ".join(lost)
    text = (
        f"spec.replicationClusters does not contain {names}. A global list applies in every cluster, so Pulsar "
        f"would delete the topic in {names}. Add {names} to the list or to spec.allowedClusters of the "
        "PulsarNamespace, or set spec.policyScope to Local"
    )
    draft.problems.append(Problem(GLOBAL_CLUSTERS, Reason.CONFIRMATION_REQUIRED, text))
    return [row for row in rows if row.field != GLOBAL_CLUSTERS]


def _plan_entries(draft: Draft, spec: PulsarTopicSpec, facts: TopicFacts, memory: Memory) -> None:
    """Plans the lists. A topic that does not exist yet, or was lost, cannot have drifted. It has no entries except the
    properties with which it is created. Its other entries are set right after its creation, so that all are read back
    together."""
    absent = facts.absent
    for row in TOPIC_ENTRIES:
        plan_entries(
            draft,
            row,
            spec,
            _no_entries(row, spec, facts) if absent else facts.entries.get(row.field, {}),
            base=_path(spec, facts),
            memory=replace(memory, applied=False) if absent else memory,
            repair=spec.drift_policy is DriftPolicy.REPAIR,
            unseen=kept_by_each(row, spec) and bool(facts.unreachable),
        )


def _plan_parts(draft: Draft, spec: PulsarTopicSpec, facts: TopicFacts, memory: Memory) -> None:
    """Plans the schema and the subscriptions. The schema comes first, since it describes the messages."""
    repair = spec.drift_policy is DriftPolicy.REPAIR
    plan_schema(
        draft,
        spec.topic_schema,
        facts.schemas,
        path=schema_path(facts.tenant, facts.namespace, facts.name),
        memory=memory,
        repair=repair,
    )
    plan_subscriptions(
        draft,
        spec.subscriptions,
        facts.subscriptions,
        topic=_path(spec, facts),
        memory=memory,
        repair=repair,
        policy=spec.deletion_policy,
        unreachable=facts.unreachable,
    )


def kept_by_each(row: EntryRow, spec: PulsarTopicSpec) -> bool:
    """Whether each cluster has its own list."""
    return row.own_get is not None and spec.partitions is None


def _nothing_set(facts: TopicFacts, desired: Mapping[str, Any]) -> dict[str, dict[str | None, Any]]:
    """Returns the policies of a topic that does not exist yet: none set, in each cluster or in the first one for shared
    policies."""
    clusters = sorted(facts.clusters)
    return {
        row.field: dict.fromkeys(clusters if row.per_cluster else clusters[:1])
        for row in TOPIC_POLICIES
        if desired[row.field] is not None
    }


def _no_entries(row: EntryRow, spec: PulsarTopicSpec, facts: TopicFacts) -> Live:
    """Returns a list of a topic that does not exist yet, by cluster or under None if all share it: the entries that its
    creation sets, otherwise none."""
    given = row.declared(spec) if OWNER_PROPERTY in row.reserved and facts.record else {}
    return {cluster: given for cluster in (sorted(facts.clusters) if kept_by_each(row, spec) else (None,))}


def _refuse_kind(draft: Draft, spec: PulsarTopicSpec, facts: TopicFacts, other: Mapping[str, int]) -> None:
    cluster, found = sorted(other.items())[0]
    live = f"a partitioned topic with {found} partitions" if found else "a non-partitioned topic"
    declared = "non-partitioned" if spec.partitions is None else f"with {spec.partitions} partitions"
    remedy = f"spec.partitions to {found}" if found else "no spec.partitions"
    draft.problems.append(
        Problem(
            PARTITIONS,
            Reason.IMMUTABLE_IN_PULSAR,
            f"{_name(spec, facts)} is {live} in cluster {cluster}, but is declared {declared}. Pulsar cannot "
            "convert one into the other, and the operator does not delete the topic to create it again. Declare "
            f"{remedy}, or another name",
        )
    )


def _plan_plain(draft: Draft, spec: PulsarTopicSpec, facts: TopicFacts, memory: Memory) -> None:
    for cluster, found in sorted(facts.clusters.items()):
        if found is None:
            draft.actions.append(
                Action(
                    Verb.CREATE,
                    "",
                    Call("PUT", _path(spec, facts), body=_first_properties(spec, facts) or None),
                    f"{_again(memory)} topic {_name(spec, facts)} in cluster "
                    f"{cluster}{_with_properties(spec, facts)}, because the cluster does not have the topic",
                    cluster=cluster,
                )
            )


def _plan_partitioned(draft: Draft, spec: PulsarTopicSpec, facts: TopicFacts, memory: Memory, desired: int) -> None:
    counts = [found for found in facts.clusters.values() if found is not None]
    path = (*_path(spec, facts), "partitions")
    if not counts:
        draft.actions.append(
            Action(
                Verb.CREATE,
                "",
                _creation(path, desired, _first_properties(spec, facts)),
                f"{_again(memory)} topic {_name(spec, facts)} with {desired} "
                f"partitions{_with_properties(spec, facts)}, because Pulsar has no topic of that name",
            )
        )
        return
    live = max(counts)
    if live > desired:
        draft.fixed.append(DriftEntry(field=PARTITIONS, desired=f"{desired} partitions", actual=f"{live} partitions"))
    elif live < desired:
        draft.actions.append(
            Action(
                Verb.CHANGE,
                PARTITIONS,
                Call("POST", path, body=desired),
                f"Increase spec.partitions from {live} to {desired}",
            )
        )


def _creation(path: tuple[str, ...], number: int, properties: Mapping[str, str]) -> Call:
    """Returns the call that creates a partitioned topic. With properties its complete metadata are sent (class
    PersistentTopics)."""
    if not properties:
        return Call("PUT", path, body=number)
    return Call("PUT", path, body={"partitions": number, "properties": dict(properties)}, media=METADATA)


def _first_properties(spec: PulsarTopicSpec, facts: TopicFacts) -> dict[str, str]:
    """Returns the properties in the call that creates a topic: the declared ones, and the owner record. Empty for a
    topic that is created without a record."""
    return {**(spec.properties or {}), **facts.record} if facts.record else {}


def _with_properties(spec: PulsarTopicSpec, facts: TopicFacts) -> str:
    """Returns the names of the declared properties with which a topic is created, for the reason of the call."""
    names = sorted(spec.properties or {}) if facts.record else []
    return f" with properties {', '.join(map(printable, names))}" if names else ""


def _again(memory: Memory) -> str:
    return "Recreate the lost" if memory.established else "Create"


def _path(spec: PulsarTopicSpec, facts: TopicFacts) -> tuple[str, ...]:
    return topic_path(spec.persistent, facts.tenant, facts.namespace, facts.name)


def _name(spec: PulsarTopicSpec, facts: TopicFacts) -> str:
    return topic_name(spec.persistent, facts.tenant, facts.namespace, facts.name)
