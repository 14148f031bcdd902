"""Whose metadata store this is: the rules that keep BookKeeper's INSTANCEID and the data behind it from being lost.

BookKeeper knows a cluster by the text in ``/ledgers/INSTANCEID``: bookies keep it in the cookie on their volumes. A
store that is formatted again gets another one, and all ledgers are lost to it. So the id is kept twice: in the store
and in a record in Kubernetes that outlives every other object (a ConfigMap without owner reference). Order of a first
start, where a kill after any step leads to the same end:

    record {state: Initializing, id} -> marker and BookKeeper's nodes -> INSTANCEID, last -> record {state: Initialized}

After that the store is only read. Bookies start after the last step, so claims or pods of bookies prove that a store
without INSTANCEID is a loss and no first start, whatever the record says.

If a store has an id and there is no record, the record is restored if the store's marker names this cluster. One
without a marker was set up by another tool: it is adopted only by confirmation AdoptMetadata with that id, and the
record is written first. Called by controllers/dataplane/registration/bootstrap.py; the configuration store's part is in
registration.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmation, ClusterConfirmationAction
from pulsar_operator.domain.bookkeeper.bookie_ids import Counts, copy_text, parse_copy
from pulsar_operator.domain.consent import Question, answered, how_to_answer
from pulsar_operator.domain.dataplane.rollout.versions import is_version
from pulsar_operator.domain.render import Quorum

INSTANCE_ID_PATH = "/ledgers/INSTANCEID"
LEDGERS_PATH = "/ledgers"
MANAGED_LEDGERS_PATH = "/managed-ledgers"
MARKER_PATH = "/pulsar-operator/cluster"
"""Node in the local store with the cluster object that uses it. Neither Pulsar nor BookKeeper reads below
/pulsar-operator."""
FORMATTED_CHILDREN = frozenset({"available"})
"""Children of /ledgers that formatting creates; others come from running bookies and brokers."""
MAX_ID_LENGTH = 128
QUORUM_KEY = "ensemble"
"""Key of the record for ensembleSize/writeQuorum/ackQuorum, as in 3/3/2."""
INCARNATIONS_KEY = "bookieIncarnations"
"""Key of the record for the copy of the bookies' incarnations."""


class RecordState(StrEnum):
    """Progress of the local store, in the record in Kubernetes."""

    INITIALIZING = "Initializing"
    INITIALIZED = "Initialized"


@dataclass(frozen=True)
class Record:
    """The content of ConfigMap ``<cluster>-instance-id``."""

    instance_id: str
    cluster_name: str
    state: RecordState
    adopted: bool = False
    """Whether the id was found in the store instead of being generated."""
    registered: bool = False
    """Whether registration in the configuration store was completed once."""
    versions: frozenset[str] = frozenset()
    """Pulsar versions that may have written the volumes last; one if all pods run it, empty if not known."""
    quorum: Quorum | None = None
    """Quorums of new ledgers; None in a record of an operator that did not store them. See quorum_record.py."""
    incarnations: Counts = field(default_factory=dict, hash=False)
    """Copy of the bookies' incarnations; empty in a record of an operator that did not store it."""

    def to_data(self) -> dict[str, str]:
        """Returns ``data`` of the ConfigMap."""
        quorum = {} if self.quorum is None else {QUORUM_KEY: str(self.quorum)}
        versions = {"versions": versions_text(self.versions)} if self.versions else {}
        incarnations = {INCARNATIONS_KEY: copy_text(self.incarnations)} if self.incarnations else {}
        return {
            "instanceId": self.instance_id,
            "clusterName": self.cluster_name,
            "state": self.state.value,
            "adopted": str(self.adopted).lower(),
            "registered": str(self.registered).lower(),
            **quorum,
            **versions,
            **incarnations,
        }


def versions_text(versions: Iterable[str]) -> str:
    """Returns the versions as text for the record."""
    return ",".join(sorted(versions))


class DamagedRecordError(ValueError):
    """The ConfigMap exists and its content is invalid."""


def parse_record(data: Mapping[str, str]) -> Record:
    """Parses a ConfigMap's ``data``. Raises DamagedRecordError, since guessing here could format a store."""
    instance_id = data.get("instanceId", "").strip()
    if not valid_instance_id(instance_id):
        raise DamagedRecordError(f"data.instanceId is {instance_id[:80]!r}, which is not valid")
    state = data.get("state", "")
    if state not in set(RecordState):
        raise DamagedRecordError(f"data.state is {state[:80]!r}, not Initializing or Initialized")
    flags = {}
    for key in ("adopted", "registered"):
        value = data.get(key, "false")
        if value not in ("true", "false"):
            raise DamagedRecordError(f"data.{key} is {value[:80]!r}, not true or false")
        flags[key] = value == "true"
    # Records of earlier operators have none. What is no version says nothing, as if it were not there.
    found = (each.strip() for each in data.get("versions", "").split(","))
    versions = frozenset(each for each in found if is_version(each))
    try:
        quorum = recorded_quorum(data)
    except ValueError as error:
        raise DamagedRecordError(f"data.{QUORUM_KEY}: {error}") from error
    try:
        incarnations = parse_copy(data.get(INCARNATIONS_KEY, ""))
    except ValueError as error:
        raise DamagedRecordError(f"data.{INCARNATIONS_KEY}: {error}") from error
    return Record(
        instance_id,
        data.get("clusterName", ""),
        RecordState(state),
        versions=versions,
        quorum=quorum,
        incarnations=incarnations,
        **flags,
    )


def recorded_quorum(data: Mapping[str, str]) -> Quorum | None:
    """Parses the quorums in a ConfigMap's ``data``; None if it has none. Raises ValueError if they are invalid."""
    return Quorum.parse(data[QUORUM_KEY]) if QUORUM_KEY in data else None


def valid_instance_id(text: str) -> bool:
    """Whether the text can be an INSTANCEID: BookKeeper accepts any text, tools write a UUID; only blanks are
    excluded."""
    return 0 < len(text) <= MAX_ID_LENGTH and text.isprintable() and not any(c.isspace() for c in text)


@dataclass(frozen=True)
class Marker:
    """Content of the marker node in the local store, and of the claim in the configuration store."""

    instance_id: str
    cluster_name: str
    owner: str
    """namespace/name of the PulsarCluster."""

    def to_bytes(self) -> bytes:
        """Returns the stored JSON."""
        fields = {"clusterName": self.cluster_name, "instanceId": self.instance_id, "owner": self.owner}
        return json.dumps(fields).encode()


def parse_marker(data: bytes) -> Marker:
    """Parses a marker. Raises ValueError if it is invalid."""
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(fields, dict) or not all(
        isinstance(fields.get(k), str) for k in ("instanceId", "clusterName", "owner")
    ):
        raise ValueError("it is not an object with instanceId, clusterName and owner")
    return Marker(fields["instanceId"], fields["clusterName"], fields["owner"])


@dataclass(frozen=True)
class Refusal:
    """A decision to write nothing until a person acts."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class IdentityFacts:
    """Facts that decide whose store it is."""

    cluster_name: str
    owner: str
    record_name: str
    """namespace/name of the ConfigMap, for messages."""
    now: datetime
    """Time at which confirmations must be valid."""
    bookies_exist: bool
    """Whether any claim or pod of the cluster's bookies exists: then there is, or was, data."""
    record: Record | None
    store: str
    """Servers and chroot, for messages."""
    store_id: str | None
    """Text of INSTANCEID; None if the node does not exist."""
    marker: Marker | None = None
    remnants: Sequence[str] = ()
    """Paths that only a running cluster creates; read if there is no INSTANCEID."""
    new_id: str = ""
    """The id to use if there is none yet."""
    confirmations: Sequence[ClusterConfirmation] = ()
    """Confirmations of the specification."""


@dataclass(frozen=True)
class Identity:
    """The INSTANCEID to use."""

    record: Record
    why: str | None
    """Why the record must be written first; None if the record in Kubernetes is current."""

    @property
    def settled(self) -> bool:
        """Whether the local store needs no further write."""
        return self.record.state is RecordState.INITIALIZED


def decide_identity(facts: IdentityFacts) -> Identity | Refusal:
    """Decides which INSTANCEID the cluster has, or why the store must not be changed."""
    record, found = facts.record, facts.store_id
    if found is not None and not valid_instance_id(found):
        return _conflict(
            f"{INSTANCE_ID_PATH} in {facts.store} contains {found[:80]!r}, which is not an instance id. Nothing "
            "is written until the node is restored. Restore the node from a backup"
        )
    if record is None:
        return _without_record(facts)
    if record.cluster_name != facts.cluster_name:
        return _conflict(
            f"ConfigMap {facts.record_name} belongs to cluster {record.cluster_name!r}, not to "
            f"{facts.cluster_name!r}. Rename this object, or delete the ConfigMap if that cluster no longer exists"
        )
    if found == record.instance_id:
        return _of_other_owner(facts, found) or Identity(record, None)
    if record.state is RecordState.INITIALIZED or record.adopted:
        return _lost(facts, record)
    if found is not None:
        return _conflict(
            f"Another writer initialized {facts.store} with instance id {found} while this cluster was being set "
            f"up with {record.instance_id}. Use another store or chroot. To adopt the existing metadata instead, "
            f"delete ConfigMap {facts.record_name}"
        )
    if facts.remnants:
        return _headless(facts)
    if (refusal := _of_other_owner(facts, record.instance_id)) is not None:
        return refusal
    if facts.bookies_exist:
        return Refusal(
            Reason.METADATA_LOST,
            f"{facts.store} has no {INSTANCE_ID_PATH}, and according to ConfigMap {facts.record_name} the first "
            f"start of this cluster is not finished (state: {record.state.value}). But PersistentVolumeClaims or "
            "pods of its bookies exist, which are created after the first start. The ConfigMap is therefore "
            "outdated, and initializing the store now would make the data of the bookies unreadable. Nothing is "
            f"written. {_RESTORE}",
        )
    return Identity(record, None)


_RESTORE = (
    "Restore the metadata store from its volumes or a backup. Only if all data may be lost, delete the "
    "PersistentVolumeClaims and pods of the bookies"
)


def _without_record(facts: IdentityFacts) -> Identity | Refusal:
    found, marker = facts.store_id, facts.marker
    refusal = _of_other_owner(facts, None)
    if refusal is not None:
        return refusal
    if found is not None:
        if marker is None and (refusal := _not_proved(facts, found)) is not None:
            return refusal
        record = Record(found, facts.cluster_name, RecordState.INITIALIZING, adopted=True)
        return Identity(record, f"{facts.store} is already initialized with instance id {found} and is adopted")
    if facts.remnants:
        return _headless(facts)
    if facts.bookies_exist:
        return Refusal(
            Reason.METADATA_LOST,
            f"{facts.store} is empty and ConfigMap {facts.record_name} does not exist, but PersistentVolumeClaims "
            "or pods of the bookies of this cluster exist. A new instance id would make their data unreadable. "
            f"Nothing is written. {_RESTORE}",
        )
    # The marker is written before INSTANCEID: a set-up that lost its record goes on with the same id.
    new_id = marker.instance_id if marker is not None else facts.new_id
    record = Record(new_id, facts.cluster_name, RecordState.INITIALIZING)
    return Identity(record, f"instance id {new_id} must be recorded before the empty {facts.store} is initialized")


def _not_proved(facts: IdentityFacts, found: str) -> Refusal | None:
    """Returns the refusal if nothing proves that the store belongs to this cluster, and no confirmation adopts it."""
    question = Question(ClusterConfirmationAction.ADOPT_METADATA, found)
    if answered(question, facts.confirmations, (), facts.now) is not None:
        return None
    if facts.bookies_exist:
        why = (
            "PersistentVolumeClaims or pods of the bookies of this cluster exist, and bookies refuse to start with "
            "the instance id of another store"
        )
    else:
        why = "The store may belong to another cluster, and two clusters must not write into the same store"
    return _conflict(
        f"{facts.store} is initialized with instance id {found}, and neither ConfigMap {facts.record_name} nor "
        f"the node {MARKER_PATH} shows that the store belongs to this cluster. {why}. Nothing is written. Correct "
        "the address or the chroot of the store, or restore the ConfigMap. To adopt the store for this cluster, "
        f"{how_to_answer(question, facts.confirmations, facts.now)}"
    )


def _of_other_owner(facts: IdentityFacts, expected_id: str | None) -> Refusal | None:
    """Returns the refusal if the marker names another cluster object, or the same one with another id."""
    marker = facts.marker
    if marker is None:
        return None
    same = (marker.cluster_name, marker.owner) == (facts.cluster_name, facts.owner)
    expected = expected_id if expected_id is not None else (facts.store_id or marker.instance_id)
    if same and marker.instance_id == expected:
        return None
    return _conflict(
        f"{facts.store} is used by cluster {marker.cluster_name!r} of PulsarCluster {marker.owner} with instance "
        f"id {marker.instance_id}. Give this cluster another store or chroot. If PulsarCluster {marker.owner} no "
        f"longer exists, delete the node {MARKER_PATH} in the store"
    )


def _lost(facts: IdentityFacts, record: Record) -> Refusal:
    if facts.store_id is None:
        what = f"{facts.store} has no {INSTANCE_ID_PATH}, so the metadata of this cluster is lost"
    else:
        what = f"{facts.store} has instance id {facts.store_id}, so it has the metadata of another cluster"
    return Refusal(
        Reason.METADATA_LOST,
        f"{what}. This cluster was initialized with instance id {record.instance_id}. Nothing is written. Restore "
        "the metadata store from its volumes or a backup. Only if all data may be lost, delete ConfigMap "
        f"{facts.record_name} and the PersistentVolumeClaims of the bookies",
    )


def _headless(facts: IdentityFacts) -> Refusal:
    return Refusal(
        Reason.METADATA_LOST,
        f"{facts.store} has {', '.join(facts.remnants)} but no {INSTANCE_ID_PATH}, so part of its metadata is "
        "lost. Nothing is written. Restore the store from a backup, or use an empty store",
    )


def _conflict(message: str) -> Refusal:
    return Refusal(Reason.METADATA_CONFLICT, message)


def remnants_of(ledgers: Sequence[str] | None, managed_ledgers: Sequence[str] | None) -> list[str]:
    """Returns the paths that only a running cluster creates, from the children of /ledgers and of /managed-ledgers."""
    found = [f"{LEDGERS_PATH}/{name}" for name in sorted(set(ledgers or ()) - FORMATTED_CHILDREN)]
    found += [f"{MANAGED_LEDGERS_PATH}/{name}" for name in sorted(managed_ledgers or ())]
    return [path for path in found if path != INSTANCE_ID_PATH][:5]


@dataclass(frozen=True)
class Write:
    """One change of a node: it is created if ``version`` is None, else replaced at that version."""

    path: str
    data: bytes
    version: int | None
    why: str


def local_nodes(record: Record, owner: str) -> list[Write]:
    """Returns the nodes that the local store needs, in order; INSTANCEID is last, because bookies start as soon as it
    exists. They are those that ``bin/pulsar initialize-cluster-metadata`` writes (classes PulsarRegistrationManager and
    PulsarClusterMetadataSetup), except /stream and /pulsar/functions, which only Pulsar Functions need.
    """
    marker = Marker(record.instance_id, record.cluster_name, owner)
    return [
        Write(MARKER_PATH, marker.to_bytes(), None, "the node marks the store as used by this cluster"),
        Write("/ledgers/available/readonly", b"", None, "BookKeeper registers bookies below the node"),
        Write("/bookies", b"{}", None, "brokers read the racks of bookies from the node"),
        Write(INSTANCE_ID_PATH, record.instance_id.encode(), None, "bookies refuse to start without the node"),
    ]
