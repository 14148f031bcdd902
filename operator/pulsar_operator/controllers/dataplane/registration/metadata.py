"""The metadata phase: the metadata of a cluster in both stores is initialized, or checked."""

from __future__ import annotations

import asyncio

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.core.stores import Store
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_name
from pulsar_operator.controllers.dataplane.objects.zookeeper_ensemble import has_quorum
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.registration.bootstrap import BootstrapRequest, ensure_cluster_metadata
from pulsar_operator.domain.dataplane.cluster.bring_up import MetadataFact
from pulsar_operator.domain.dataplane.observed.remote_clusters import RemoteUrls, observed_clusters, remote_urls
from pulsar_operator.domain.dataplane.registration.metadata import RecordState
from pulsar_operator.domain.dataplane.registration.registration import CLUSTERS_PATH, ClusterUrls, cluster_path
from pulsar_operator.domain.render.child_names import labels
from pulsar_operator.domain.render.quorum import FIELD
from pulsar_operator.ports import ConflictError, Deps, PortError


async def metadata(ctx: PhaseContext) -> MetadataFact | None:
    """Initializes or checks both stores once they answer; None while the cluster's own ZooKeeper has no quorum.

    Raises ConflictError if the recorded quorums are no longer those that brokers are rendered with.
    """
    facts, view, actor, rendered = ctx.facts, ctx.view, ctx.actor, ctx.rendered
    declared = facts.spec.metadata_store
    assert declared is not None and rendered.metadata_store is not None
    if declared.managed is not None and not has_quorum(view.components.get(Component.ZOOKEEPER), declared.managed):
        return None
    local = Store(rendered.metadata_store.servers, rendered.metadata_store.chroot or None)
    instance = facts.instance
    store = local if instance.own_store else None
    if not instance.own_store and instance.store.ready and instance.store.servers:
        store = Store(instance.store.servers, instance.store.chroot)
    result = await ensure_cluster_metadata(
        actor.deps,
        BootstrapRequest(
            cluster_name=pulsar_name(facts.obj),
            object_name=facts.meta.name,
            namespace=facts.meta.namespace,
            local_store=local,
            configuration_store=store,
            urls=ClusterUrls(
                service_url=rendered.endpoints.broker_web_service_url,
                broker_service_url=rendered.endpoints.broker_service_url,
            ),
            labels=labels(facts.owner, None),
            bookies_exist=facts.bookie_volumes or bool(facts.live.pods(Component.BOOKIE)),
            now=actor.deps.clock.now(),
            confirmations=facts.spec.confirmations,
            versions=frozenset({facts.spec.version}) | (facts.running or frozenset()),
            quorum=rendered.quorum,
            known_quorum=facts.quorum_on_record,
            act=actor.act,
        ),
    )
    if result.quorum not in (None, facts.quorum_on_record, rendered.quorum):
        raise ConflictError(f"the recorded quorums became {result.quorum} while the cluster was observed")
    actor.pending.extend(result.pending)
    if facts.overruled and result.quorum == rendered.quorum:
        await actor.warn(
            Reason.DRIFT_REPAIRED,
            f"ConfigMap {record_name(facts.meta.name)} recorded {facts.quorum_on_record} as ensemble size and "
            f"quorums, but brokers use {facts.quorum} and {FIELD} does not request a change. The operator keeps "
            f"the values of the brokers and now records {result.quorum}. To use {facts.quorum_on_record}, set "
            f"{FIELD}",
        )
    known = facts.record
    if result.local_ready and result.actions and not (known is not None and known.state is RecordState.INITIALIZED):
        await actor.record_event(Reason.METADATA_INITIALIZED, f"Initialized the metadata in {local}")
    for note in result.notes if result.actions else ():
        await actor.record_event(Reason.METADATA_INITIALIZED, note)
    remote = None
    if result.registered and store is not None:
        remote = await remote_clusters(actor.deps, store.servers, store.chroot, pulsar_name(facts.obj))
    return MetadataFact(
        local_ready=result.local_ready,
        registered=result.registered,
        reason=result.reason,
        message=result.message,
        instance_id=result.instance_id,
        remote=remote,
    )


async def remote_clusters(
    deps: Deps, servers: str, chroot: str | None, own: str
) -> dict[str, RemoteUrls | None] | None:
    """Returns URLs by cluster, without ``own``: None for one that cannot be read, None for all if the store does not
    answer."""
    try:
        session = await deps.zookeeper.session(servers, chroot)
        names = observed_clusters(await session.children(CLUSTERS_PATH) or (), own)
        nodes = await asyncio.gather(*(session.get(cluster_path(name)) for name in names))
    except PortError:
        return None
    return {name: remote_urls(node.data) for name, node in zip(names, nodes, strict=True) if node is not None}
