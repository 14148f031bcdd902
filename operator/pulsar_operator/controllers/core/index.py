"""Dependencies between objects: which other objects are reconciled on an event of one object.

Children wait for their parents (a topic for its namespace, up to the instance), parents count their dependents, and a
namespace waits for the resource group that it, or the defaults of its tenant, name. Only changes that are relevant to
others are propagated: creation, deletion, spec, a condition, the published endpoints. Used by engine.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pulsar_operator.api.constants import (
    ANNOTATION_CONFIRM_LOSS,
    FINALIZER,
    GROUP,
    Component,
    ConditionType,
    Kind,
    Reason,
)
from pulsar_operator.ports import Json, Key

PARENT_FIELD: dict[Kind, tuple[str, Kind]] = {
    Kind.CLUSTER: ("instanceRef", Kind.INSTANCE),
    Kind.TENANT: ("instanceRef", Kind.INSTANCE),
    Kind.NAMESPACE: ("tenantRef", Kind.TENANT),
    Kind.TOPIC: ("namespaceRef", Kind.NAMESPACE),
    Kind.RESOURCE_GROUP: ("instanceRef", Kind.INSTANCE),
    Kind.ISOLATION_POLICY: ("instanceRef", Kind.INSTANCE),
    Kind.REBALANCE: ("clusterRef", Kind.CLUSTER),
    Kind.TOPIC_SET: ("namespaceRef", Kind.NAMESPACE),
}

POLICIES_FIELD: dict[Kind, str] = {
    Kind.NAMESPACE: "policies",
    Kind.TENANT: "namespaceDefaults",
    Kind.TOPIC: "policies",
}
"""Field of a kind with policies that may name another object: a resource group, or the shadow topics of a topic."""

MENTIONED = frozenset({Kind.RESOURCE_GROUP, Kind.TOPIC})
"""Kinds that are named that way."""

PLACED = frozenset({Kind.TENANT, Kind.NAMESPACE})
"""Kinds whose status lists the clusters in which their content may be."""

PUBLISHED: dict[Kind, tuple[str, ...]] = {
    Kind.INSTANCE: ("configurationStoreServers", "configurationStoreChroot"),
    Kind.CLUSTER: ("endpoints", "metadataStoreServers", "metadataStoreChroot", "version"),
    Kind.TENANT: ("pulsarName",),
    Kind.NAMESPACE: ("pulsarName",),
}
"""Fields of the status of a kind that other objects depend on."""

SERVING_PARTS = (Component.BROKER.value, Component.STANDALONE.value)
"""Components of a cluster that serve the admin REST."""

TASKS = frozenset({Kind.REBALANCE})
"""Kinds that request an action. They end with the object they refer to, and never block its deletion."""

SITED = frozenset({Kind.TENANT, Kind.NAMESPACE, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY})
"""Kinds that a cluster counts as its dependents (objects/dependents.py)."""


def key_of(kind: Kind, obj: Json) -> Key:
    """Returns the queue key of a raw object."""
    return Key(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def references(kind: Kind, obj: Json) -> frozenset[Key]:
    """Returns the objects that a raw object refers to in its spec. Malformed references are ignored, since the
    controller reports them."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return frozenset()
    namespace = obj["metadata"].get("namespace", "")
    found: set[Key] = set()
    if kind in PARENT_FIELD:
        field, parent = PARENT_FIELD[kind]
        ref = spec.get(field)
        if isinstance(ref, dict) and isinstance(ref.get("name"), str):
            found.add(Key(parent, str(ref.get("namespace") or namespace), ref["name"]))
    if kind is Kind.INSTANCE:
        # The configuration store may be the metadata store of one of the instance's clusters.
        store = spec.get("configurationStore")
        cluster = store.get("cluster") if isinstance(store, dict) else None
        if isinstance(cluster, dict) and isinstance(cluster.get("name"), str):
            found.add(Key(Kind.CLUSTER, namespace, cluster["name"]))
    return frozenset(found)


def mentions(kind: Kind, obj: Json) -> frozenset[Key]:
    """Returns the objects that a raw object names by their name in Pulsar, in whatever Kubernetes namespace they are.
    The keys have no namespace and identify no custom resource.

    For topics the key has the local name: a pass for another topic of that name changes nothing.
    """
    spec = obj.get("spec")
    policies = spec.get(POLICIES_FIELD[kind]) if kind in POLICIES_FIELD and isinstance(spec, dict) else None
    if not isinstance(policies, dict):
        return frozenset()
    if kind is Kind.TOPIC:
        shadows = policies.get("shadowTopics")
        names = shadows if isinstance(shadows, list) else ()
        return frozenset(Key(kind, "", name.rpartition("/")[2]) for name in names if isinstance(name, str))
    group = policies.get("resourceGroup")
    return frozenset({Key(Kind.RESOURCE_GROUP, "", group)} if isinstance(group, str) else ())


def alias(kind: Kind, obj: Json) -> Key | None:
    """Returns the key by which other objects mention a raw object; None if its kind is not mentioned."""
    if kind not in MENTIONED:
        return None
    spec = obj.get("spec")
    name = spec.get("name") if isinstance(spec, dict) else None
    return Key(kind, "", str(name or obj["metadata"]["name"]))


def published(kind: Kind, status: Json) -> str:
    """Returns the parts of a status, besides conditions, that other objects depend on, as a text to compare.

    These are the addresses of stores and brokers, whether a broker serves, the version, the object for which the
    balancer is off, whether a parent exists in Pulsar, and in which clusters.
    """
    found = {field: status.get(field) for field in PUBLISHED.get(kind, ())}
    if kind is Kind.CLUSTER:
        # How many are ready concerns no other object.
        found["balancer"] = (status.get("balancer") or {}).get("disabledFor")
        found["serving"] = [part for part in SERVING_PARTS if ((status.get(part) or {}).get("ready") or 0) > 0]
    if kind in PLACED:
        # What was refused for a cluster that was missing is tried again.
        found["clusters"] = _clusters(status)
    return repr({field: value for field, value in found.items() if value})


def allows_references(target: Json, *, target_namespace: str, from_namespace: str) -> bool:
    """Whether the target object allows references from another Kubernetes namespace."""
    if target_namespace == from_namespace:
        return True
    allowed = (target.get("spec") or {}).get("allowedKubernetesNamespaces") or []
    return from_namespace in allowed or "*" in allowed


@dataclass(frozen=True)
class ObjectFacts:
    """The facts of an object that other objects, or its own controller, depend on."""

    uid: str
    generation: int
    deleting: bool
    marks: tuple[tuple[str, str], ...]
    """Annotations of this API group (pause, dry run, confirmations). They do not increment the generation."""
    guarded: bool
    """Whether it has the operator's finalizer."""
    conditions: tuple[tuple[str, str], ...]
    published: str
    """Fields of the status that other objects depend on."""
    reason: str
    """Reason of its condition Ready; only for the tally."""
    references: frozenset[Key]
    mentions: frozenset[Key]
    alias: Key | None

    def own_change(self, before: ObjectFacts) -> bool:
        """Whether the object's own controller must run: on any change except of the status, which it writes itself."""
        own = (self.uid, self.generation, self.deleting, self.marks)
        return own != (before.uid, before.generation, before.deleting, before.marks) or (
            before.guarded and not self.guarded
        )

    def outward_change(self, before: ObjectFacts) -> bool:
        """Whether related objects must be reconciled."""
        return self._outward() != before._outward()

    def _outward(self) -> tuple[object, ...]:
        consent = [mark for mark in self.marks if mark[0] == ANNOTATION_CONFIRM_LOSS]  # also for what inherits from it
        return self.uid, self.generation, self.deleting, self.conditions, self.published, tuple(consent)


def object_facts_of(kind: Kind, obj: Json) -> ObjectFacts:
    """Returns the facts of a raw object."""
    meta = obj["metadata"]
    status = obj.get("status") or {}
    annotations = meta.get("annotations") or {}
    return ObjectFacts(
        uid=meta.get("uid", ""),
        generation=meta.get("generation", 0),
        deleting="deletionTimestamp" in meta,
        marks=tuple(sorted((k, str(v)) for k, v in annotations.items() if k.startswith(f"{GROUP}/"))),
        guarded=FINALIZER in (meta.get("finalizers") or ()),
        conditions=tuple((str(c.get("type")), str(c.get("status"))) for c in status.get("conditions") or ()),
        published=published(kind, status),
        reason=_reason(status),
        references=references(kind, obj),
        mentions=mentions(kind, obj),
        alias=alias(kind, obj),
    )


_REASONS = frozenset(reason.value for reason in Reason)


def _reason(status: Json) -> str:
    """Returns the reason of Ready; Unknown if there is none yet, or if this version of the operator does not know
    it."""
    conditions = status.get("conditions") or ()
    reasons = (str(c.get("reason")) for c in conditions if c.get("type") == ConditionType.READY.value)
    reason = next(reasons, "")
    return reason if reason in _REASONS else Reason.UNKNOWN.value


def _clusters(status: Json) -> list[str]:
    """Returns the clusters in which the object exists, from status.clusters: a list of names, or of objects that also
    say whether it exists."""
    listed = (
        each if isinstance(each, dict) else {"name": each, "exists": True} for each in status.get("clusters") or ()
    )
    return sorted(str(each.get("name")) for each in listed if each.get("exists"))


@dataclass(frozen=True)
class Effect:
    """The objects that an event requires to be reconciled."""

    own: bool
    """Whether the object itself is reconciled."""
    referrers: frozenset[Key]
    """Objects that refer to it: children that may wait for it."""
    referred: frozenset[Key]
    """Objects it refers to: parents that count it."""
    sited: frozenset[Key] = frozenset()
    """Clusters of its instance, which count their dependents."""
    changed: bool = False
    """Whether another client changed or deleted a known object, and waits for the result."""


NOTHING = Effect(False, frozenset(), frozenset())


class RefIndex:
    """The last known facts of every object, and the reverse of all references."""

    def __init__(self) -> None:
        self._facts: dict[Key, ObjectFacts] = {}
        self._referrers: defaultdict[Key, set[Key]] = defaultdict(set)
        self._tally: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._facts)

    def __contains__(self, key: object) -> bool:
        return key in self._facts

    def tally(self) -> Mapping[tuple[str, str], int]:
        """Returns the number of objects by kind and reason of Ready, without entries that are 0."""
        return dict(self._tally)

    def _count(self, key: Key, facts: ObjectFacts, by: int) -> None:
        place = key.kind.value, facts.reason
        self._tally[place] += by
        if not self._tally[place]:
            del self._tally[place]

    def keys(self, kind: Kind) -> Iterator[Key]:
        """Returns the known objects of a kind."""
        return (key for key in list(self._facts) if key.kind is kind)

    def version_of(self, key: Key) -> tuple[str, int] | None:
        """Returns the UID and generation with which an object was last observed; None if it is not known."""
        facts = self._facts.get(key)
        return (facts.uid, facts.generation) if facts is not None else None

    def update(self, kind: Kind, obj: Json) -> Effect:
        """Updates the facts of an object. Returns what must be reconciled."""
        key, now = key_of(kind, obj), object_facts_of(kind, obj)
        before = self._facts.get(key)
        if before == now:
            return NOTHING
        self._facts[key] = now
        self._count(key, now, 1)
        if before is not None:
            self._count(key, before, -1)
        self._link(key, before.references | before.mentions if before else frozenset(), now.references | now.mentions)
        if before is not None and not now.outward_change(before) and now.references == before.references:
            return Effect(now.own_change(before), frozenset(), frozenset(), changed=now.own_change(before))
        return Effect(
            own=before is None or now.own_change(before),
            referrers=self._who_names(key, now.alias) | self._cluster_referrers(key, now, before),
            referred=now.references | (before.references if before else frozenset()),
            sited=self._sites(key, now),
            changed=before is not None and now.own_change(before),
        )

    def remove(self, key: Key) -> Effect:
        """Removes an object that no longer exists. Returns what must be reconciled."""
        before = self._facts.pop(key, None)
        if before is None:
            return NOTHING
        self._count(key, before, -1)
        self._link(key, before.references | before.mentions, frozenset())
        return Effect(
            own=True,
            referrers=self._who_names(key, before.alias) | self._cluster_referrers(key, before, None),
            referred=before.references,
            sited=self._sites(key, before),
        )

    def _sites(self, key: Key, facts: ObjectFacts) -> frozenset[Key]:
        """Returns the clusters of the object's instance. Topics are left to their namespace: there are many, and they
        depend on no cluster that their namespace does not depend on."""
        if key.kind not in SITED:
            return frozenset()
        up = set(facts.references)
        if key.kind is Kind.NAMESPACE:
            up = {each for tenant in up if tenant in self._facts for each in self._facts[tenant].references}
        return frozenset(k for each in up for k in self._referrers.get(each, ()) if k.kind is Kind.CLUSTER)

    def _who_names(self, key: Key, alias: Key | None) -> frozenset[Key]:
        found = set(self._referrers.get(key, ()))
        for each in self._referrers.get(alias, ()) if alias is not None else ():
            # What a tenant names for its namespaces is waited for by them.
            found |= self._referrers.get(each, set()) if each.kind is Kind.TENANT else {each}
        return frozenset(found)

    def _cluster_referrers(self, key: Key, facts: ObjectFacts, before: ObjectFacts | None) -> frozenset[Key]:
        """Returns the objects that may name a cluster, by its name in Pulsar, in a list of clusters.

        These are the objects that refer to its instance, and the namespaces of its tenants if the cluster is added or
        removed. There are many namespaces; that the cluster becomes usable reaches them through their tenant.
        """
        if key.kind is not Kind.CLUSTER:
            return frozenset()
        near = {k for each in facts.references for k in self._referrers.get(each, ()) if k.kind in SITED}
        if before is None or before.references != facts.references:
            tenants = [k for k in near if k.kind is Kind.TENANT]
            near |= {k for each in tenants for k in self._referrers.get(each, ()) if k.kind is Kind.NAMESPACE}
        return frozenset(near)

    def _link(self, key: Key, old: frozenset[Key], new: frozenset[Key]) -> None:
        for target in old - new:
            self._referrers[target].discard(key)
            if not self._referrers[target]:
                del self._referrers[target]
        for target in new - old:
            self._referrers[target].add(key)
