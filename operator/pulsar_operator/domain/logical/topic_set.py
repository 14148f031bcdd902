"""The topics of a PulsarTopicSet, their specification, and which have left the set. Pure functions.

The topics of a set are managed like single ones (domain/logical/topic.py). This module defines what is specific to a
set.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.api.v1alpha1.topic_set import (
    MAX_DIGESTS,
    OwnedTopics,
    PulsarTopicSetSpec,
    SetDeletionPolicy,
    TopicTemplate,
)
from pulsar_operator.domain.logical.plan import Memory
from pulsar_operator.domain.logical.topic import TopicFacts, plan_topic

DIGEST_BYTES = 8
"""64 bits. Among a million foreign topics, the chance that one has the digest of one of 5,000 names is about 1 in
10^9."""
MAX_OWNED = MAX_DIGESTS // 4 * 3 // DIGEST_BYTES
"""Maximum number of names in the record, whose digests are stored in base64."""
FREE_REMOVALS = 10
"""Number of topics that may leave at the same time without a confirmation."""
FREE_SHARE = 0.1
"""Share of the topics that may leave at the same time without a confirmation."""
SHOWN = 3


@dataclass(frozen=True)
class Selection:
    """The topics that a specification selects, by local name."""

    spec: PulsarTopicSetSpec

    @property
    def by_pattern(self) -> bool:
        """Whether the set selects existing topics by pattern instead of creating topics."""
        return self.spec.patterns is not None

    @cached_property
    def names(self) -> Sequence[str]:
        """Returns all names, in order; none if topics are selected by pattern."""
        if self.spec.count is not None:
            count = self.spec.count
            return [f"{count.prefix}{n}" for n in range(count.first, count.first + count.number)]
        return sorted(set(self.spec.names or ()))

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self.spec.names or ())

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # fnmatch makes expressions whose time does not explode, which a regular expression of a user's may.
        return re.compile("|".join(fnmatch.translate(each) for each in self.spec.patterns or ()))

    def __contains__(self, name: str) -> bool:
        if self.spec.count is not None:
            index = self.index(name)
            return index is not None and index < self.spec.count.number
        if self.spec.patterns is not None:
            return self._pattern.match(name) is not None
        return name in self._set

    def index(self, name: str) -> int | None:
        """With spec.count, returns the index of a name, from 0 on, also beyond the number; None for a name in another
        form."""
        count = self.spec.count
        if count is None or not name.startswith(count.prefix):
            return None
        digits = name[len(count.prefix) :]
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 9 or str(int(digits)) != digits:
            return None
        place = int(digits) - count.first
        return place if place >= 0 else None


def topic_spec(spec: PulsarTopicSetSpec, found_partitions: int | None = None) -> PulsarTopicSpec:
    """Returns the specification of one topic in the form of a PulsarTopic. ``found_partitions`` is the number of
    partitions of a topic that was selected by pattern (0 if not partitioned), which it keeps."""
    template: TopicTemplate = spec.template
    partitions = template.partitions if found_partitions is None else found_partitions or None
    return PulsarTopicSpec(
        namespace_ref=spec.namespace_ref,
        partitions=partitions,
        policies=template.policies,
        policy_scope=template.policy_scope,
        properties=template.properties,
        schema=template.topic_schema,
        # Deletion is the set's own affair; see controllers/topicset/removal.py.
        deletion_policy=DeletionPolicy.RETAIN,
        drift_policy=spec.drift_policy,
    )


def declared_fields(spec: PulsarTopicSetSpec, version: str | None) -> frozenset[str]:
    """Returns the fields that the managed fields must contain before the first topic is written."""
    facts = TopicFacts(tenant="", namespace="", name="", clusters={"": None}, version=version)
    return plan_topic(topic_spec(spec), facts, Memory()).declared


def template_hash(spec: PulsarTopicSetSpec) -> str:
    """Returns a hash of the template."""
    text = json.dumps(wire(spec.template), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ------------------------------------------------------------------------------------------------------- who left


def digest(name: str) -> bytes:
    """Returns the digest of a name."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:DIGEST_BYTES]


def digests_of(owned: OwnedTopics | None) -> frozenset[bytes]:
    """Returns the recorded names of a set with spec.names."""
    if owned is None or not owned.digests:
        return frozenset()
    try:
        raw = base64.b64decode(owned.digests, validate=True)
    except ValueError:
        return frozenset()  # what cannot be read is not ours
    return frozenset(raw[i : i + DIGEST_BYTES] for i in range(0, len(raw) - DIGEST_BYTES + 1, DIGEST_BYTES))


def owned_with(selection: Selection, before: OwnedTopics | None) -> OwnedTopics | None:
    """Returns the record that must be stored before a topic of the specification is created. No recorded name is
    dropped."""
    spec = selection.spec
    if spec.deletion_policy is not SetDeletionPolicy.DELETE:
        return None  # with Retain a topic that leaves is not tracked any longer
    if spec.count is not None:
        known = before.number if before is not None and before.number is not None else 0
        return OwnedTopics(number=max(known, spec.count.number))
    return _recorded(digests_of(before) | {digest(name) for name in selection.names})


def owned_now(selection: Selection, before: OwnedTopics, there: Collection[str] = ()) -> OwnedTopics | None:
    """Returns the record without topics that left and no longer exist. ``there`` are names that left and still exist.

    Names are dropped one by one as their topics are deleted; otherwise the record would grow with each change of names.
    """
    spec = selection.spec
    if spec.deletion_policy is not SetDeletionPolicy.DELETE:
        return None
    if spec.count is not None:
        last = max((place for place in map(selection.index, there) if place is not None), default=-1)
        return OwnedTopics(number=min(before.number or 0, max(spec.count.number, last + 1)))
    return _recorded(digests_of(before) & {digest(name) for name in (*selection.names, *there)})


def without_room(selection: Selection, before: OwnedTopics | None) -> bool:
    """Whether the record has no room for the names of the specification besides those that left and still exist."""
    spec = selection.spec
    if spec.deletion_policy is not SetDeletionPolicy.DELETE or spec.count is not None:
        return False
    return len(digests_of(before) | {digest(name) for name in selection.names}) > MAX_OWNED


def has_record(name: str, recorded: Collection[bytes]) -> bool:
    """Whether the recorded digests, see digests_of, contain a name."""
    return digest(name) in recorded


def _recorded(digests: Iterable[bytes]) -> OwnedTopics:
    return OwnedTopics(digests=base64.b64encode(b"".join(sorted(digests))).decode())


@dataclass(frozen=True)
class Left:
    """The recorded topics that the specification no longer contains."""

    number: int
    """Number of these topics, whether or not they exist."""
    of: int
    """Number of all recorded topics."""
    has: Callable[[str], bool]
    """Returns whether a name is one of these topics."""

    @property
    def many(self) -> bool:
        """Whether the number of topics that left is so high that their deletion requires a confirmation."""
        return self.number > max(FREE_REMOVALS, int(self.of * FREE_SHARE))


def who_left(selection: Selection, owned: OwnedTopics | None, *, all_of_them: bool = False) -> Left:
    """Returns the topics that left. With ``all_of_them`` these are all topics, since the object itself is being
    deleted."""
    spec = selection.spec
    if spec.count is not None:
        until = (owned.number or 0) if owned is not None else 0
        begin = 0 if all_of_them else spec.count.number

        def numbered(name: str) -> bool:
            place = selection.index(name)
            return place is not None and begin <= place < until

        return Left(max(0, until - begin), until, numbered)
    recorded = digests_of(owned)
    kept = frozenset() if all_of_them else recorded & {digest(name) for name in selection.names}
    gone = recorded - kept
    return Left(len(gone), len(recorded), lambda name: bool(gone) and digest(name) in gone)


# ---------------------------------------------------------------------------------------------------- others' topics


@dataclass(frozen=True, order=True)
class Duplicate:
    """Another set of the same namespace. The older one keeps a topic that both declare."""

    created: str
    uid: str
    text: str
    """namespace/name."""


@dataclass(frozen=True)
class Rivals:
    """Other sets of the same namespace, which may manage a topic that this one selects too."""

    older: Sequence[tuple[Duplicate, Selection]] = ()
    younger: Sequence[tuple[Duplicate, Selection]] = ()

    def of(self, name: str, *, exists: bool) -> list[Duplicate]:
        """Returns the sets that select a topic, the older ones first. A set by pattern declares no topics: before a
        topic exists, it does not prevent another object from creating it."""
        sets = (*self.older, *self.younger)
        return [each for each, selection in sets if (exists or not selection.by_pattern) and name in selection]


def rivals_of(own: Duplicate, sets: Iterable[tuple[Duplicate, Selection]]) -> Rivals:
    """Returns the other sets, split by whether they are older."""
    ordered = sorted(sets, key=lambda each: each[0])
    return Rivals([each for each in ordered if each[0] < own], [each for each in ordered if not each[0] < own])


def contested(names: Iterable[str], topics: Collection[str], rivals: Rivals) -> list[str]:
    """Returns the existing topics whose record decides who manages them."""
    return [name for name in names if name not in topics and rivals.of(name, exists=True)]


def taken_by(
    names: Iterable[str],
    topics: Mapping[str, str],
    rivals: Rivals,
    *,
    own: str | None = None,
    recorded: Mapping[str, str | None] = MappingProxyType({}),
) -> Iterator[tuple[str, str]]:
    """Yields the names that other objects manage, with the object. The record decides, then the age.

    ``topics`` are the PulsarTopics of the namespace by name. ``own`` is namespace/name of this set. ``recorded`` is
    namespace/name of the set that the record of an existing topic names ("" if it names none, None if unknown).
    """
    older = {duplicate.text for duplicate, _ in rivals.older}
    for name in names:
        if name in topics:
            yield name, f"PulsarTopic {topics[name]}"
            continue
        others = [each.text for each in rivals.of(name, exists=name in recorded)]
        named = recorded.get(name, "")
        if not others or named == own:
            continue
        if named is None:
            yield name, f"It is not known whether this set or PulsarTopicSet {others[0]}"
        elif named in others:
            yield name, f"PulsarTopicSet {named}, which the record in Pulsar names,"
        elif others[0] in older:
            yield name, f"PulsarTopicSet {others[0]}, which is older,"


def some(names: Sequence[str], total: int | None = None) -> str:
    """Returns a few names for a message: orders-0, orders-1, orders-2 and 97 more."""
    total = len(names) if total is None else total
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {total - SHOWN} more" if total > SHOWN else shown
