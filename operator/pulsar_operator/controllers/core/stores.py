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
    is: then they are one in Pulsar. A server that both name is of one ensemble."""
    return bool(_servers(one) & _servers(other)) and _chroot(one) == _chroot(other)


def _servers(instance: Json) -> frozenset[str]:
    text = str((instance.get("status") or {}).get("configurationStoreServers") or "")
    named = (each.strip().lower() for each in text.split(","))
    return frozenset(each if each.rpartition(":")[2].isdigit() else f"{each}:{PORT}" for each in named if each)


def _chroot(instance: Json) -> str:
    return str((instance.get("status") or {}).get("configurationStoreChroot") or "").strip("/")


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
