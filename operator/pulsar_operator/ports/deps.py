"""All ports together, as they are given to every controller."""

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
    """What the watches delivered; None = the API server is asked. See controllers/core/watch_cache.py."""
    sizing: SizingPort | None = None
    """Results of the Spark job; None = there are none."""
    counters: CountersPort | None = None
    """Metrics of the data plane's pods; None = nobody reads them."""
    reachability: Reachability = field(default_factory=Reachability)
    """Which clusters answered the calls of this process."""
    replication: ReplicationReadings = field(default_factory=ReplicationReadings)
    """What brokers said of replication to this process."""
    store_reads: StoreReads = field(default_factory=StoreReads)
    """What configuration stores answered this process."""
    jumps: Jumps = field(default_factory=Jumps)
    """From which version of Pulsar to which a cluster may go; by default to none."""
    settings: KnownSettings = field(default_factory=KnownSettings)
    """Names of settings by version of Pulsar; by default of none."""
