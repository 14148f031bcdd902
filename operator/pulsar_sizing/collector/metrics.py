"""What the collector counts, in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

ROUND_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class CollectorMetrics:
    """A separate registry; names begin with pulsar_sizing_."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._rounds = Counter(
            "pulsar_sizing_rounds",
            "Rounds ended: complete (every broker answered), partial, failed (none did, or no list of brokers).",
            ["cluster", "result"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "pulsar_sizing_round_duration_seconds",
            "Duration of a round.",
            ["cluster"],
            buckets=ROUND_BUCKETS,
            registry=self.registry,
        )
        self._answered = Gauge(
            "pulsar_sizing_brokers_answered", "Brokers of the last round recorded.", ["cluster"], registry=self.registry
        )
        self._missing = Gauge(
            "pulsar_sizing_brokers_missing",
            "Brokers of the last round that did not answer.",
            ["cluster"],
            registry=self.registry,
        )
        self._last = Gauge(
            "pulsar_sizing_last_round_timestamp_seconds",
            "Unix time of the last round's samples.",
            ["cluster"],
            registry=self.registry,
        )
        self._rows = Counter("pulsar_sizing_rows", "Topic samples recorded.", ["cluster"], registry=self.registry)
        self._left_out = Counter(
            "pulsar_sizing_topics_incomplete",
            "Topics left out because the broker gave no rates for them.",
            ["cluster"],
            registry=self.registry,
        )
        self._received = Counter(
            "pulsar_sizing_received_bytes", "Bytes of broker statistics parsed.", ["cluster"], registry=self.registry
        )
        self._stored = Counter(
            "pulsar_sizing_stored_bytes", "Bytes of files written.", ["cluster"], registry=self.registry
        )
        self._upkeep = Counter(
            "pulsar_sizing_upkeep",
            "Upkeep of the store: days past retention and leftovers deleted, failures.",
            ["what"],
            registry=self.registry,
        )

    def round_ended(
        self, cluster: str, *, sampled: float, seconds: float, answered: int, missing: int, listed: bool
    ) -> None:
        """One round of a cluster ended; ``sampled`` is its Unix time."""
        failed = not listed or (missing > 0 and answered == 0)
        self._rounds.labels(cluster, "failed" if failed else "partial" if missing else "complete").inc()
        self._seconds.labels(cluster).observe(seconds)
        self._answered.labels(cluster).set(answered)
        self._missing.labels(cluster).set(missing)
        self._last.labels(cluster).set(sampled)

    def recorded(self, cluster: str, *, rows: int, incomplete: int, received: int, stored: int) -> None:
        """One broker's sample is on the store."""
        self._rows.labels(cluster).inc(rows)
        self._left_out.labels(cluster).inc(incomplete)
        self._received.labels(cluster).inc(received)
        self._stored.labels(cluster).inc(stored)

    def upkeep(self, what: str, count: int) -> None:
        """Counts actions of the upkeep."""
        self._upkeep.labels(what).inc(count)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)
