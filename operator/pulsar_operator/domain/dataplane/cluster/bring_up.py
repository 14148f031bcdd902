"""The order of bring-up: which component may be created, and what the next one waits for. Pure.

Observed readiness decides, never time. A component that exists is always kept as rendered: a specification change must
reach it even while something before it is not ready.

There are two kinds of gates. The owner of the metadata store, and its address, gate every creation. Readiness gates
only the first creation: a component whose pods all ran once is created again regardless, since the component that is
not ready may depend on it. For the same reason auto-recovery never waits for a whole ensemble: bookies that lost their
volumes are not ready before auto-recovery has copied their ledgers.
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
"""Components whose pods, once they ran, prove that bookies ran."""


@dataclass(frozen=True)
class StoreFact:
    """The configuration store of the instance, as one of its clusters reads it."""

    ready: bool
    servers: str | None = None
    chroot: str | None = None
    since: str | None = None
    """Time at which it became ready, as a time of a status; None if it is not, or that is not known."""
    reason: Reason = Reason.WAITING_FOR_CONFIGURATION_STORE
    message: str = ""
    outages: Sequence[OutageStatus] = ()
    """Past outages, the latest first; empty if the store is the cluster's own metadata store, which brokers watch in
    another way."""
    session: timedelta = GRANTED
    """Longest session in seconds that its servers grant."""


@dataclass(frozen=True)
class BringUpFacts:
    """Input of the gates; None if a fact is not known."""

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
    """Components of which every pod was ready at least once in the life of the PulsarCluster."""


@dataclass(frozen=True)
class MetadataFact:
    """The cluster's metadata after this pass has checked it and, if necessary, initialized it."""

    local_ready: bool
    """Whether the local store contains the BookKeeper metadata of this cluster."""
    registered: bool
    """Whether the configuration store names this cluster."""
    reason: Reason
    message: str
    instance_id: str | None = None
    remote: Mapping[str, RemoteUrls | None] | None = None
    """Other clusters in the configuration store by name, with None for one that cannot be read; None if they were not
    read."""


def gates(facts: BringUpFacts) -> dict[Component, Blocker | None]:
    """Returns what blocks the creation of each component; None if nothing does.

    Bookies need BookKeeper's INSTANCEID. Brokers need the configuration store and, at their first creation, enough
    writable bookies; proxies need brokers at their first creation. Auto-recovery needs one bookie to copy from: without
    any bookie, the auditor would treat every bookie of a store that was used before as lost.
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
    """Returns the number of servers that a ZooKeeper ensemble needs for a quorum."""
    return replicas // 2 + 1


def bring_up_facts(
    ensemble: int | None,
    store: StoreFact,
    components: Mapping[Component, ComponentFacts],
    metadata: MetadataFact | None,
    proven: Collection[Component] = (),
) -> BringUpFacts:
    """Returns the input of the gates. ``ensemble`` is the number of bookies in an ensemble, None in mode Standalone;
    ``metadata`` is None if it was not checked yet; ``proven`` are components of which every pod ran once."""
    zookeeper = components.get(Component.ZOOKEEPER)
    bookie, broker = components.get(Component.BOOKIE), components.get(Component.BROKER)
    if metadata is None:
        gate = Blocker(Reason.WAITING_FOR_ZOOKEEPER, _text("ZooKeeper servers", zookeeper))
    else:
        gate = Blocker(metadata.reason, metadata.message)
    return BringUpFacts(
        metadata_ready=metadata is not None and metadata.local_ready,
        metadata_gate=gate,
        bookies_writable=_enough_bookies(ensemble, bookie),
        bookies_text=_text("bookies", bookie),
        configuration_store=store,
        registered=metadata is not None and metadata.registered,
        brokers_ready=None if broker is None or broker.ready is None else broker.ready > 0,
        brokers_text=_text("brokers", broker),
        bookie_ready=None if bookie is None or bookie.ready is None else bookie.ready > 0,
        proven=frozenset(proven),
    )


def _enough_bookies(ensemble: int | None, bookie: ComponentFacts | None) -> bool | None:
    """Whether a ledger can be created: the number of writable bookies reaches the ensemble size."""
    if bookie is None or bookie.ready is None or ensemble is None:
        return None
    return bookie.ready >= ensemble


def _text(what: str, facts: ComponentFacts | None) -> str:
    return facts.summary(what)[1] if facts is not None else f"The {what} are not created yet"
