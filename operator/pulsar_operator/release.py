"""Restores what the operator changed, before the chart is uninstalled.

The release restores the settings of Pulsar's load balancer and the temporary changes in BookKeeper, and removes the
operator's finalizers from all custom resources, so that they can be deleted without an operator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.api.v1alpha1.cluster_status import BalancerStatus
from pulsar_operator.controllers.core.clusters import published_endpoint
from pulsar_operator.controllers.core.stores import metadata_store
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS, restore
from pulsar_operator.controllers.dataplane.bookkeeper.recovery_delay import restore_delay
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.bookkeeper.storage_facts import BookieState
from pulsar_operator.domain.bookkeeper.znodes import READONLY
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    DecommissionRecord,
    parse_decommission_record,
)
from pulsar_operator.domain.dataplane.objects.absent_pods import short
from pulsar_operator.domain.render.listeners import BOOKKEEPER_HTTP_PORT
from pulsar_operator.ports import (
    CUSTOM,
    BookiePort,
    ConflictError,
    Json,
    PortError,
    PulsarAdminPort,
    ResourceType,
    ZooKeeperPort,
    ZooKeeperSession,
)

log = logging.getLogger(__name__)

ORDER = (
    Kind.REBALANCE,
    Kind.TOPIC_SET,
    Kind.TOPIC,
    Kind.NAMESPACE,
    Kind.TENANT,
    Kind.RESOURCE_GROUP,
    Kind.ISOLATION_POLICY,
    Kind.CLUSTER,
    Kind.INSTANCE,
)
"""Kinds in the order of their release: children before parents."""
ATTEMPTS = 5
READONLY_URL = f"http://127.0.0.1:{BOOKKEEPER_HTTP_PORT}/api/v1/bookie/state/readonly"
"""URL of a bookie's own HTTP server, which is called inside its pod."""
STORAGE_SECONDS = 30.0
"""Deadline of a cluster for its metadata store and bookies together. All clusters are released concurrently."""


class Finalizers(Protocol):
    """The part of the Kubernetes adapter that the release uses."""

    async def list(self, kind: ResourceType, namespace: str | None) -> list[Json]:
        """Returns all objects in the watched namespaces."""

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """Returns the object. None if it does not exist."""

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """Removes one finalizer from the version of the object that was read."""

    async def installed(self, kind: ResourceType) -> bool:
        """Whether the resource type exists."""


async def release_finalizers(kube: Finalizers, say: Callable[[str], None]) -> int:
    """Releases and reports all objects in the watched namespaces. Returns the number of objects that could not be
    released.

    Volumes and everything that the objects declare in Pulsar are unchanged.
    """
    failed = released = 0
    for kind in ORDER:
        resource = CUSTOM[kind]
        # Not by listing: an older release's account has no rights on kinds that came later, nor have they objects.
        if not await kube.installed(resource):
            say(f"{kind.value}: not installed")
            continue
        for obj in await kube.list(resource, None):
            meta = obj["metadata"]
            name = f"{kind.value} {meta['namespace']}/{meta['name']}"
            if FINALIZER not in (meta.get("finalizers") or ()):
                continue
            try:
                await _release(kube, resource, obj)
            except Exception as error:
                failed += 1
                say(f"{name} was NOT released: {_words(error)}")
            else:
                released += 1
                say(f"{name}: released")
    say(f"{released} objects released, {failed} failed")
    return failed


async def release_balancers(kube: Finalizers, admin: PulsarAdminPort, say: Callable[[str], None]) -> None:
    """Restores the load balancer settings of each cluster, since no load balancer would run without them.

    Brokers that do not answer are reported and skipped: they may be deleted with their cluster. The status is not
    changed, so that an operator that is installed again continues.
    """
    resource = CUSTOM[Kind.CLUSTER]
    if not await kube.installed(resource):
        return
    for obj in await kube.list(resource, None):
        status, meta = obj.get("status") or {}, obj["metadata"]
        endpoint = published_endpoint(obj)
        if not status.get("balancer") or endpoint is None:
            continue
        name = f"{Kind.CLUSTER.value} {meta['namespace']}/{meta['name']}"
        try:
            before = BalancerStatus.model_validate(status["balancer"])
            await restore(admin, endpoint, before)
        except Exception as error:
            remedy = f"Check {' and '.join(FLAGS)} manually"
            say(f"The settings of Pulsar's balancer in {name} were NOT restored: {_words(error)}. {remedy}")
        else:
            say(f"The settings of Pulsar's balancer in {name} were restored")


async def release_storage(
    kube: Finalizers, zookeeper: ZooKeeperPort, bookies: BookiePort, say: Callable[[str], None]
) -> None:
    """Restores lostBookieRecoveryDelay of each cluster, and makes bookies writable that the operator made read-only.

    A change that could not be restored is reported with the command that restores it. A metadata store that does not
    answer does not stop the release: it may be deleted with its cluster. The records in the store are kept, so that an
    operator that is installed again continues.
    """
    resource = CUSTOM[Kind.CLUSTER]
    if await kube.installed(resource):
        clusters = await kube.list(resource, None)
        await asyncio.gather(*(_release_or_report(each, zookeeper, bookies, say) for each in clusters))


async def _release_or_report(
    obj: Json, zookeeper: ZooKeeperPort, bookies: BookiePort, say: Callable[[str], None]
) -> None:
    """Releases the storage of one cluster. An unexpected error is reported and does not affect other clusters."""
    name = f"{Kind.CLUSTER.value} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
    try:
        await _release_storage(obj, zookeeper, bookies, say)
    except Exception as error:
        log.debug("release of the storage of %s failed", name, exc_info=True)
        say(
            f"The changes of the operator in BookKeeper of {name} may NOT be restored: {_words(error)}. Compare "
            "lostBookieRecoveryDelay with status.recoveryDelay, and check for read-only bookies"
        )


def _words(error: Exception) -> str:
    """Returns the message of an error without secrets. The message of an unexpected error starts with its class."""
    words = short(str(error))
    return words if isinstance(error, PortError) else f"{type(error).__name__}: {words}"


async def _release_storage(
    obj: Json, zookeeper: ZooKeeperPort, bookies: BookiePort, say: Callable[[str], None]
) -> None:
    meta, status = obj["metadata"], obj.get("status") or {}
    name, store = f"{Kind.CLUSTER.value} {meta['namespace']}/{meta['name']}", metadata_store(obj)
    if store is None:
        return  # of mode Standalone, or never brought up
    try:
        async with asyncio.timeout(STORAGE_SECONDS):
            session = await zookeeper.session(*store)
            delay = await restore_delay(session)
            if delay is not None:
                say(f"lostBookieRecoveryDelay of {name} was restored to {delay.before} s")
            await _make_writable(session, bookies, meta["namespace"], lambda text: say(f"{name}: {text}"))
    except (PortError, TimeoutError) as error:
        why = short(str(error)) or "no answer"
        for text in _not_restored(status, meta["namespace"], why):
            say(f"{name}: {text}")


async def _make_writable(
    session: ZooKeeperSession, bookies: BookiePort, namespace: str, say: Callable[[str], None]
) -> None:
    """Makes the bookie writable that is being decommissioned or gets a new volume, if it is still read-only.

    Raises PortError of the metadata store.
    """
    node = await session.get(DECOMMISSION_RECORD_PATH)
    record = parse_decommission_record(node.data) if node is not None else None
    if node is None or record is None or record.restored or not record.run:
        return  # the operator has not made it read-only
    # A bookie keeps this state in memory only: one that was restarted, or is gone, is not registered as read-only.
    readonly = await session.get(f"{READONLY}/{record.bookie}") is not None
    if readonly and record.renewal is not None and record.renewal.claims:
        say(
            f"Bookie {record.bookie} stays read-only, because its PersistentVolumeClaims are being deleted and "
            "entries that it accepted now would be lost. To finish the replacement of its volume, install the "
            "operator again"
        )
        return
    # Before the bookie is writable: if the release ends in between, the record says that it may accept entries.
    version, problem = await _write_record(
        session, record.before_restore() if readonly else record.after_restore(), node.version
    )
    if readonly:
        try:
            await bookies.set_readonly(host_of(record.bookie), False)
        except PortError as error:
            say(
                f"Bookie {record.bookie} was NOT made writable: {_words(error)}. "
                f"{_command_for(record.bookie, namespace)}"
            )
            return
        say(f"Bookie {record.bookie} was made writable")
        if problem is None:
            _, problem = await _write_record(session, record.after_restore(), version)
    if problem is not None:
        say(
            f"The record that bookie {record.bookie} is writable could NOT be written to the metadata store: "
            f"{_words(problem)}"
        )


async def _write_record(
    session: ZooKeeperSession, record: DecommissionRecord, version: int
) -> tuple[int, PortError | None]:
    """Writes the record. Returns its version and the error of the write. An error does not stop the release, since a
    bookie that stays read-only is worse."""
    try:
        await session.set(DECOMMISSION_RECORD_PATH, record.data(), version=version)
    except PortError as error:
        return version, error
    return version + 1, None


def _not_restored(status: Json, namespace: str, why: str) -> list[str]:
    """Returns messages about the changes in the status that are not restored, with the commands that restore them."""
    delay, rows = status.get("recoveryDelay"), status.get("bookies") or ()
    found = []
    if isinstance(delay, dict) and "before" in delay:
        pod = str(rows[0]["id"]).partition(".")[0] if rows else "<pod of a bookie>"
        found.append(
            f"lostBookieRecoveryDelay was NOT restored: {why}. Run: kubectl -n {namespace} exec {pod} -- env "
            "BOOKIE_CONF=/pulsar/conf-rendered/bookkeeper.conf bin/bookkeeper shell lostbookierecoverydelay -s "
            f"{delay['before']}"
        )
    for row in rows:
        if row.get("step") and row.get("state") == BookieState.READ_ONLY:
            found.append(f"Bookie {row['id']} was NOT made writable: {why}. {_command_for(str(row['id']), namespace)}")
    return found


def _command_for(bookie: str, namespace: str) -> str:
    """Returns the command that makes a bookie writable. It needs Python, which all images of this project have."""
    call = f"r.urlopen(r.Request('{READONLY_URL}', b'{{\\\"readOnly\\\": false}}', method='PUT'))"
    pod = bookie.partition(".")[0]
    return f'Run: kubectl -n {namespace} exec {pod} -- python3 -c "import urllib.request as r; {call}"'


async def _release(kube: Finalizers, resource: ResourceType, obj: Json) -> None:
    current: Json | None = obj
    for attempt in range(ATTEMPTS):
        if current is None or FINALIZER not in (current["metadata"].get("finalizers") or ()):
            return
        try:
            await kube.drop_finalizer(current, FINALIZER)
            return
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.1 * 2**attempt)
            current = await kube.get(resource, obj["metadata"]["namespace"], obj["metadata"]["name"])
