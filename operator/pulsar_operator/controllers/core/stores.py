"""Whether the configuration store of an instance answers, as its status says, for controllers that must not act while
it does not.

While it is unavailable brokers answer 200 from what they remember and writes hang; a broker that is restarted does not
come up, and no bundle can be moved (measured on 4.0.8). So nothing is begun: no write of the logical plane, no pod
replaced or removed, no bundle unloaded. The PulsarInstance's pass asks the store itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pulsar_operator.api.constants import ConditionType, Kind
from pulsar_operator.controllers.core.clusters import instance_of
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.ports import Deps, Json

PORT: Final = 2181
"""Of a ZooKeeper server that is named without one."""


class Store(NamedTuple):
    """A ZooKeeper ensemble and the path in it under which everything lives."""

    servers: str
    chroot: str | None = None

    def __str__(self) -> str:
        return f"{self.servers}{self.chroot or ''}"


def configuration_store(instance: Json) -> Store | None:
    """Returns where the status of a PulsarInstance says that its configuration store is; None where it does not say."""
    return _named(instance, "configurationStore")


def metadata_store(cluster: Json) -> Store | None:
    """Returns where the status of a PulsarCluster says that its own metadata store is; None where it does not say."""
    return _named(cluster, "metadataStore")


def _named(obj: Json, field: str) -> Store | None:
    status = obj.get("status") or {}
    servers = status.get(f"{field}Servers")
    return Store(str(servers), status.get(f"{field}Chroot")) if servers else None


def share_store(one: Json, other: Json) -> bool:
    """Whether two instances keep what their clusters share in one configuration store, as their status says where it
    is, or of a new one the specification: then they are one in Pulsar. A server that both name is of one ensemble."""
    (first, chroot), (second, other_chroot) = _store(one), _store(other)
    return bool(first & second) and chroot == other_chroot


def _store(instance: Json) -> tuple[frozenset[str], str]:
    """Servers and chroot."""
    external = ((instance.get("spec") or {}).get("configurationStore") or {}).get("external") or {}
    servers, chroot = configuration_store(instance) or (external.get("servers"), external.get("chroot"))
    named = (each.strip().lower() for each in str(servers or "").split(","))
    full = frozenset(each if each.rpartition(":")[2].isdigit() else f"{each}:{PORT}" for each in named if each)
    return full, str(chroot or "").strip("/")


@dataclass(frozen=True, slots=True)
class StoreState:
    """Whether the configuration store of an instance answers."""

    ready: bool | None = None
    """None if not known."""
    message: str = "not observed yet"
    reason: str | None = None
    since: str | None = None
    """Time since which it is so, as in a status."""


def store_state(instance: Json) -> StoreState:
    """Returns the state of the store by the status of a PulsarInstance; all controllers use this."""
    found = condition_of(instance, ConditionType.CONFIGURATION_STORE_READY)
    if found is None:
        return StoreState()
    ready = {"True": True, "False": False}.get(str(found.get("status")))
    return StoreState(ready, str(found.get("message")), found.get("reason"), found.get("lastTransitionTime"))


def store_unavailable_message(instance: Json) -> str | None:
    """Returns why the configuration store of an instance is unavailable; None if it answers, or could not be
    checked."""
    state = store_state(instance)
    if state.ready is not False:
        return None
    return f"the configuration store of PulsarInstance {instance['metadata']['name']}: {state.message}"


async def store_unavailable_message_of(deps: Deps, cluster: Json) -> str | None:
    """Returns the same of the instance of a cluster; None also where there is no such instance. Raises PortError."""
    key = instance_of(cluster)
    instance = await reader_of(deps).get(Kind.INSTANCE, key.namespace, key.name) if key is not None else None
    return store_unavailable_message(instance) if instance is not None else None
