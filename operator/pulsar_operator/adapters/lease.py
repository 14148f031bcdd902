"""A coordination.k8s.io Lease, so that one operator acts and a second one waits.

The rules are those of client-go's leader election. Whether a holder is silent is decided by the process's own monotonic
clock since the record last changed, never by comparing the clocks of two machines. Writes contain the resourceVersion
that was read. Called by runtime.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from pulsar_operator.adapters.kube_http import KubeClient, resource_path
from pulsar_operator.ports import Clock, ConflictError, Json, NotFoundError, PortError, ResourceType

log = logging.getLogger(__name__)

LEASES = ResourceType("coordination.k8s.io", "v1", "leases", "Lease")


class LeaseStore(Protocol):
    """Storage of the Lease object."""

    async def read(self) -> Json | None:
        """Returns the Lease; None if it does not exist."""

    async def create(self, lease: Json) -> Json:
        """Creates it. Raises ConflictError if it exists."""

    async def replace(self, lease: Json) -> Json:
        """Replaces the resourceVersion that was read. Raises ConflictError if it changed."""


class KubeLeaseStore:
    """Stores the Lease in Kubernetes. Calls have a short deadline: a slow answer must not use up the lease."""

    def __init__(self, client: KubeClient, namespace: str, name: str, *, deadline: float = 5.0) -> None:
        """``deadline`` is the time limit of one request in seconds."""
        self._client = client
        self._collection = resource_path(LEASES, namespace)
        self._object = resource_path(LEASES, namespace, name)
        self._deadline = deadline
        self._meta = {"name": name, "namespace": namespace}

    async def read(self) -> Json | None:
        """Returns the Lease; None if it does not exist."""
        try:
            return await self._client.request("GET", self._object, deadline=self._deadline)
        except NotFoundError:
            return None

    async def create(self, lease: Json) -> Json:
        """Creates it. Raises ConflictError if it exists."""
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **lease, "metadata": self._meta}
        return await self._client.request("POST", self._collection, body=body, deadline=self._deadline)

    async def replace(self, lease: Json) -> Json:
        """Replaces the resourceVersion that was read. Raises ConflictError if it changed."""
        return await self._client.request("PUT", self._object, body=lease, deadline=self._deadline)


class Lease:
    """Acquires, keeps and releases a Lease."""

    def __init__(self, store: LeaseStore, clock: Clock, *, identity: str, seconds: float) -> None:
        """``seconds`` is the time for which a silent holder keeps it; it is renewed after every third of that.

        ``identity`` must be different for each process, also on one machine or in one pod.
        """
        self._store = store
        self._clock = clock
        self._identity = identity
        self._seconds = seconds
        self._lease: Json | None = None
        self._renewed = 0.0
        self.holder: str | None = None
        """Identity in the last record read; this process's while it holds the Lease."""

    @property
    def renew_interval(self) -> float:
        """Returns the seconds between two renewals."""
        return self._seconds / 3

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the Lease and renewed it recently enough to be sure."""
        return self._lease is not None and self._now() - self._renewed < self._seconds * 2 / 3

    async def acquire(self, *, on_wait: Callable[[str], None] | None = None, deadline: float | None = None) -> None:
        """Waits until this process holds the Lease.

        ``on_wait`` is called with the holder whenever it changes. Raises TimeoutError after ``deadline`` seconds.
        """
        async with asyncio.timeout(deadline):
            last_record: tuple[object, ...] | None = None
            since = self._now()
            reported: str | None = None
            while True:
                try:
                    lease = await self._store.read()
                    record = _record_of(lease)
                    if record != last_record:
                        last_record, since = record, self._now()
                    self.holder = _holder_of(lease)
                    # Our own identity: an earlier attempt succeeded although its answer did not arrive.
                    if self.holder in (None, self._identity) or self._now() - since >= self._duration_of(lease):
                        await self._take(lease)
                        return
                    if reported != self.holder:
                        reported = self.holder
                        log.info("Waiting for the Lease held by %s", reported, extra={"holder": reported})
                        if on_wait is not None and reported is not None:
                            on_wait(reported)
                except ConflictError:
                    continue  # another process was faster; read again
                except PortError as error:
                    log.warning("The Lease cannot be read or written: %s", error)
                await asyncio.sleep(min(self._seconds / 5, 2.0))

    async def keep(self) -> None:
        """Renews the Lease until it is lost, and then returns. The process must not act as the holder afterwards."""
        while True:
            await asyncio.sleep(self.renew_interval)
            while True:
                if not self.is_leader:
                    log.error("The Lease was not renewed in time, so the operator stops")
                    return
                try:
                    await self._renew()
                    break
                except ConflictError as error:
                    if not await self._still_ours():
                        log.error("The Lease was taken by %s, so the operator stops: %s", self.holder, error)
                        return
                except PortError as error:
                    log.warning("The Lease was not renewed, and the operator tries again: %s", error)
                await asyncio.sleep(min(1.0, self._seconds / 15))

    async def release(self) -> None:
        """Releases the Lease, so that the next operator need not wait. Errors are logged."""
        if self._lease is None:
            return
        lease, self._lease = self._lease, None
        spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._store.replace({**lease, "spec": spec})
        except PortError as error:
            log.warning("The Lease was not released and expires later: %s", error)

    async def _take(self, lease: Json | None) -> None:
        started = self._now()
        now = _micro(self._clock.now())
        old = (lease or {}).get("spec") or {}
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, int(self._seconds)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (1 if lease is not None else 0),
        }
        if lease is None:
            self._lease = await self._store.create({"spec": spec})
        else:
            self._lease = await self._store.replace({**lease, "spec": spec})
        self._renewed = started
        self.holder = self._identity

    async def _renew(self) -> None:
        if self._lease is None:
            raise ConflictError("the operator does not hold the Lease")
        started = self._now()
        spec = {**self._lease["spec"], "renewTime": _micro(self._clock.now())}
        self._lease = await self._store.replace({**self._lease, "spec": spec})
        self._renewed = started

    async def _still_ours(self) -> bool:
        """Whether this process still holds the Lease after a conflict: another client edited the object, or the last
        write succeeded although its answer was lost."""
        try:
            lease = await self._store.read()
        except PortError:
            return True  # unknown; `is_leader` decides by time
        self.holder = _holder_of(lease)
        if lease is None or self.holder != self._identity:
            self._lease = None
            return False
        self._lease = lease
        return True

    def _duration_of(self, lease: Json | None) -> float:
        """Returns the seconds for which the holder must be silent: those in its own record."""
        value = ((lease or {}).get("spec") or {}).get("leaseDurationSeconds")
        return float(value) if value else self._seconds

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _holder_of(lease: Json | None) -> str | None:
    return ((lease or {}).get("spec") or {}).get("holderIdentity") or None


def _record_of(lease: Json | None) -> tuple[object, ...]:
    spec = (lease or {}).get("spec") or {}
    return (spec.get("holderIdentity"), spec.get("acquireTime"), spec.get("renewTime"), spec.get("leaseTransitions"))


def _micro(moment: datetime) -> str:
    """Returns a metav1.MicroTime: RFC 3339 with six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
