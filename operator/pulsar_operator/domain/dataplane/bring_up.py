"""The order of bring-up: which component may be created, and what the next one waits for. Pure.

Observed readiness decides, never time. A component that exists is always kept as rendered: a specification change must
reach it even while something before it is not ready.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Component, Reason


@dataclass(frozen=True)
class StoreFact:
    """The instance's configuration store as seen by one of its clusters."""

    ready: bool
    servers: str | None = None
    chroot: str | None = None
    reason: Reason = Reason.WAITING_FOR_CONFIGURATION_STORE
    message: str = ""


@dataclass(frozen=True)
class Gate:
    """Why a component is not created yet."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class BringUpFacts:
    """What decides the gates; None = not known."""

    metadata_ready: bool
    metadata_gate: Gate
    bookies_writable: bool | None
    bookies_text: str
    configuration_store: StoreFact
    registered: bool
    """Whether the cluster is registered in the configuration store."""
    brokers_ready: bool | None
    brokers_text: str


def gates(facts: BringUpFacts) -> dict[Component, Gate | None]:
    """For each component that waits for something: the gate; None = it may be created.

    Bookies need BookKeeper's INSTANCEID, brokers need bookies to write to and the configuration store, proxies need
    brokers to discover.
    """
    metadata = None if facts.metadata_ready else facts.metadata_gate
    bookies = metadata or (None if facts.bookies_writable else Gate(Reason.WAITING_FOR_BOOKIES, facts.bookies_text))
    store = None
    if not facts.configuration_store.ready:
        store = Gate(facts.configuration_store.reason, facts.configuration_store.message)
    elif not facts.registered:
        store = facts.metadata_gate
    brokers = bookies or store
    proxies = brokers or (None if facts.brokers_ready else Gate(Reason.WAITING_FOR_BROKERS, facts.brokers_text))
    return {
        Component.ZOOKEEPER: None,
        Component.BOOKIE: metadata,
        Component.AUTORECOVERY: bookies,
        Component.BROKER: brokers,
        Component.PROXY: proxies,
        Component.STANDALONE: None,
    }


def majority(replicas: int) -> int:
    """Servers a ZooKeeper ensemble needs to answer."""
    return replicas // 2 + 1


@dataclass(frozen=True)
class MetadataFact:
    """The cluster's metadata after this pass looked at it, and perhaps initialised it."""

    local_ready: bool
    """Whether the local store holds this cluster's BookKeeper."""
    registered: bool
    """Whether the configuration store names this cluster."""
    reason: Reason
    message: str
    instance_id: str | None = None
