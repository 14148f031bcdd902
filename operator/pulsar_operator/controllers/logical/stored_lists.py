"""Tenants and lists of clusters as the configuration store has them, read before something is taken out.

Brokers answer from what they remember. Those whose session with the store ended in an outage get no later change until
they are restarted (measured on 4.0.8; domain/dataplane/observed/store_sessions.py), and what a write takes out by their
answer may be what another writer put in since: Pulsar deletes all that such a cluster holds within a second.
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
WHY = "After an outage of the store brokers serve stale metadata until they are restarted"


async def check_lists_before_write(
    deps: Deps, scope: Scope, name: str, action: Action, *, removed: Collection[str], replicating: Collection[str]
) -> None:
    """Raise ObstacleError where a list would be written without a cluster that loses what it holds by it, and is not
    ``removed`` with it by consent; or what waits for it, where it is not among those that brokers said are
    ``replicating``, which alone were asked for that. ``name`` is tenant/namespace."""
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
    """Raises ObstacleError as check_lists_before_write, for the global list of a topic, which overrides the
    namespace's."""
    if action.field != GLOBAL_CLUSTERS or not isinstance(action.call.body, list):
        return
    stored = await _stored(deps, scope, name)
    if stored is not None:
        _refuse(name, stored, set(replication_of(stored)) - set(action.call.body) - set(allowed_of(stored)))


async def check_tenant_before_write(deps: Deps, scope: Scope, name: str) -> None:
    """Raise ObstacleError where brokers answer another tenant than the store has. Pulsar writes a tenant whole: a role
    that was revoked in the meantime would be back, a cluster that was added would be gone."""
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
        f"The configuration store has tenant {name} with admin roles {sorted(kept.admin_roles)} and clusters "
        f"{sorted(kept.allowed_clusters)}, but brokers answer differently: the operator writes nothing based on "
        f"that answer. {WHY}"
    )
    raise ObstacleError(Reason.ADMIN_UNREACHABLE, text)


async def check_lists_before_deletion(deps: Deps, scope: Scope, name: str, holders: Collection[str]) -> None:
    """Raise ObstacleError where the store has clusters for a namespace that were not searched for its topics. Where
    all clusters go there is nothing to lose, and the store may be gone."""
    if all(cluster.deleting for cluster in scope.clusters):
        return
    stored = await _stored(deps, scope, name, absent=True)
    if stored is not None:
        _refuse(name, stored, {*replication_of(stored), *allowed_of(stored)} - set(holders))


def _refuse(name: str, stored: Json, lost: Collection[str]) -> None:
    if not lost:
        return
    text = (
        f"The configuration store has {', '.join(sorted(lost))} in the lists of clusters of {name} (replication "
        f"{replication_of(stored)}, allowed {allowed_of(stored)}) but brokers answer differently: the operator "
        "removes nothing based on "
        f"what they answer. {WHY}"
    )
    raise ObstacleError(Reason.ADMIN_UNREACHABLE, text)


async def _stored(deps: Deps, scope: Scope, name: str, *, absent: bool = False) -> Json | None:
    """Policies in the store; None where no status says where it is, or it has none that can be read. Raises
    ObstacleError."""
    what, path = f"the lists of clusters of {name}", f"{POLICIES_PATH}/{name}"
    found = await _node(deps, scope, what, path, absent=absent)
    try:
        return found if isinstance(found, dict) and [*replication_of(found), *allowed_of(found)] else None
    except TypeError:
        return None


async def _node(deps: Deps, scope: Scope, what: str, path: str, *, absent: bool = False) -> object:
    """Returns what a node of the store has; None where no status says where it is, or it cannot be read, or where it
    may be ``absent``: else brokers answer with what the store does not have. Raises ObstacleError."""
    store = configuration_store(scope.chain[-1])
    if store is None:
        return None
    try:
        session = await deps.zookeeper.session(*store)
        node = await session.get(path)
    except PortError as error:
        text = f"Nothing is taken out of {what}: the configuration store: {error}"
        raise ObstacleError(Reason.CONFIGURATION_STORE_UNAVAILABLE, text) from error
    if node is None and not absent:
        text = (
            f"The configuration store {store} has no {path}, but brokers answer differently: nothing is taken out "
            f"of {what}"
            f". {WHY}; or they have another store: check spec.configurationStore of the PulsarInstance"
        )
        # Soon again: the server that was asked may be behind what was made a moment ago.
        raise ObstacleError(Reason.ADMIN_UNREACHABLE, text, requeue=LAG_SECONDS)
    try:
        return json.loads(node.data) if node is not None and node.data else None
    except (ValueError, RecursionError):
        return None
