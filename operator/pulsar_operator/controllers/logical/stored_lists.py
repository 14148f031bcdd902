"""Compares brokers' answers with the tenants and lists of clusters in the configuration store before a removal.

Brokers answer from a cache. A broker whose session with the store ended in an outage receives no later change until it
is restarted (measured on 4.0.8; domain/dataplane/observed/store_sessions.py). A write based on its answer may remove
what another writer added since, and Pulsar then deletes all data of such a cluster within a second.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.core.stores import configuration_store
from pulsar_operator.controllers.logical.scope import ObstacleError, Scope
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH
from pulsar_operator.domain.logical.clusters import ALLOWED, CLUSTERS, allowed_of, replication_of
from pulsar_operator.domain.logical.plan import Action
from pulsar_operator.domain.logical.pulsar_names import tenant_path
from pulsar_operator.domain.logical.tenant import LiveTenant
from pulsar_operator.domain.logical.topic import GLOBAL_CLUSTERS
from pulsar_operator.domain.policies import Call
from pulsar_operator.domain.policies.namespace_rows import ALLOWED_CLUSTERS
from pulsar_operator.ports import Deps, Json, PortError

LAG_SECONDS = 5.0
"""Seconds until a missing node is read again."""
WHY = (
    "After an outage of the configuration store, brokers return outdated metadata until they are restarted. Restart "
    "the brokers of the cluster if this persists"
)


async def check_lists_before_write(
    deps: Deps, scope: Scope, name: str, action: Action, *, removed: Collection[str], replicating: Collection[str]
) -> None:
    """Raises ObstacleError if a write would remove a cluster that would lose its data, according to the configuration
    store.

    ``removed`` are clusters whose removal has consent. A cluster that leaves only the replication must be in
    ``replicating``: those are the clusters that brokers reported, and only their backlog was checked. ``name`` is
    tenant/namespace.
    """
    if action.field not in (CLUSTERS, ALLOWED) or not isinstance(action.call.body, list):
        return
    stored = await _stored(deps, scope, name)
    if stored is None:
        return
    replication, allowed, written = set(replication_of(stored)), set(allowed_of(stored)), set(action.call.body)
    # Not by the field: allowed_clusters is also written for replicationClusters, where it is widened first.
    if action.call.path[-1:] == ALLOWED_CLUSTERS.endpoint:
        lost = (replication | allowed) - written - (set(removed) if action.field == ALLOWED else set())
    else:
        lost = replication - written - (allowed & set(replicating))
    _refuse(name, stored, lost)


async def check_topic_lists_before_write(deps: Deps, scope: Scope, name: str, action: Action) -> None:
    """Raises ObstacleError like check_lists_before_write, for the global list of a topic, which overrides the
    namespace's."""
    if action.field != GLOBAL_CLUSTERS or not isinstance(action.call.body, list):
        return
    stored = await _stored(deps, scope, name)
    if stored is not None:
        _refuse(name, stored, set(replication_of(stored)) - set(action.call.body) - set(allowed_of(stored)))


async def check_tenant_before_write(deps: Deps, scope: Scope, name: str) -> None:
    """Raises ObstacleError if brokers report another tenant than the store has.

    Pulsar writes a tenant as a whole: the write would restore a role that was revoked in the meantime, and remove a
    cluster that was added.
    """
    stored = await _node(deps, scope, f"tenant {name}", f"{POLICIES_PATH}/{name}", absent=True)
    try:
        kept = LiveTenant.parse(stored) if isinstance(stored, dict) else None
    except TypeError:
        kept = None
    if kept is None:
        return
    found = await scope.admin.find(Call("GET", tenant_path(name)))
    if found is not None and kept == LiveTenant.parse(found[1]):
        return
    text = (
        f"Tenant {name} is not updated: brokers report different values than the configuration store, which has "
        f"{_listed('admin roles', kept.admin_roles)} and {_listed('clusters', kept.allowed_clusters)}. {WHY}"
    )
    raise ObstacleError(Reason.ADMIN_UNREACHABLE, text)


async def check_lists_before_deletion(deps: Deps, scope: Scope, name: str, holders: Collection[str]) -> None:
    """Raises ObstacleError if the store lists clusters for a namespace that were not searched for its topics.

    Nothing is checked if all clusters are being deleted: no data can be lost then, and the store may not exist any
    longer.
    """
    if all(cluster.deleting for cluster in scope.clusters):
        return
    stored = await _stored(deps, scope, name, absent=True)
    if stored is not None:
        _refuse(name, stored, {*replication_of(stored), *allowed_of(stored)} - set(holders))


def _refuse(name: str, stored: Json, lost: Collection[str]) -> None:
    if not lost:
        return
    text = (
        f"No cluster is removed from {name}: the configuration store also lists {', '.join(sorted(lost))}, which "
        f"brokers do not report. In the store, {name} has {_listed('replication clusters', replication_of(stored))} "
        f"and {_listed('allowed clusters', allowed_of(stored))}. {WHY}"
    )
    raise ObstacleError(Reason.ADMIN_UNREACHABLE, text)


def _listed(what: str, names: Collection[str]) -> str:
    return f"{what} {', '.join(sorted(names))}" if names else f"no {what}"


async def _stored(deps: Deps, scope: Scope, name: str, *, absent: bool = False) -> Json | None:
    """Returns the policies in the store; None if no status names the store, or if it has no readable policies. Raises
    ObstacleError."""
    what, path = f"the lists of clusters of {name}", f"{POLICIES_PATH}/{name}"
    found = await _node(deps, scope, what, path, absent=absent)
    try:
        return found if isinstance(found, dict) and [*replication_of(found), *allowed_of(found)] else None
    except TypeError:
        return None


async def _node(deps: Deps, scope: Scope, what: str, path: str, *, absent: bool = False) -> object:
    """Returns the content of a node of the store; None if no status names the store, or if the content cannot be
    parsed.

    A missing node also returns None if it may be ``absent``. Otherwise brokers report what the store does not have, and
    ObstacleError is raised. Raises ObstacleError if the store is unavailable.
    """
    store = configuration_store(scope.chain[-1])
    if store is None:
        return None
    try:
        session = await deps.zookeeper.session(*store)
        node = await session.get(path)
    except PortError as error:
        text = f"The operator does not change {what}, because the configuration store cannot be read: {error}"
        raise ObstacleError(Reason.CONFIGURATION_STORE_UNAVAILABLE, text) from error
    if node is None and not absent:
        text = (
            f"The operator does not change {what}, because brokers return data of {path}, which the configuration "
            f"store {store} does not have. {WHY}. If the brokers use another store, correct "
            "spec.configurationStore of the PulsarInstance"
        )
        # Soon again: the server that was asked may be behind what was made a moment ago.
        raise ObstacleError(Reason.ADMIN_UNREACHABLE, text, requeue=LAG_SECONDS)
    try:
        return json.loads(node.data) if node is not None and node.data else None
    except (ValueError, RecursionError):
        return None
