"""Deletes a namespace in Pulsar in steps that can each be repeated. Used by namespace.py.

Pulsar refuses to delete a namespace of several clusters. A cluster that is removed from the namespace deletes its data
there within a second, whether or not the namespace is empty, and no call has emptiness as a precondition. So the
operator first checks that a replicated namespace is empty in every cluster, and again right before each write that
removes clusters. It records the lists of clusters in the status beforehand, and restores them if the namespace is kept
for any reason. The last cluster deletes the namespace without force, so that Pulsar refuses if a topic was created
since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from heapq import nsmallest
from itertools import pairwise
from typing import Any

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.namespace import ClusterLists, PulsarNamespaceSpec, PulsarNamespaceStatus
from pulsar_operator.controllers.core.watch_cache import name_of
from pulsar_operator.controllers.logical.deletion_results import keep
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope
from pulsar_operator.controllers.logical.stored_lists import check_lists_before_deletion
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.clusters import allowed_of, clusters_of, replication_of
from pulsar_operator.domain.logical.pulsar_names import namespace_path
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import ConflictError, Deps, Json, NotFoundError, PortError, RefusedError

log = logging.getLogger(__name__)

SHOWN = 5
"""Maximum number of topics that a message names."""
FAILED = frozenset({422, 500})
"""HTTP statuses of a broker that began to delete a namespace and failed. A broker without an answer may still be
deleting."""

NamespacePass = LogicalPass[PulsarNamespaceSpec, PulsarNamespaceStatus]


class NamespaceDeletion:
    """The deletion of one namespace in one pass."""

    def __init__(self, deps: Deps, ctx: NamespacePass, scope: Scope) -> None:
        self._deps, self._ctx, self._scope = deps, ctx, scope
        self._place = scope.parent_name(Kind.TENANT), name_of(ctx.obj)
        self._path = namespace_path(*self._place)
        self._name = "/".join(self._place)

    async def run(self, *, force: bool) -> Blocker | None:
        """Deletes the namespace. Returns why it is kept, or None if it no longer exists. Raises
        AdminUnreachableError."""
        found = await self._scope.admin.find(Call("GET", self._path))
        if found is None:
            return None
        try:
            blocker = await (self._force(found[1]) if force else self._empty(found[1]))
        except (ConflictError, RefusedError, NotFoundError):
            await self.restore()
            raise
        if blocker is not None:
            await self.restore()
        return blocker

    async def _force(self, live: Mapping[str, Any]) -> Blocker | None:
        holders = clusters_of(live)
        try:
            await self._delete(self._home(live), force=True)
        except (RefusedError, ConflictError) as error:
            home = self._home(live)
            several = (
                "Pulsar does not force the deletion of a namespace that is in several clusters "
                f"({', '.join(holders)}). To leave the namespace only in {home}, which immediately deletes its "
                f"content in the other clusters, run: pulsar-admin namespaces set-clusters {self._name} "
                f"--clusters {home}"
                if len(holders) > 1
                else "The brokers do not allow forced deletion. Set forceDeleteNamespaceAllowed=true in "
                "spec.broker.config of the PulsarCluster"
            )
            remedy = (
                "Otherwise delete the topics of the namespace and set spec.deletionPolicy to Delete. To keep the "
                f"namespace with its content, run: {keep(Kind.NAMESPACE, self._ctx.obj)}"
            )
            text = (
                f"The forced deletion of namespace {self._name} failed: {str(error).rstrip('.')}. {several}. {remedy}"
            )
            return Blocker(Reason.REJECTED_BY_PULSAR, text)
        return None

    async def _empty(self, live: Mapping[str, Any]) -> Blocker | None:
        holders, home = clusters_of(live), self._home(live)
        await check_lists_before_deletion(self._deps, self._scope, self._name, holders)
        # Pulsar marks a namespace once it found it empty, and then lists no topics of it (HTTP 404).
        begun = live.get("deleted") is True
        blocker = None if begun else await self._contents(holders)
        if blocker is None and len(holders) > 1:
            blocker = await self._reduce(live, home, begun=begun)
        if blocker is None:
            await self._delete(home, force=False)
        return blocker

    def _home(self, live: Mapping[str, Any]) -> str:
        """Returns the cluster from which the namespace is deleted last."""
        usable = self._scope.admin.usable
        return next((c for c in usable if c in replication_of(live)), usable[0])

    async def _delete(self, home: str, *, force: bool) -> None:
        try:
            call = Call("DELETE", self._path, {"force": "true"} if force else {})
            await self._scope.admin.delete(call, cluster=home)
        except AdminUnreachableError as error:
            if error.status in FAILED:
                await self._free(home)
            raise

    async def _free(self, home: str) -> None:
        """Unloads the bundles of a namespace whose deletion has begun and failed, so that the next attempt succeeds.

        Its system topic ``__change_events`` can be left in a state in which every further attempt fails until the topic
        is loaded again (seen on 4.0.8). Either it is fenced, because a reader of the broker itself connected during the
        deletion (HTTP 500 ``Topic is already fenced``, apache/pulsar#15451). Or it has a compaction that lost its
        connection and that every deletion waits for (HTTP 422 ``HTTP 422 {}``, or 500 ``Consumer connect fail!``).
        Pulsar has marked the namespace as deleted by then, so no client can use it. Errors of a cluster are ignored.
        """
        try:
            live = await self._scope.admin.at(home, Call("GET", self._path))
        except PortError:
            return
        if not live.get("deleted"):
            return
        log.info("Unloading namespace %s in cluster %s, because its deletion has started and failed", self._name, home)
        for lower, upper in pairwise((live.get("bundles") or {}).get("boundaries") or ()):
            with suppress(PortError):  # Bundles without owner are unknown; the stuck one answers after a minute.
                await self._scope.admin.at(home, Call("PUT", (*self._path, f"{lower}_{upper}", "unload")))

    async def _contents(self, clusters: Collection[str]) -> Blocker | None:
        """Returns a blocker that names the remaining topics in the clusters that hold the namespace; None if there are
        none. Raises AdminUnreachableError."""
        known = self._scope.names
        for cluster in sorted(set(clusters) - known) if len(clusters) > 1 else ():
            left = ",".join(sorted(set(clusters) & known)) or "CLUSTER"
            return Blocker(
                Reason.NOT_EMPTY,
                f"Namespace {self._name} is also in cluster {cluster}, which is no cluster of the instance, so "
                f"the operator cannot check whether it has topics in {cluster}. If these topics are no longer "
                f"needed, run: pulsar-admin namespaces set-clusters {self._name} --clusters {left}. To keep the "
                f"namespace, run: {keep(Kind.NAMESPACE, self._ctx.obj)}",
            )
        checked = sorted(set(clusters) & known)
        for cluster, topics in zip(checked, await asyncio.gather(*map(self._topics, checked)), strict=True):
            if topics:
                more = f" and {len(topics) - SHOWN} more" if len(topics) > SHOWN else ""
                shown = ", ".join(nsmallest(SHOWN, topics)) + more
                return Blocker(
                    Reason.NOT_EMPTY,
                    f"Namespace {self._name} still has topics in cluster {cluster} ({shown}), so it is not "
                    "deleted. Delete the topics first. To keep the namespace instead, run: "
                    f"{keep(Kind.NAMESPACE, self._ctx.obj)}",
                )
        return None

    async def _topics(self, cluster: str) -> list[str]:
        at = self._scope.admin
        topics = await at.listed(cluster, Call("GET", (*self._path, "topics"), {"mode": "ALL"}))
        for domain in ("persistent", "non-persistent"):
            topics += await at.listed(cluster, Call("GET", (domain, *self._place, "partitioned")))
        return topics

    async def _reduce(self, live: Mapping[str, Any], home: str, *, begun: bool) -> Blocker | None:
        """Reduces the namespace to one cluster. Before each write, the operator checks that the clusters to be
        removed have no topics."""
        replication, allowed = replication_of(live), allowed_of(live)
        if self._ctx.before.clusters_before_deletion is None:
            lists = ClusterLists(replication_clusters=replication, allowed_clusters=allowed)
            await self._ctx.store({"clusters_before_deletion": lists})
        calls = [Call("POST", (*self._path, "replication"), body=[home])] if replication != [home] else []
        calls += [Call("POST", (*self._path, "allowedClusters"), body=[home])] if allowed not in ([], [home]) else []
        others = {*replication, *allowed} - {home}
        for call in calls:
            blocker = None if begun else await self._contents(others)
            if blocker is not None:
                return blocker
            await self._scope.admin.at(home, call)
        return None

    async def restore(self) -> None:
        """Restores the lists of clusters of a namespace that is kept. Raises AdminUnreachableError."""
        before = self._ctx.before.clusters_before_deletion
        if before is None:
            return
        found = await self._scope.admin.find(Call("GET", self._path))
        if found is not None and not found[1].get("deleted"):
            live = found[1]
            for name, desired, now in (
                ("allowedClusters", before.allowed_clusters, allowed_of(live)),
                ("replication", before.replication_clusters, replication_of(live)),
            ):
                if desired and desired != now:
                    log.info("Restoring %s of namespace %s, because the namespace is not deleted", name, self._name)
                    with suppress(NotFoundError):
                        await self._scope.admin.at(found[0], Call("POST", (*self._path, name), body=list(desired)))
        await self._ctx.store({"clusters_before_deletion": None})


def unrestored(obj: Json, name: str, lists: ClusterLists) -> str:
    """Returns a message for a namespace whose deletion is pending and which has fewer clusters than before."""
    admin = "pulsar-admin namespaces"
    commands = [f"{admin} set-clusters {name} --clusters {','.join(lists.replication_clusters)}"]
    if lists.allowed_clusters:
        commands.insert(0, f"{admin} set-allowed-clusters {name} --clusters {','.join(lists.allowed_clusters)}")
    return (
        f"While the deletion is pending, namespace {name} is replicated to fewer clusters than before. It was "
        f"replicated to {', '.join(lists.replication_clusters)}. To keep the namespace and have the operator restore "
        f"its clusters, run: {keep(Kind.NAMESPACE, obj)}. To restore the clusters now, while the deletion is "
        f"pending, run: {' && '.join(commands)}"
    )
