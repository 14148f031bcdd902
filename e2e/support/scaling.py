"""The number of brokers or proxies of a cluster as a user sees it, while the operator decides it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.support.changes import patch_cluster
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition
from e2e.support.skew import Brokers


@dataclass(frozen=True)
class Scaling:
    """Of one cluster, whose first two pods always stay."""

    kubectl: Kubectl
    namespace: str
    cluster: str = "east"
    part: str = "broker"
    """Or ``proxy``: the field of spec and status, and the component of the pods."""
    left: int = 3
    """How many there are in the end."""

    def obj(self) -> dict[str, Any]:
        """The PulsarCluster."""
        found = self.kubectl.get("pulsarcluster", self.namespace, self.cluster)
        assert found is not None
        return dict(found)

    def patch(self, spec: Mapping[str, object]) -> None:
        """Change ``spec.broker``, and wait until the pods are as it says."""
        patch_cluster(self.kubectl, self.namespace, self.cluster, {self.part: spec})

    def row(self) -> dict[str, Any]:
        """What the status says of their number."""
        return dict((self.obj()["status"].get("autoscaling") or {}).get(self.part) or {})

    def there(self, number: int) -> bool:
        """So many of them, ready, and no other."""
        found = self.obj()["status"][self.part]
        assert (found["desired"], found["ready"]) == (number, number), found
        return True

    def scaled(self, number: int) -> bool:
        """So many of them, decided, there and ready, nobody under way."""
        status = self.obj()["status"]
        row = (status.get("autoscaling") or {}).get(self.part) or {}
        assert (row.get("desired"), row.get("current")) == (number, number), json.dumps(row)
        assert "drain" not in status, status["drain"]
        return self.there(number)

    def at_rest(self) -> bool:
        """Nothing is asked for that is not there; at the minimum there is less load than it could carry."""
        found = condition(self.obj(), "ScalingActive")
        assert found["reason"] in ("WithinTarget", "ScaledIn", "AtLimit"), found
        return True

    def first_two(self) -> dict[str, str]:
        """UIDs of the pods that stay."""
        found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in self.pods()}
        return {name: found[name] for name in (self.pod(n) for n in range(2)) if name in found}

    def pod(self, ordinal: int) -> str:
        """Name of one of them."""
        return f"{self.cluster}-{self.part}-{ordinal}"

    def pods(self) -> list[dict[str, Any]]:
        """Their pods, those that stop too."""
        return self.kubectl.items("pods", self.namespace, f"app.kubernetes.io/component={self.part}")

    def events(self, reason: str) -> list[str]:
        """Messages of events with a reason, each once."""
        found = self.kubectl.items("events", self.namespace)
        return list(dict.fromkeys(each["message"] for each in found if each["reason"] == reason))

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Whatever becomes of a test, ``left`` of them without autoscaling are left."""
        try:
            yield
        finally:
            self.patch({"autoscaling": None, "replicas": self.left})
            eventually(lambda: self.there(self.left), within=300, what=f"{self.left} {self.part} pods", every=1.0)


def shared(brokers: Brokers) -> bool:
    """Whether the third broker has bundles of the tests' namespace."""
    third = next(each for each in brokers.ids if each.startswith("east-broker-2."))
    owned = brokers.owned(third)
    assert len(owned) >= 2, owned
    return True
