"""What the controllers need from the outside world, as Protocols. Adapters implement them; tests use fakes.

Rules for every implementation: no call blocks the event loop, every call has a deadline, errors are the ones declared
here, and what comes back is plain data. The same contract tests run against each fake and the real thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pulsar_operator.api.constants import GROUP, PLURALS, VERSION, Kind
from pulsar_operator.balance.sizing.result import SizingOutlook, SizingResult
from pulsar_operator.domain.dataplane.counters import Sample
from pulsar_operator.domain.dataplane.geo_replication import ReplicationLooks
from pulsar_operator.domain.dataplane.reach import Reach
from pulsar_operator.domain.dataplane.store_sessions import StoreReads
from pulsar_operator.domain.dataplane.versions import Jumps
from pulsar_operator.domain.dataplane.zookeeper_roll import ServerState

Json = dict[str, Any]


# --------------------------------------------------------------------------------------------------------- errors


class PortError(Exception):
    """Base of all errors a port raises. ``retry_after`` is in seconds, when the other side named one."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFoundError(PortError):
    """The thing does not exist (HTTP 404, NoNodeError)."""


class ConflictError(PortError):
    """The thing is not what the caller believed (HTTP 409, UID or version mismatch, node exists)."""


class RefusedError(PortError):
    """The other side understood and said no (HTTP 400, 403, 405, 412, 422); retrying the same call is useless."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ForbiddenError(RefusedError):
    """The account of this process has no right to the call at the Kubernetes API (HTTP 403 of an authorizer, such as
    RBAC). It may have it later, and asks again.

    What an admission plugin, a webhook or a quota denies is a RefusedError, with its own words: there the right is
    given and the object is not wanted.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, status=403)


class UnavailableError(PortError):
    """No usable answer: connection, deadline, HTTP 408, 429, 5xx, session expired. The call may have taken effect.

    ``status`` is that of an HTTP answer, 0 where there was none.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(message, retry_after=retry_after)
        self.status = status


class DeadlineError(UnavailableError):
    """Nothing came within the deadline of an admin call: the other side hangs, or is not there. It may have taken
    effect."""


class UnownedError(UnavailableError):
    """No broker has the topic just now, or none may have it: Pulsar answers HTTP 412 and did nothing.

    So it is while the topic's bundle is between two brokers, which passes, and as long as isolation policies leave no
    broker for its namespace (class PulsarWebResource, validateTopicOwnershipAsync; seen on 4.0.8).
    """


# ------------------------------------------------------------------------------------------------------ Kubernetes


@dataclass(frozen=True, order=True)
class ResourceType:
    """A Kubernetes resource type; always complete, nothing is discovered."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """apiVersion as written in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version


STATEFUL_SETS = ResourceType("apps", "v1", "statefulsets", "StatefulSet")
PODS = ResourceType("", "v1", "pods", "Pod")
SERVICES = ResourceType("", "v1", "services", "Service")
CONFIG_MAPS = ResourceType("", "v1", "configmaps", "ConfigMap")
SECRETS = ResourceType("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = ResourceType("", "v1", "serviceaccounts", "ServiceAccount")
PVCS = ResourceType("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PDBS = ResourceType("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NAMESPACES = ResourceType("", "v1", "namespaces", "Namespace")
"""Of Kubernetes; they are in none themselves, so they are asked for with an empty namespace."""
NODES = ResourceType("", "v1", "nodes", "Node")
"""Of Kubernetes, in no namespace. Read only for racks by a label that pods lack; needs a right of its own."""

CUSTOM: dict[Kind, ResourceType] = {kind: ResourceType(GROUP, VERSION, PLURALS[kind], kind.value) for kind in Kind}
"""Resource types of this API group."""


@dataclass(frozen=True, order=True)
class Key:
    """Identifies one custom resource; the unit of the work queue."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.namespace}/{self.name}"


class KubePort(Protocol):
    """The Kubernetes API server, raw JSON in and out."""

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """The object, or None where there is none. Raises UnavailableError, RefusedError."""

    async def list(self, kind: ResourceType, namespace: str | None, *, selector: str | None = None) -> list[Json]:
        """All objects of a namespace (None = every namespace the operator watches), complete or an error.

        Items carry apiVersion and kind. Raises UnavailableError, RefusedError; never returns a truncated list.
        """

    async def apply(self, manifest: Json, *, manager: str | None = None) -> Json:
        """Server-side apply of the whole manifest, force. Returns the stored object.

        With metadata.uid in the manifest the call only ever changes that very object (ConflictError otherwise).
        Raises ConflictError, RefusedError, NotFoundError (namespace gone), UnavailableError.
        """

    async def apply_status(self, manifest: Json) -> Json:
        """Server-side apply on the status subresource; metadata.uid is required. Returns the stored object.

        metadata.resourceVersion, where it is given, spares a read; an old one does no harm: what others changed since
        is none of the status. Raises NotFoundError when the object is gone, ConflictError when it is another one of the
        same name.
        """

    async def create(self, manifest: Json) -> Json:
        """Create; ConflictError when an object of that name exists."""

    async def delete(self, kind: ResourceType, namespace: str, name: str, *, uid: str) -> None:
        """Delete the object with this UID; returns when it is gone already. Raises ConflictError on another UID."""

    async def evict(self, namespace: str, name: str, *, uid: str) -> str | None:
        """Have the pod with this UID deleted, if its PodDisruptionBudget allows that now.

        Returns None when it was accepted or the pod is gone already, and the budget's own words when it says no: then
        nothing happened, and the same call may be accepted later. A pod that is ending, has ended or has not started
        goes whatever a budget says (source: eviction.go of the API server, canIgnorePDB).

        Raises ConflictError on another UID, RefusedError, and UnavailableError, also where a pod has several budgets.
        Observed on Kubernetes 1.35: the UID is compared after the budget. So a budget may refuse another pod of the
        name in words, or be counted down for it until its controller looks again; and for one that has not started
        the server tries for 10 s before it says so.
        """

    async def remove_entries(self, obj: Json, pointers: Sequence[str]) -> None:
        """Remove entries by JSON pointer, in order, whoever owns them; guarded by the object's resourceVersion.

        Raises ConflictError when the object changed since it was read or a pointer leads nowhere.
        """

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """Take one finalizer off, whoever its field manager is, guarded by the object's resourceVersion.

        Returns when the object is gone already. Raises ConflictError when it changed since it was read.
        """

    async def event(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """Record an event of type Normal or Warning on the object; repeats are aggregated. Never raises."""


# ------------------------------------------------------------------------------------------------------- ZooKeeper


@dataclass(frozen=True)
class Node:
    """A znode's content and version."""

    data: bytes
    version: int
    created: int = field(default=0, compare=False)
    """The transaction that created it: a znode that was deleted and made again has another."""


class ZooKeeperSession(Protocol):
    """A connected session; paths are relative to the chroot it was opened with."""

    async def get(self, path: str) -> Node | None:
        """Content and version, or None."""

    async def children(self, path: str) -> list[str] | None:
        """Names of the children, sorted, or None when the node does not exist."""

    async def create(self, path: str, data: bytes) -> None:
        """Create a persistent node and its missing parents (empty). ConflictError when it exists."""

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        """Replace the content of that version. ConflictError on another version, NotFoundError when gone."""

    async def delete(self, path: str, *, version: int) -> None:
        """Delete that version of a node without children. ConflictError on another version or with children."""

    async def watch(self, path: str, on_change: Callable[[], None]) -> int | None:
        """Have ``on_change`` called once: when the node is created, changed or deleted, or the session ends.

        Returns the transaction that wrote the node last, which tells two states of it apart, or None while it does not
        exist. The call comes in the event loop; with an error there is none. A change of children is none of the node.
        """


class ZooKeeperPort(Protocol):
    """Opens and keeps sessions to ZooKeeper ensembles."""

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        """A live session (kept and shared). ``servers`` is host:port,... Creates nothing, not even the chroot.

        Raises UnavailableError when no server answers within the deadline.
        """

    async def server_state(self, server: str) -> ServerState:
        """What one server (host:port) is at the moment, as it says itself: without a session, and without a quorum.

        Raises UnavailableError when it does not answer within 5 s, serves no requests because it is in no quorum, or
        answers anything else; RefusedError for a server that is not host:port.
        """

    async def close(self) -> None:
        """Close all sessions."""


# ---------------------------------------------------------------------------------------------------- Pulsar admin


@dataclass(frozen=True)
class AdminEndpoint:
    """Where the admin REST of one cluster is."""

    cluster: str
    """Name of the cluster inside Pulsar; also the key of per-cluster concurrency limits."""
    url: str
    """Base URL such as http://c-broker.ns.svc.cluster.local:8080."""


class PulsarAdminPort(Protocol):
    """Pulsar's admin REST: one thin verb, so that every rule about Pulsar lives in the policy table and the domain."""

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """Call ``/admin/v2/<path>`` and return the decoded JSON (None for an empty answer).

        ``path`` is a sequence of raw segments; each is percent-encoded, so a hostile name cannot change the path.
        Redirects are followed with the method and body kept; 429, 5xx and connection errors of idempotent calls are
        retried within the deadline (seconds). ``body`` None sends no body, bytes are sent as they are, anything else is
        JSON. With ``text`` the answer is plain text, whatever its content type says: some endpoints of Pulsar do so.
        Raises NotFoundError (404), ConflictError (409), RefusedError (other 4xx, with Pulsar's own words; status 0 =
        not sent), DeadlineError, UnavailableError.
        """


# --------------------------------------------------------------------------------------------------------- bookies


@dataclass(frozen=True)
class DiskInfo:
    """Room in a bookie's ledger directories, all of them together."""

    free: int
    """Bytes."""
    total: int
    """Bytes."""


class BookiePort(Protocol):
    """BookKeeper's own HTTP server: of a bookie, and of an auto-recovery pod.

    ``host`` is a DNS name or an address; the port is 8000. Every call raises UnavailableError when there is no usable
    answer: the process is not there, it failed inside (HTTP 500: it has no bookie, as in an auto-recovery pod, or the
    metadata store is away), or the deadline passed. NotFoundError means that the server has no such endpoint, and
    RefusedError that BookKeeper said no in its own words. Sources: package server.http.service of BookKeeper 4.17.2;
    seen on Pulsar 4.0.8.
    """

    async def readonly(self, host: str) -> bool:
        """Whether the bookie takes no new entries: told to, or because a disk is full."""

    async def set_readonly(self, host: str, readonly: bool) -> None:
        """Make the bookie read-only or writable; nothing happens where it is so already.

        Returns once it is registered so in the metadata store. It is kept in memory alone: a restart undoes it, and so
        may the bookie's disk monitor when a full directory has room again (class BookieStateManager; fixed in 4.17.3).
        Raises RefusedError where its settings forbid it.
        """

    async def disk(self, host: str) -> DiskInfo:
        """Room on the volumes of the bookie's ledgers."""

    async def recover(self, host: str, bookie: str) -> None:
        """Have an auto-recovery pod copy what the bookie of this id has to others, in the background.

        Returns when the request is queued, and nothing is ever reported: a second request waits behind the first one,
        the queue dies with the process, a copy stops at the first ledger that fails, and one that names no bookie is
        accepted too (class RecoveryBookieService). Ledgers that are not closed are fenced. The cookie stays.
        """


# ---------------------------------------------------------------------------------------------------------- sizing


class SizingPort(Protocol):
    """Results of the Spark job that sizes bundles from recorded traffic."""

    async def latest(self, url: str, cluster: str) -> SizingResult | None:
        """The newest result for a cluster (its name inside Pulsar) of the service at ``url``; None when it has none.

        Raises UnavailableError, and RefusedError for an answer that cannot be read.
        """

    async def outlook(self, url: str, cluster: str) -> SizingOutlook | None:
        """The same without what is about bundles, of which there may be very many; it is not even looked at."""


# -------------------------------------------------------------------------------------------------- metrics of pods


@dataclass(frozen=True)
class Scrape:
    """A page of metrics, as far as it was asked for."""

    at: datetime
    samples: Sequence[Sample]


class CountersPort(Protocol):
    """Metrics that other processes serve in Prometheus' text format."""

    async def read(self, url: str, names: frozenset[str]) -> Scrape:
        """Samples of these names at ``url``, at most 15 s old. Raises UnavailableError, also for any HTTP status but
        200, and RefusedError for a page that has none of them or is larger than is read."""


# ------------------------------------------------------------------------------------------------------ everything


class Clock(Protocol):
    """Time, injected."""

    def now(self) -> datetime:
        """Current time, UTC, aware."""


class Entropy(Protocol):
    """Randomness, injected."""

    def uuid(self) -> str:
        """A random UUID (version 4) as text."""

    def token(self, nbytes: int = 24) -> str:
        """A URL-safe random secret."""


class MetricsPort(Protocol):
    """The operator's own metrics."""

    def reconciled(self, kind: str, result: str, seconds: float) -> None:
        """One reconcile ended; result is ok, requeue or error."""

    def queue_depth(self, depth: int) -> None:
        """Keys waiting."""

    def admin_call(self, cluster: str, method: str, status: str, seconds: float) -> None:
        """One admin REST attempt ended."""

    def kube_write(self, verb: str, kind: str) -> None:
        """One write to the API server was made."""

    def event_seen(self, kind: str) -> None:
        """A watch event or bookmark of a kind was seen."""

    def scaling_decided(self, namespace: str, cluster: str, component: str, reason: str) -> None:
        """Autoscaling looked at a component of a PulsarCluster."""


@dataclass(frozen=True)
class OperatorImages:
    """Default images of the data plane; ``{version}`` is replaced by spec.version."""

    broker: str = "pulsar-broker:{version}"
    bookie: str = "pulsar-bookie:{version}"
    proxy: str = "pulsar-proxy:{version}"


class ReaderPort(Protocol):
    """Questions about custom resources other than the one a pass is about. The answers are not to be changed."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """One object; None when there is none."""

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """All objects of a kind, or at least those of Kubernetes namespaces whose references an object allows: what is
        in others need not be known then. Raises PortError while it is not known."""

    async def namesakes(self, obj: Json) -> list[Key]:
        """Other objects of its kind that refer to the same parent and have the same name inside Pulsar."""

    async def dependents(self, target: Json, child: Kind) -> int:
        """How many objects of a kind refer to the target and may."""

    async def named(self, target: Json, child: Kind) -> dict[str, Key]:
        """Objects of a kind that refer to the target and may, by name inside Pulsar."""

    def listed(self, key: Key) -> Json | None:
        """An object as the list at the start of the process had it, for one look; None = ask the API server.

        Nothing may be written by it: it is what the watches know of no change of, and they may be late.
        """


@dataclass(frozen=True)
class Deps:
    """Everything a controller may use."""

    kube: KubePort
    zookeeper: ZooKeeperPort
    admin: PulsarAdminPort
    clock: Clock
    entropy: Entropy
    metrics: MetricsPort
    bookies: BookiePort
    images: OperatorImages = field(default_factory=OperatorImages)
    reader: ReaderPort | None = None
    """What the watches delivered; None = the API server is asked. See controllers/core/watch_cache.py."""
    sizing: SizingPort | None = None
    """Results of the Spark job; None = there are none."""
    counters: CountersPort | None = None
    """Metrics of the data plane's pods; None = nobody reads them."""
    reach: Reach = field(default_factory=Reach)
    """Which clusters answered the calls of this process."""
    replication: ReplicationLooks = field(default_factory=ReplicationLooks)
    """What brokers said of replication to this process."""
    store_reads: StoreReads = field(default_factory=StoreReads)
    """What configuration stores answered this process."""
    jumps: Jumps = field(default_factory=Jumps)
    """From which version of Pulsar to which a cluster may go; by default to none."""
