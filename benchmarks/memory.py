"""Resident memory of every container of a namespace: VmRSS of process 1, as the kernel reports it.

    python -m benchmarks.memory pulsar-demo pulsar

The bar of preset Small: ZooKeeper, bookie, auto-recovery, broker and proxy together below 2 GB, five minutes after the
last of them started. The age of each pod is printed, so that a reader sees whether the five minutes have passed.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from e2e.kind.paths import paths
from e2e.support.kubectl import Kubectl

BAR_MIB = 2000.0


def resident_mib(kubectl: Kubectl, namespace: str, pod: str) -> float:
    """VmRSS of process 1 in MiB."""
    text = kubectl.run("exec", "-n", namespace, pod, "--", "cat", "/proc/1/status")
    found = re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no VmRSS in /proc/1/status of pod {pod}")
    return int(found.group(1)) / 1024


def main(cluster: str = "pulsar-demo", namespace: str = "pulsar") -> None:
    """Print the table."""
    where = paths()
    kubectl = Kubectl(where["kubectl"], Path(where["kubeconfigs"][cluster]))
    total = 0.0
    print(f"{'pod':<28}{'age':>8}{'resident':>12}")
    for pod in kubectl.items("pods", namespace, "app.kubernetes.io/managed-by=pulsar-operator"):
        started = datetime.fromisoformat(pod["status"]["startTime"].replace("Z", "+00:00"))
        size = resident_mib(kubectl, namespace, pod["metadata"]["name"])
        total += size
        age = (datetime.now(UTC) - started).total_seconds()
        print(f"{pod['metadata']['name']:<28}{age:>6.0f} s{size:>8.0f} MiB")
    print(f"{'together':<36}{total:>8.0f} MiB   bar {BAR_MIB:.0f} MiB: {'met' if total < BAR_MIB else 'missed'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
