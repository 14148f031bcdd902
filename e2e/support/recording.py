"""The chart's collector and Spark job beside the quickstart's cluster, and what they recorded and concluded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from e2e.support import history
from e2e.support.deploy import ROOT, Helm
from e2e.support.evening import STATS_SECONDS
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl

INSTANCE, CLUSTER = "demo", "east"
"""As the quickstart names them."""
SERVICE = f"{INSTANCE}-sizing"


@dataclass(frozen=True)
class Recording:
    """A collector that runs, and its job."""

    kubectl: Kubectl
    namespace: str

    def _get(self, path: str) -> str:
        """What the collector answers, through the API server. Raises KubectlError."""
        return self.kubectl.run(
            "get", "--raw", f"/api/v1/namespaces/{self.namespace}/services/{SERVICE}:8080/proxy/{path}"
        )

    def sampled(self, rows: int) -> None:
        """Wait until the collector has so many rows more than it had."""

        def count() -> float:
            found = re.search(r"^pulsar_sizing_rows_total\S* (\S+)$", self._get("metrics"), re.M)
            assert found is not None, "no rows counted"
            return float(found[1])

        first = eventually(lambda: (count(),), within=60, what="the collector's metrics")[0]
        eventually(lambda: count() > first + rows, within=240, what=f"{rows} more rows of the collector")

    def write_history(self, now: datetime, topics: Sequence[history.Placed]) -> str:
        """Days before the hour of ``now`` into the collector's store, by a process in its pod; what that says."""
        return self.kubectl.run(
            *("exec", "-i", f"deployment/{SERVICE}", "-n", self.namespace, "--", "python3", "-"),
            *history.arguments("/data", INSTANCE, CLUSTER, now, topics),
            stdin=Path(history.__file__).read_text(encoding="utf-8"),
            timeout=300,
        )

    def size(self, job: str) -> None:
        """Run the Spark job now."""
        self.kubectl.run("create", "job", job, f"--from=cronjob/{SERVICE}", "-n", self.namespace)
        self.kubectl.run(
            *("wait", "job", job, "-n", self.namespace, "--for=condition=Complete", "--timeout=240s"), timeout=250
        )

    def result(self) -> dict[str, Any]:
        """The latest sizing result. Raises KubectlError where there is none."""
        return dict(json.loads(self._get(f"v1/sizing/{CLUSTER}")))


@contextmanager
def recording(
    kubectl: Kubectl, helm: Helm, namespace: str, more: Mapping[str, str] | None = None
) -> Iterator[Recording]:
    """Both, with ``more`` of the chart's values; removed in the end, with all that was recorded."""
    values = {
        "instance.create": "false",
        "instance.name": INSTANCE,
        "cluster.name": CLUSTER,
        "sizing.enabled": "true",
        "sizing.image.tag": "dev",
        "sizing.collector.intervalSeconds": str(STATS_SECONDS),
        "sizing.storage.size": "1Gi",
        "sizing.job.growth": "1",
        # Tests record for minutes, and a cluster of users for a day at least.
        "sizing.job.minCoverageHours": "0",
        "sizing.job.resources.requests.cpu": "100m",
    }
    settings = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    settings += [part for key, value in (more or {}).items() for part in ("--set-string", f"{key}={value}")]
    rendered = helm.run(
        *("template", CLUSTER, str(ROOT / "helm/pulsar"), "-n", namespace, "--kube-version", "1.35.0"),
        *("--show-only", "templates/sizing.yaml", *settings),
    )
    kubectl.apply(rendered)
    try:
        kubectl.run("rollout", "status", f"deployment/{SERVICE}", "-n", namespace, "--timeout=180s", timeout=200)
        yield Recording(kubectl, namespace)
    finally:
        kubectl.run("delete", "-n", namespace, "-f", "-", "--ignore-not-found", stdin=rendered)
