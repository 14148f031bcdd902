"""Sets up the metadata of a cluster: observes both stores and the record, decides, and writes what is missing. It may
be killed at any step.

Called by the cluster controller in every pass. Correct metadata is not written again: a finished cluster costs one read
of the record, two of the local store and two of the configuration store.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmation
from pulsar_operator.balance.model.ranges import even_boundaries
from pulsar_operator.controllers.core.stores import Store
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_manifest, record_name, write_record
from pulsar_operator.controllers.dataplane.registration.name_claims import claimant_there
from pulsar_operator.domain.dataplane.registration.metadata import (
    INSTANCE_ID_PATH,
    LEDGERS_PATH,
    MANAGED_LEDGERS_PATH,
    MARKER_PATH,
    DamagedRecordError,
    IdentityFacts,
    Marker,
    Record,
    RecordState,
    Refusal,
    Write,
    decide_identity,
    local_nodes,
    parse_marker,
    parse_record,
    remnants_of,
)
from pulsar_operator.domain.dataplane.registration.registration import (
    SYSTEM_BUNDLES,
    ClusterUrls,
    RegistrationFacts,
    Stored,
    claim_path,
    paths_to_read,
    plan_registration,
)
from pulsar_operator.domain.render import Quorum
from pulsar_operator.ports import (
    CONFIG_MAPS,
    ConflictError,
    Deps,
    Json,
    NotFoundError,
    PortError,
    ZooKeeperSession,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_CHOSEN = "(new)"
"""Stands for the id while nothing is written, so that pending actions read the same in every pass."""
ATTEMPTS = 3
"""Attempts on a store if another writer is faster; after that the next pass continues."""


@dataclass(frozen=True)
class BootstrapRequest:
    """What must be ensured."""

    cluster_name: str
    """Name inside Pulsar."""
    object_name: str
    """metadata.name of the PulsarCluster; the record is ConfigMap <object_name>-instance-id."""
    namespace: str
    """Kubernetes namespace of the PulsarCluster."""
    local_store: Store
    configuration_store: Store | None
    """None while it is not ready: then only the local store is set up."""
    urls: ClusterUrls
    bookies_exist: bool
    """Whether any PersistentVolumeClaim or pod of the cluster's bookies exists; only needed until the local store is
    initialized."""
    now: datetime
    confirmations: Sequence[ClusterConfirmation] = ()
    """Confirmations of the specification."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the record."""
    versions: frozenset[str] = frozenset()
    """Pulsar versions for a new record; see domain/dataplane/registration/metadata.py."""
    quorum: Quorum | None = None
    """Quorums that brokers will have, which must be recorded first; None if none are recorded."""
    known_quorum: Quorum | None = None
    """The recorded quorums when these were decided: if the record has changed since, it stays."""
    act: bool = True
    """If False (paused, dry run), nothing is written and pending writes are listed."""

    @property
    def owner(self) -> str:
        """The PulsarCluster, as written into the stores."""
        return f"{self.namespace}/{self.object_name}"

    @property
    def record_name(self) -> str:
        """Name of the ConfigMap."""
        return record_name(self.object_name)


@dataclass(frozen=True)
class BootstrapResult:
    """The state of the metadata; what could not be read is in the message."""

    ok: bool
    """Both stores hold what the cluster needs."""
    reason: Reason
    message: str
    instance_id: str | None = None
    """INSTANCEID the cluster has or will get; None when it could not be determined."""
    quorum: Quorum | None = None
    """The recorded quorums."""
    local_ready: bool = False
    """The local store is initialized and belongs to this cluster: bookies may start."""
    registered: bool = False
    """The cluster is registered in the configuration store: brokers may start."""
    actions: Sequence[str] = ()
    """What was done, as messages."""
    pending: Sequence[str] = ()
    """What would be done; only if the request does not act."""
    notes: Sequence[str] = ()
    """What was left alone on purpose, for a person to know."""


async def ensure_cluster_metadata(deps: Deps, request: BootstrapRequest) -> BootstrapResult:
    """Sets up the metadata of a cluster, or reports why it is not changed.

    An unavailable ZooKeeper is a result (MetadataUnreachable), not an error; errors of the Kubernetes API rise.
    """
    return await _Bootstrap(deps, request).run()


class _StopError(Exception):
    """Ends the pass with a reason for the condition."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass
class _Bootstrap:
    """One pass."""

    deps: Deps
    request: BootstrapRequest
    actions: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    config_map: Json | None = None
    record: Record | None = None
    new_id: str | None = None
    local_ready: bool = False
    registered: bool = False

    async def run(self) -> BootstrapResult:
        """Sets up the local store first: without its id the cluster's name cannot be claimed."""
        request = self.request
        try:
            await self._undisturbed(self._local, request.local_store)
            if request.configuration_store is None:
                raise _StopError(Reason.WAITING_FOR_CONFIGURATION_STORE, "The configuration store is not ready yet")
            await self._undisturbed(self._configuration, request.configuration_store)
        except _StopError as stop:
            return self._result(False, stop.reason, str(stop))
        if self.pending:
            text = f"{len(self.pending)} metadata actions are pending. The first is: {self.pending[0]}"
            return self._result(False, Reason.PENDING, text)
        text = (
            f"The metadata of cluster {request.cluster_name} are initialized with instance id "
            f"{self._known_record().instance_id}"
        )
        return self._result(True, Reason.METADATA_INITIALIZED, text)

    async def _undisturbed(self, step: Callable[[Store], Awaitable[None]], store: Store) -> None:
        """Runs a step from its observation on; again if another writer changed something in between."""
        for _ in range(ATTEMPTS):
            try:
                await step(store)
            except (ConflictError, NotFoundError) as error:
                log.debug("metadata in %s changed during set-up, reading it again: %s", store, error)
                disturbed = error
            else:
                return
        raise _StopError(Reason.PENDING, f"Another writer keeps changing the metadata in {store}: {disturbed}")

    # ---------------------------------------------------------------------------------------------- local store

    async def _local(self, store: Store) -> None:
        await self._read_record()
        session = await self._open(store)
        facts = await self._identity_facts(store, session)
        identity = decide_identity(facts)
        if isinstance(identity, Refusal):
            raise _StopError(identity.reason, identity.message)
        record, why = self._with_quorum(identity.record)
        if identity.why is not None:
            record = replace(record, versions=self.request.versions)
        if identity.why is not None or why is not None:
            await self._write_record(record, identity.why or why or "")
        self.record = record
        if not identity.settled:
            await self._initialize(store, session, facts, record)
        self.local_ready = self.record.state is RecordState.INITIALIZED

    def _with_quorum(self, record: Record) -> tuple[Record, str | None]:
        """Returns the record with the quorums that brokers will have, and why it must be written for them."""
        desired, found = self.request.quorum, record.quorum
        if desired is None or found == desired or found not in (None, self.request.known_quorum):
            return record, None
        instead = f" instead of {found}" if found is not None else ""
        return replace(record, quorum=desired), f"new ledgers get ensemble size and quorums {desired}{instead}"

    async def _open(self, store: Store) -> ZooKeeperSession:
        return await _asked(self.deps.zookeeper.session(store.servers, store.chroot))

    async def _identity_facts(self, store: Store, session: ZooKeeperSession) -> IdentityFacts:
        """Reads the facts that the decision needs: two reads, once the cluster is set up. A record can be a copy of
        another cluster's, so the marker is read then too."""
        stored_id = await _asked(session.get(INSTANCE_ID_PATH))
        store_id = None if stored_id is None else stored_id.data.decode("utf-8", "replace").strip()
        marker = await _marker(store, session)
        remnants: list[str] = []
        record = self.record
        settled = record is not None and record.state is RecordState.INITIALIZED
        if not settled and store_id is None:
            ledgers = await _asked(session.children(LEDGERS_PATH))
            remnants = remnants_of(ledgers, await _asked(session.children(MANAGED_LEDGERS_PATH)))
            if record is None and self.new_id is None:
                self.new_id = self.deps.entropy.uuid() if self.request.act else NOT_CHOSEN
        return IdentityFacts(
            cluster_name=self.request.cluster_name,
            owner=self.request.owner,
            record_name=f"{self.request.namespace}/{self.request.record_name}",
            now=self.request.now,
            bookies_exist=self.request.bookies_exist,
            record=record,
            store=str(store),
            store_id=store_id,
            marker=marker,
            remnants=remnants,
            new_id=self.new_id or "",
            confirmations=self.request.confirmations,
        )

    async def _initialize(self, store: Store, session: ZooKeeperSession, facts: IdentityFacts, record: Record) -> None:
        """Writes what is missing; the id and the marker are compared with the facts of the decision."""
        decided = {INSTANCE_ID_PATH: facts.store_id, MARKER_PATH: facts.marker}
        for write in local_nodes(record, self.request.owner):
            found = decided[write.path] if write.path in decided else await _asked(session.get(write.path))
            if found is None:
                await self._write(session, store, write)
        await self._write_record(replace(record, state=RecordState.INITIALIZED), f"{store} is initialized")

    # -------------------------------------------------------------------------------------- configuration store

    async def _configuration(self, store: Store) -> None:
        record = self._known_record()
        self.notes.clear()
        session = await self._open(store)
        nodes: dict[str, Stored | None] = {}
        for path in paths_to_read(record.cluster_name, registered=record.registered):
            node = await _asked(session.get(path))
            nodes[path] = None if node is None else Stored(node.data, node.version)
        claim = nodes[claim_path(record.cluster_name)]
        data = claim.data if claim is not None else None
        there = await claimant_there(self.deps, data, record.instance_id, self.request.owner)
        plan = plan_registration(
            RegistrationFacts(
                cluster_name=record.cluster_name,
                owner=self.request.owner,
                instance_id=record.instance_id,
                store=str(store),
                urls=self.request.urls,
                registered=record.registered,
                adopted_own_store=record.adopted and store == self.request.local_store,
                nodes=nodes,
                now=self.request.now,
                claimant_there=there,
                brokers_ran=not record.registered and await self._brokers_ran(),
                confirmations=self.request.confirmations,
            ),
            boundaries=even_boundaries(SYSTEM_BUNDLES),
        )
        if isinstance(plan, Refusal):
            raise _StopError(plan.reason, plan.message)
        self.notes += plan.notes
        for write in plan.writes:
            await self._write(session, store, write)
        if not record.registered:
            await self._write_record(replace(record, registered=True), f"the cluster is registered in {store}")
        self.registered = self._known_record().registered

    async def _brokers_ran(self) -> bool:
        """Whether the local store has topics."""
        session = await self._open(self.request.local_store)
        return bool(await _asked(session.children(MANAGED_LEDGERS_PATH)))

    # -------------------------------------------------------------------------------------------------- writing

    async def _write(self, session: ZooKeeperSession, store: Store, write: Write) -> None:
        verb = "Create" if write.version is None else "Update"
        text = f"{write.path} in {store}, because {write.why}"
        if not self.request.act:
            self.pending.append(f"{verb} {text}")
            return
        if write.version is None:
            await _asked(session.create(write.path, write.data))
        else:
            await _asked(session.set(write.path, write.data, version=write.version))
        self._did(f"{verb}d {text}")

    async def _read_record(self) -> None:
        request = self.request
        self.config_map = await self.deps.kube.get(CONFIG_MAPS, request.namespace, request.record_name)
        self.record = None
        if self.config_map is not None:
            try:
                self.record = parse_record(self.config_map.get("data") or {})
            except DamagedRecordError as error:
                raise _StopError(
                    Reason.METADATA_CONFLICT,
                    f"ConfigMap {request.namespace}/{request.record_name} is damaged ({error}). Restore the "
                    "ConfigMap, or delete it. The operator then writes it again from the metadata store",
                ) from error

    async def _write_record(self, record: Record, why: str) -> None:
        request = self.request
        text = f"ConfigMap {request.record_name} with instance id {record.instance_id}, because {why}"
        if not request.act:
            self.pending.append(f"Write {text}")
            return
        manifest = record_manifest(request.object_name, request.namespace, request.labels, record)
        self.config_map = await write_record(self.deps, manifest, self.config_map)
        self.record = record
        self._did(f"Wrote {text}")

    def _did(self, text: str) -> None:
        self.actions.append(text)
        log.debug(text, extra={"object": self.request.owner})

    def _known_record(self) -> Record:
        if self.record is None:
            raise RuntimeError("the record is used before the local store was read")
        return self.record

    def _result(self, ok: bool, reason: Reason, message: str) -> BootstrapResult:
        return BootstrapResult(
            ok=ok,
            reason=reason,
            message=message,
            instance_id=None if self.record is None or self.config_map is None else self.record.instance_id,
            quorum=None if self.record is None or self.config_map is None else self.record.quorum,
            local_ready=self.local_ready,
            registered=self.registered,
            actions=tuple(self.actions),
            pending=tuple(self.pending),
            notes=tuple(self.notes),
        )


async def _asked(call: Awaitable[T]) -> T:
    """Returns the answer of ZooKeeper; without one the pass ends."""
    try:
        return await call
    except (ConflictError, NotFoundError):
        raise
    except PortError as error:
        raise _StopError(Reason.METADATA_UNREACHABLE, str(error)) from error


async def _marker(store: Store, session: ZooKeeperSession) -> Marker | None:
    node = await _asked(session.get(MARKER_PATH))
    if node is None:
        return None
    try:
        return parse_marker(node.data)
    except ValueError as error:
        raise _StopError(
            Reason.METADATA_CONFLICT,
            f"{MARKER_PATH} in {store} is not readable ({error}). Delete the node if no other cluster uses the store",
        ) from error
