"""All ports together, in the form in which every controller receives them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_operator.domain.dataplane.instance.geo_replication import ReplicationReadings
from pulsar_operator.domain.dataplane.instance.reachability import Reachability
from pulsar_operator.domain.dataplane.observed.store_sessions import StoreReads
from pulsar_operator.domain.dataplane.rollout.versions import Jumps
from pulsar_operator.domain.render.settings import KnownSettings
from pulsar_operator.ports.admin import PulsarAdminPort
from pulsar_operator.ports.bookies import BookiePort
from pulsar_operator.ports.counters import CountersPort
from pulsar_operator.ports.kube import KubePort, ReaderPort
from pulsar_operator.ports.process import Clock, Entropy, MetricsPort
from pulsar_operator.ports.sizing import SizingPort
from pulsar_operator.ports.zookeeper import ZooKeeperPort


@dataclass(frozen=True)
class OperatorImages:
    """Default images of the data plane; ``{version}`` is replaced by spec.version."""

    broker: str = "pulsar-broker:{version}"
    bookie: str = "pulsar-bookie:{version}"
    proxy: str = "pulsar-proxy:{version}"


@dataclass(frozen=True)
class Deps:
    """Everything a controller may use."""

    kube: KubePort
    zookeeper: ZooKeeperPort
    admin: PulsarAdminPort
    clock: Clock
    entropy: Entropy
    metrics: MetricsPort
    bookies: BookiePort
    images: OperatorImages = field(default_factory=OperatorImages)
    reader: ReaderPort | None = None
    """Objects from the watches; if None, the API server is asked. See controllers/core/watch_cache.py."""
    sizing: SizingPort | None = None
    """Results of the Spark job; None if there are none."""
    counters: CountersPort | None = None
    """Metrics of the data plane's pods; None if they are not read."""
    reachability: Reachability = field(default_factory=Reachability)
    """Which clusters answered the calls of this process."""
    replication: ReplicationReadings = field(default_factory=ReplicationReadings)
    """What brokers reported to this process about replication."""
    store_reads: StoreReads = field(default_factory=StoreReads)
    """What this process read from configuration stores."""
    jumps: Jumps = field(default_factory=Jumps)
    """Allowed upgrades and downgrades between versions of Pulsar; by default none."""
    operator_role: str = ""
    """Role of the operator in a Pulsar that authenticates its clients; empty if it has no ServiceAccount."""
    settings: KnownSettings = field(default_factory=KnownSettings)
    """Names of settings by version of Pulsar; empty by default."""
