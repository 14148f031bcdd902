"""Reports whether the configuration store of an instance is available, according to its status.

While it is unavailable, brokers answer 200 from their cache and writes hang, a restarted broker does not become ready,
and no bundle can be moved (measured on 4.0.8). So controllers start nothing: no write of the logical plane, no pod
replaced or removed, no bundle unloaded. The pass of the PulsarInstance checks the store itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pulsar_operator.api.constants import ConditionType, Kind
from pulsar_operator.controllers.core.clusters import instance_of
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.domain.render.listeners import ZOOKEEPER_PORT
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import Deps, Json


class Store(NamedTuple):
    """A ZooKeeper ensemble and the root path in it."""

    servers: str
    chroot: str | None = None

    def __str__(self) -> str:
        return f"{self.servers}{self.chroot or ''}"


def configuration_store(instance: Json) -> Store | None:
    """Returns the configuration store from the status of a PulsarInstance; None if the status has none."""
    return _named(instance, "configurationStore")


def metadata_store(cluster: Json) -> Store | None:
    """Returns the metadata store from the status of a PulsarCluster; None if the status has none."""
    return _named(cluster, "metadataStore")


def _named(obj: Json, field: str) -> Store | None:
    status = obj.get("status") or {}
    servers = status.get(f"{field}Servers")
    return Store(str(servers), status.get(f"{field}Chroot")) if servers else None


def share_store(one: Json, other: Json) -> bool:
    """Whether two instances share one configuration store, so that Pulsar treats them as one instance.

    The store is read from the status, or from the specification if the instance is new. Two stores that have a
    server in common are the same ensemble."""
    (first, chroot), (second, other_chroot) = _store(one), _store(other)
    return bool(first & second) and chroot == other_chroot


def _store(instance: Json) -> tuple[frozenset[str], str]:
    """Returns the servers with their ports, and the chroot without slashes at its ends."""
    external = ((instance.get("spec") or {}).get("configurationStore") or {}).get("external") or {}
    servers, chroot = configuration_store(instance) or (external.get("servers"), external.get("chroot"))
    named = (each.strip().lower() for each in str(servers or "").split(","))
    full = (each if each.rpartition(":")[2].isdigit() else f"{each}:{ZOOKEEPER_PORT}" for each in named if each)
    return frozenset(full), str(chroot or "").strip("/")


@dataclass(frozen=True, slots=True)
class StoreState:
    """Whether the configuration store of an instance is available."""

    ready: bool | None = None
    """None if not known."""
    message: str = "The configuration store has not been observed yet"
    reason: str | None = None
    since: str | None = None
    """Time of the last change of ``ready``, as in a status."""


def store_state(instance: Json) -> StoreState:
    """Returns the state of the store from the status of a PulsarInstance. All controllers use this."""
    found = condition_of(instance, ConditionType.CONFIGURATION_STORE_READY)
    if found is None:
        return StoreState()
    ready = {"True": True, "False": False}.get(str(found.get("status")))
    return StoreState(ready, str(found.get("message")), found.get("reason"), found.get("lastTransitionTime"))


def store_unavailable_message(instance: Json) -> str | None:
    """Returns why the configuration store of an instance is unavailable, as a message. None if it is available, or was
    not checked."""
    state = store_state(instance)
    if state.ready is not False:
        return None
    name = instance["metadata"]["name"]
    return f"the configuration store of PulsarInstance {name} is unavailable. {sentence(state.message.rstrip('.'))}"


async def store_unavailable_message_of(deps: Deps, cluster: Json) -> str | None:
    """Returns why the configuration store of a cluster's instance is unavailable, as a message. None if it is
    available, was not checked, or the instance does not exist. Raises PortError."""
    key = instance_of(cluster)
    instance = await reader_of(deps).get(Kind.INSTANCE, key.namespace, key.name) if key is not None else None
    return store_unavailable_message(instance) if instance is not None else None
