"""Whether the configuration store of an instance answers, as its status says, for whoever must not act while it does
not.

While it is away brokers answer 200 from what they remember and writes hang; a broker that is restarted does not come
up, and no bundle can be moved (measured on 4.0.8). So nothing is begun: no write of the logical plane, no pod replaced
or removed, no bundle unloaded. The PulsarInstance's pass asks the store itself.
"""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import ConditionType, Kind
from pulsar_operator.controllers.core.clusters import instance_of
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.ports import Deps, Json

PORT: Final = 2181
"""Of a ZooKeeper server that is named without one."""


def share_store(one: Json, other: Json) -> bool:
    """Whether two instances keep what their clusters share in one configuration store, as their status says where it
    is, or of a new one the specification: then they are one in Pulsar. A server that both name is of one ensemble."""
    (mine, chroot), (theirs, other_chroot) = _store(one), _store(other)
    return bool(mine & theirs) and chroot == other_chroot


def _store(instance: Json) -> tuple[frozenset[str], str]:
    """Servers and chroot."""
    status, spec = instance.get("status") or {}, instance.get("spec") or {}
    servers, chroot = status.get("configurationStoreServers"), status.get("configurationStoreChroot")
    if not servers:
        external = (spec.get("configurationStore") or {}).get("external") or {}
        servers, chroot = external.get("servers"), external.get("chroot")
    named = (each.strip().lower() for each in str(servers or "").split(","))
    full = frozenset(each if each.rpartition(":")[2].isdigit() else f"{each}:{PORT}" for each in named if each)
    return full, str(chroot or "").strip("/")


def store_away(instance: Json) -> str | None:
    """Why the configuration store of an instance is away, in words; None = it answers, or nobody could look."""
    found = condition_of(instance, ConditionType.CONFIGURATION_STORE_READY)
    if found is None or found.get("status") != "False":
        return None
    return f"the configuration store of PulsarInstance {instance['metadata']['name']}: {found.get('message')}"


async def store_away_of(deps: Deps, cluster: Json) -> str | None:
    """The same of the instance of a cluster; None also where there is no such instance. Raises PortError."""
    key = instance_of(cluster)
    instance = await reader_of(deps).get(Kind.INSTANCE, key.namespace, key.name) if key is not None else None
    return store_away(instance) if instance is not None else None
