"""The order of bring-up: which component may be created, and what the next one waits for. Pure.

Observed readiness decides, never time. A component that exists is always kept as rendered: a specification change must
reach it even while something before it is not ready.

Two sorts of gates must not be mixed up. Whose store it is, and its address, gate every creation. Readiness gates the
first creation alone: a component whose pods all ran once is created again without it, since what is not ready now may
need that very component. For the same reason auto-recovery never waits for a whole ensemble: bookies that lost their
volumes are not ready before auto-recovery has copied what they had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.instance import OutageStatus
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.objects.pods import ComponentFacts
from pulsar_operator.domain.dataplane.observed.remote_clusters import RemoteUrls
from pulsar_operator.domain.dataplane.observed.store_sessions import GRANTED

_AFTER_BOOKIES = frozenset({Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER})
"""Components that say, once their pods ran, that bookies did."""


@dataclass(frozen=True)
class StoreFact:
    """The instance's configuration store as seen by one of its clusters."""

    ready: bool
    servers: str | None = None
    chroot: str | None = None
    since: str | None = None
    """Since when it is ready, as a time of a status; None = it is not, or that is not known."""
    reason: Reason = Reason.WAITING_FOR_CONFIGURATION_STORE
    message: str = ""
    outages: Sequence[OutageStatus] = ()
    """Those that ended, the last one first; none of the cluster's own metadata store, which brokers watch otherwise."""
    session: timedelta = GRANTED
    """The longest that its servers grant."""


@dataclass(frozen=True)
class BringUpFacts:
    """What decides the gates; None = not known."""

    metadata_ready: bool
    metadata_gate: Blocker
    bookies_writable: bool | None
    bookies_text: str
    configuration_store: StoreFact
    registered: bool
    """Whether the cluster is registered in the configuration store."""
    brokers_ready: bool | None
    brokers_text: str
    bookie_ready: bool | None = None
    """Whether at least one bookie is ready."""
    proven: frozenset[Component] = frozenset()
    """Components of which every pod ran, ready, at least once in the life of the PulsarCluster."""


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
    remote: Mapping[str, RemoteUrls | None] | None = None
    """Other clusters in the configuration store, None for one that cannot be read; None = they were not read."""


def gates(facts: BringUpFacts) -> dict[Component, Blocker | None]:
    """For each component that waits for something: the gate; None = it may be created.

    Bookies need BookKeeper's INSTANCEID. Brokers need the configuration store, and the first time enough bookies to
    write to; proxies need brokers the first time. Auto-recovery needs one bookie to copy from. It does not start before
    that one: an auditor that sees no bookie at all takes every bookie of a store that was used before for lost.
    """
    metadata = None if facts.metadata_ready else facts.metadata_gate
    store = None
    if not facts.configuration_store.ready:
        store = Blocker(facts.configuration_store.reason, facts.configuration_store.message)
    elif not facts.registered:
        store = facts.metadata_gate
    enough = None if facts.bookies_writable else Blocker(Reason.WAITING_FOR_BOOKIES, facts.bookies_text)
    serving = None if facts.brokers_ready else Blocker(Reason.WAITING_FOR_BROKERS, facts.brokers_text)
    one = None if facts.bookie_ready or facts.bookies_writable else enough
    again = facts.proven
    brokers = metadata or (None if Component.BROKER in again else enough) or store
    # Proxies of a first bring-up say what brokers wait for.
    proxies = (metadata or store) if Component.PROXY in again else (brokers or serving)
    return {
        Component.ZOOKEEPER: None,
        Component.BOOKIE: metadata,
        Component.AUTORECOVERY: metadata or (None if again & _AFTER_BOOKIES else one),
        Component.BROKER: brokers,
        Component.PROXY: proxies,
        Component.STANDALONE: None,
    }


def majority(replicas: int) -> int:
    """Servers a ZooKeeper ensemble needs to answer."""
    return replicas // 2 + 1


def bring_up_facts(
    ensemble: int | None,
    store: StoreFact,
    components: Mapping[Component, ComponentFacts],
    metadata: MetadataFact | None,
    proven: Collection[Component] = (),
) -> BringUpFacts:
    """The gates' input, from what is known. ``ensemble`` is how many bookies an ensemble has, None in mode Standalone;
    ``metadata`` None = it was not looked at yet; ``proven`` are components of which every pod ran once."""
    zookeeper = components.get(Component.ZOOKEEPER)
    bookie, broker = components.get(Component.BOOKIE), components.get(Component.BROKER)
    if metadata is None:
        text = _text("ZooKeeper", zookeeper)
        gate = Blocker(Reason.WAITING_FOR_ZOOKEEPER, f"ZooKeeper is not ready: {text}")
    else:
        gate = Blocker(metadata.reason, metadata.message)
    return BringUpFacts(
        metadata_ready=metadata is not None and metadata.local_ready,
        metadata_gate=gate,
        bookies_writable=_enough_bookies(ensemble, bookie),
        bookies_text=f"Bookies are not ready: {_text('bookies', bookie)}",
        configuration_store=store,
        registered=metadata is not None and metadata.registered,
        brokers_ready=None if broker is None or broker.ready is None else broker.ready > 0,
        brokers_text=f"Brokers are not ready: {_text('brokers', broker)}",
        bookie_ready=None if bookie is None or bookie.ready is None else bookie.ready > 0,
        proven=frozenset(proven),
    )


def _enough_bookies(ensemble: int | None, bookie: ComponentFacts | None) -> bool | None:
    """Whether a ledger can be created: as many bookies as an ensemble has."""
    if bookie is None or bookie.ready is None or ensemble is None:
        return None
    return bookie.ready >= ensemble


def _text(what: str, facts: ComponentFacts | None) -> str:
    return facts.summary(what)[1] if facts is not None else f"{what}: not created yet"
