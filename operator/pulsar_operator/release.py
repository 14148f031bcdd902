"""What goes with the operator (chart uninstall): Pulsar's balancer gets its settings back, BookKeeper what the operator
changed for a while, and our finalizers are taken off all custom resources, so that they can be deleted without an
operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.api.v1alpha1.cluster_status import BalancerStatus
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.core.stores import metadata_store
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS, restore
from pulsar_operator.controllers.dataplane.bookkeeper.recovery_delay import restore_delay
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.bookkeeper.storage_facts import BookieState
from pulsar_operator.domain.bookkeeper.znodes import READONLY
from pulsar_operator.domain.dataplane.decommission.decommission_record import MEMO_PATH, LeavingMemo, parse_leaving_memo
from pulsar_operator.domain.dataplane.objects.absent_pods import short
from pulsar_operator.ports import (
    CUSTOM,
    AdminEndpoint,
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
"""Children first, as a person would delete them."""
ATTEMPTS = 5
READONLY_URL = "http://127.0.0.1:8000/api/v1/bookie/state/readonly"
"""Of a bookie's own HTTP server, asked in its pod."""
STORAGE_SECONDS = 30.0
"""The longest that a cluster's metadata store and bookies are waited for; all clusters at once."""


class Finalizers(Protocol):
    """What the release needs of the Kubernetes adapter."""

    async def list(self, kind: ResourceType, namespace: str | None) -> list[Json]:
        """All objects of the watched namespaces."""

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """The object, or None."""

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """Take one finalizer off the version that was read."""

    async def installed(self, kind: ResourceType) -> bool:
        """Whether the resource type exists."""


async def release_finalizers(kube: Finalizers, say: Callable[[str], None]) -> int:
    """Release all objects of the watched namespaces, tell each; returns how many could not be released.

    No volume is touched, and nothing that the objects declared: it stays as it is.
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
                say(f"{name}: NOT released: {_words(error)}")
            else:
                released += 1
                say(f"{name}: released")
    say(f"{released} objects released, {failed} failed")
    return failed


async def release_balancers(kube: Finalizers, admin: PulsarAdminPort, say: Callable[[str], None]) -> None:
    """Restore what the operator took over of each cluster's balancer: nobody would balance without it.

    Brokers that do not answer are told and left: they may be gone with their cluster. The status stays as it is, so
    that an operator that is installed again goes on.
    """
    resource = CUSTOM[Kind.CLUSTER]
    if not await kube.installed(resource):
        return
    for obj in await kube.list(resource, None):
        status, meta = obj.get("status") or {}, obj["metadata"]
        url = (status.get("endpoints") or {}).get("brokerWebServiceUrl")
        if not status.get("balancer") or not url:
            continue
        name = f"{Kind.CLUSTER.value} {meta['namespace']}/{meta['name']}"
        try:
            before = BalancerStatus.model_validate(status["balancer"])
            await restore(admin, AdminEndpoint(pulsar_name(obj), str(url)), before)
        except Exception as error:
            by_hand = f"see {' and '.join(FLAGS)} by hand"
            say(f"{name}: settings of Pulsar's balancer NOT restored: {_words(error)}; {by_hand}")
        else:
            say(f"{name}: settings of Pulsar's balancer restored")


async def release_storage(
    kube: Finalizers, zookeeper: ZooKeeperPort, bookies: BookiePort, say: Callable[[str], None]
) -> None:
    """Give lostBookieRecoveryDelay back, and make a bookie writable that the operator made read-only, of each cluster.

    What could not be given back is told, with the command that does it. A store that does not answer keeps nobody: it
    may be gone with its cluster. What is remembered there stays, so that an operator that is installed again goes on.
    """
    resource = CUSTOM[Kind.CLUSTER]
    if await kube.installed(resource):
        clusters = await kube.list(resource, None)
        await asyncio.gather(*(_release_or_report(each, zookeeper, bookies, say) for each in clusters))


async def _release_or_report(
    obj: Json, zookeeper: ZooKeeperPort, bookies: BookiePort, say: Callable[[str], None]
) -> None:
    """Release the storage of one cluster. An error that nobody expects is reported, and keeps no other cluster."""
    name = f"{Kind.CLUSTER.value} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
    try:
        await _release_storage(obj, zookeeper, bookies, say)
    except Exception as error:
        log.debug("release of the storage of %s failed", name, exc_info=True)
        say(
            f"{name}: what the operator changed in BookKeeper may NOT be given back: {_words(error)}. Compare "
            "lostBookieRecoveryDelay with status.recoveryDelay, and look for bookies that are read-only"
        )


def _words(error: Exception) -> str:
    """What an error says, without secrets. One that nobody expects begins with its class."""
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
                say(f"{name}: lostBookieRecoveryDelay restored to {delay.before} s")
            await _make_writable(session, bookies, meta["namespace"], lambda text: say(f"{name}: {text}"))
    except (PortError, TimeoutError) as error:
        why = short(str(error)) or "no answer"
        for text in _not_given_back(status, meta["namespace"], why):
            say(f"{name}: {text}")


async def _make_writable(
    session: ZooKeeperSession, bookies: BookiePort, namespace: str, say: Callable[[str], None]
) -> None:
    """Of one that leaves or gets a new volume, and is read-only still. Raises PortError of the metadata store."""
    node = await session.get(MEMO_PATH)
    memo = parse_leaving_memo(node.data) if node is not None else None
    if node is None or memo is None or memo.freed or not memo.run:
        return  # the operator has not made it read-only
    # It says so in memory alone: one that was restarted, or is gone, is not registered as read-only.
    readonly = await session.get(f"{READONLY}/{memo.bookie}") is not None
    if readonly and memo.renewal is not None and memo.renewal.claims:
        say(
            f"bookie {memo.bookie} stays read-only: its PersistentVolumeClaims are deleted and go with its pod, and "
            "what it took now would be lost. Install the operator again to finish"
        )
        return
    # Before it is writable: a release that ends in between leaves behind that it may take entries.
    version, problem = await _remembered(session, memo.about_to_free() if readonly else memo.now_free(), node.version)
    if readonly:
        try:
            await bookies.set_readonly(host_of(memo.bookie), False)
        except PortError as error:
            say(f"bookie {memo.bookie} NOT made writable: {_words(error)}; {_by_hand(memo.bookie, namespace)}")
            return
        say(f"bookie {memo.bookie} made writable")
        if problem is None:
            _, problem = await _remembered(session, memo.now_free(), version)
    if problem is not None:
        say(f"that bookie {memo.bookie} is writable could NOT be written to the metadata store: {_words(problem)}")


async def _remembered(session: ZooKeeperSession, memo: LeavingMemo, version: int) -> tuple[int, PortError | None]:
    """Write the memo; its version then, and what kept it from being written. It holds nothing up: a bookie that stays
    read-only is worse."""
    try:
        await session.set(MEMO_PATH, memo.data(), version=version)
    except PortError as error:
        return version, error
    return version + 1, None


def _not_given_back(status: Json, namespace: str, why: str) -> list[str]:
    """What the status says that is held, with the commands that give it back."""
    delay, rows = status.get("recoveryDelay"), status.get("bookies") or ()
    found = []
    if isinstance(delay, dict) and "before" in delay:
        pod = str(rows[0]["id"]).partition(".")[0] if rows else "<pod of a bookie>"
        found.append(
            f"lostBookieRecoveryDelay NOT restored: {why}; run: kubectl -n {namespace} exec {pod} -- env BOOKIE_CONF="
            f"/pulsar/conf-rendered/bookkeeper.conf bin/bookkeeper shell lostbookierecoverydelay -s {delay['before']}"
        )
    for row in rows:
        if row.get("step") and row.get("state") == BookieState.READ_ONLY:
            found.append(f"bookie {row['id']} NOT made writable: {why}; {_by_hand(str(row['id']), namespace)}")
    return found


def _by_hand(bookie: str, namespace: str) -> str:
    """The command that makes a bookie writable; every image of ours has Python."""
    call = f"r.urlopen(r.Request('{READONLY_URL}', b'{{\\\"readOnly\\\": false}}', method='PUT'))"
    pod = bookie.partition(".")[0]
    return f'run: kubectl -n {namespace} exec {pod} -- python3 -c "import urllib.request as r; {call}"'


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
