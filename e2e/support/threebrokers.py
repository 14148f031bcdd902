"""Three brokers whose own balancer is off and whose rates are young: what every test of balancing begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2e.support.admin import ask
from e2e.support.changes import answers, patch_cluster
from e2e.support.evening import STATS_SECONDS
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl
from e2e.support.skew import Brokers

YOUNG: Mapping[str, str] = {
    "statsUpdateFrequencyInSecs": str(STATS_SECONDS),
    "statsUpdateInitialDelayInSecs": str(STATS_SECONDS),
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


def three_brokers(kubectl: Kubectl, namespace: str, cluster: str, admin_url: str) -> Brokers:
    """Scale to three, with the settings YOUNG: by a roll where the brokers have others."""
    obj: dict[str, Any] | None = kubectl.get("pulsarcluster", namespace, cluster)
    assert obj is not None, f"PulsarCluster {namespace}/{cluster} is not there"
    config = obj["spec"]["broker"].get("config") or {}
    if YOUNG.items() <= config.items():
        kubectl.run("scale", "pulsarcluster", cluster, "-n", namespace, "--replicas=3")
    else:
        patch_cluster(kubectl, namespace, cluster, {"broker": {"replicas": 3, "config": YOUNG}})
    answers(admin_url)

    def registered() -> list[str]:
        found = sorted(ask(admin_url, "GET", f"brokers/{cluster}"))
        assert len(found) == 3, found
        return found

    ids = eventually(registered, within=180, what="three registered brokers")
    patch_cluster(kubectl, namespace, cluster, {})
    return Brokers(kubectl, namespace, cluster, admin_url, ids)
