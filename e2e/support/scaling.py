"""The number of brokers of a cluster as a user sees it, while the operator decides it."""

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
    """Of one cluster, whose first two brokers always stay."""

    kubectl: Kubectl
    namespace: str
    cluster: str = "east"

    def obj(self) -> dict[str, Any]:
        """The PulsarCluster."""
        found = self.kubectl.get("pulsarcluster", self.namespace, self.cluster)
        assert found is not None
        return dict(found)

    def patch(self, broker: Mapping[str, object]) -> None:
        """Change ``spec.broker``, and wait until the pods are as it says."""
        patch_cluster(self.kubectl, self.namespace, self.cluster, {"broker": broker})

    def row(self) -> dict[str, Any]:
        """What the status says of their number."""
        return dict((self.obj()["status"].get("autoscaling") or {}).get("broker") or {})

    def there(self, number: int) -> bool:
        """So many brokers, ready, and no other."""
        found = self.obj()["status"]["broker"]
        assert (found["desired"], found["ready"]) == (number, number), found
        return True

    def scaled(self, number: int) -> bool:
        """So many brokers, decided, there and ready, nobody under way."""
        status = self.obj()["status"]
        row = (status.get("autoscaling") or {}).get("broker") or {}
        assert (row.get("desired"), row.get("current")) == (number, number), json.dumps(row)
        assert "drain" not in status, status["drain"]
        return self.there(number)

    def at_rest(self) -> bool:
        """Nothing is asked for that is not there; at the minimum there is less load than it could carry."""
        found = condition(self.obj(), "ScalingActive")
        assert found["reason"] in ("WithinTarget", "ScaledIn", "AtLimit"), found
        return True

    def first_two(self) -> dict[str, str]:
        """UIDs of the pods of the brokers that stay."""
        pods = self.kubectl.items("pods", self.namespace, "app.kubernetes.io/component=broker")
        found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods}
        return {name: found[name] for name in (f"{self.cluster}-broker-{n}" for n in range(2)) if name in found}

    def events(self, reason: str) -> list[str]:
        """Messages of events with a reason, each once."""
        found = self.kubectl.items("events", self.namespace)
        return list(dict.fromkeys(each["message"] for each in found if each["reason"] == reason))

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Whatever becomes of a test, three brokers without autoscaling are left."""
        try:
            yield
        finally:
            self.patch({"autoscaling": None, "replicas": 3})
            eventually(lambda: self.there(3), within=300, what="three brokers", every=1.0)


def shared(brokers: Brokers) -> bool:
    """Whether the third broker has bundles of the tests' namespace."""
    third = next(each for each in brokers.ids if each.startswith("east-broker-2."))
    owned = brokers.owned(third)
    assert len(owned) >= 2, owned
    return True
