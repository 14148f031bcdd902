"""The operator's own metrics, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

PASS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
ADMIN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Tally = Callable[[], Mapping[tuple[str, str], int]]
"""Returns counts by two labels."""


class _Counts:
    """A prometheus_client collector that counts at each scrape, so that deleted objects leave no series."""

    def __init__(self, name: str, documentation: str, labels: tuple[str, str], tally: Tally) -> None:
        self._name, self._documentation, self._labels, self._tally = name, documentation, labels, tally

    def collect(self) -> Iterable[Metric]:
        """Yields the metric."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, number in sorted(self._tally().items()):
            family.add_metric(labels, number)
        yield family


class PrometheusMetrics:
    """Implements ports.MetricsPort with its own registry."""

    def __init__(self, now: Callable[[], float]) -> None:
        """``now`` is a monotonic clock in seconds, for the age of the last watch event."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._now = now
        self._reconciles = Counter(
            "pulsar_operator_reconciles", "Reconcile passes ended.", ["kind", "result"], registry=self.registry
        )
        self._duration = Histogram(
            "pulsar_operator_reconcile_duration_seconds",
            "Duration of a reconcile pass.",
            ["kind"],
            buckets=PASS_BUCKETS,
            registry=self.registry,
        )
        self._errors = Counter(
            "pulsar_operator_reconcile_errors",
            "Reconcile passes that failed and are tried again.",
            ["kind"],
            registry=self.registry,
        )
        self._depth = Gauge("pulsar_operator_queue_depth", "Keys that wait for a worker.", registry=self.registry)
        self._admin = Counter(
            "pulsar_operator_admin_calls",
            "Attempts at Pulsar's admin REST; status is the HTTP status or the kind of error.",
            ["cluster", "method", "status"],
            registry=self.registry,
        )
        self._admin_duration = Histogram(
            "pulsar_operator_admin_call_duration_seconds",
            "Duration of one attempt at Pulsar's admin REST.",
            ["cluster", "method"],
            buckets=ADMIN_BUCKETS,
            registry=self.registry,
        )
        self._admin_children: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        """Child metrics by labels: a pass over a topic makes a dozen calls, and the lookup of a child takes longer than
        counting."""
        self._writes = Counter(
            "pulsar_operator_kube_writes", "Writes to the API server.", ["verb", "kind"], registry=self.registry
        )
        self._scaling = Counter(
            "pulsar_operator_scaling_decisions",
            "Autoscaling evaluations of a component of a PulsarCluster, by decision.",
            ["namespace", "cluster", "component", "reason"],
            registry=self.registry,
        )
        self._handovers = Counter(
            "pulsar_operator_balancer_handovers",
            "Times the operator restored Pulsar's load balancer because it could not decide what to move.",
            ["namespace", "cluster"],
            registry=self.registry,
        )
        self._watch_restarts = Counter(
            "pulsar_operator_watch_restarts",
            "Lists and watches that ended abnormally and were restarted, by reason.",
            ["kind", "reason"],
            registry=self.registry,
        )
        self._watch_age = Gauge(
            "pulsar_operator_watch_last_event_age_seconds",
            "Seconds since the last event or bookmark of a watch stream.",
            ["kind"],
            registry=self.registry,
        )

    def count_objects(self, tally: Tally) -> None:
        """Registers the number of custom resources by kind and reason of Ready, counted when the metrics are read. It
        is called once."""
        text = "Custom resources in the watched namespaces, by the reason of their condition Ready."
        self.registry.register(_Counts("pulsar_operator_objects", text, ("kind", "reason"), tally))

    def count_streams(self, tally: Tally) -> None:
        """Registers the number of watch streams by kind and state, counted when the metrics are read. It is called
        once."""
        text = "Watch streams by state (listing, watching, failing, refused); a kind has one in each watched namespace."
        self.registry.register(_Counts("pulsar_operator_watch_streams", text, ("kind", "state"), tally))

    def reconciled(self, kind: str, result: str, seconds: float) -> None:
        """Counts a reconcile that ended. The result is ok, requeue or error."""
        self._reconciles.labels(kind, result).inc()
        self._duration.labels(kind).observe(seconds)
        if result == "error":
            self._errors.labels(kind).inc()

    def queue_depth(self, depth: int) -> None:
        """Sets the number of waiting keys."""
        self._depth.set(depth)

    def admin_call(self, cluster: str, method: str, status: str, seconds: float) -> None:
        """Counts an attempt of an admin REST call."""
        known = self._admin_children.get((cluster, method, status))
        if known is None:
            known = self._admin.labels(cluster, method, status), self._admin_duration.labels(cluster, method)
            self._admin_children[cluster, method, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def kube_write(self, verb: str, kind: str) -> None:
        """Counts a write to the API server."""
        self._writes.labels(verb, kind).inc()

    def event_received(self, kind: str) -> None:
        """Records that a watch event or bookmark of a kind arrived. Its age is computed when the metrics are read."""
        observed_at = self._now()
        self._watch_age.labels(kind).set_function(lambda: self._now() - observed_at)

    def watch_restarted(self, kind: str, reason: str) -> None:
        """Counts a list or a watch of a kind that ended abnormally and restarts."""
        self._watch_restarts.labels(kind, reason).inc()

    def scaling_decided(self, namespace: str, cluster: str, component: str, reason: str) -> None:
        """Counts an evaluation of a component of a PulsarCluster by autoscaling."""
        self._scaling.labels(namespace, cluster, component, reason).inc()

    def balancer_restored(self, namespace: str, cluster: str) -> None:
        """Counts that the operator restored Pulsar's load balancer because it could not decide what to move."""
        self._handovers.labels(namespace, cluster).inc()

    def render(self) -> bytes:
        """Returns all metrics in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)
