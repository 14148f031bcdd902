"""External listeners of the cluster as its users see them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.support.admin import SECONDS
from e2e.support.changes import patch_cluster
from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition

NAME, PORT = "external", 6660


@dataclass(frozen=True)
class External:
    """A listener of type NodePort; the machine that runs the tests reaches the node by its address."""

    kubectl: Kubectl
    namespace: str
    admin_url: str
    cluster: str = "east"

    @contextmanager
    def opened(self) -> Iterator[str]:
        """The listener, ready; yields the URL for clients, and takes it out again."""
        listener = {"name": NAME, "type": "NodePort", "port": PORT, "host": self.node()}
        try:
            patch_cluster(self.kubectl, self.namespace, self.cluster, {"listeners": [listener]})
            yield self.url()
        finally:
            patch_cluster(self.kubectl, self.namespace, self.cluster, {"listeners": None})

    def node(self) -> str:
        """Address of the node."""
        addresses = self.kubectl.json("get", "nodes")["items"][0]["status"]["addresses"]
        return str(next(each["address"] for each in addresses if each["type"] == "InternalIP"))

    def obj(self) -> dict[str, Any]:
        """The PulsarCluster."""
        found = self.kubectl.get("pulsarcluster", self.namespace, self.cluster)
        assert found is not None
        return dict(found)

    def url(self) -> str:
        """The URL that the status has for clients outside."""
        found = self.obj()
        assert condition(found, "ListenersReady")["status"] == "True", condition(found, "ListenersReady")
        return str(found["status"]["listeners"][0]["serviceUrl"])

    def ports(self) -> dict[str, int]:
        """Node port by name of the Service of each broker, and of the bootstrap Service."""
        found = self.kubectl.items("services", self.namespace, "app.kubernetes.io/component=broker")
        return {
            each["metadata"]["name"]: int(each["spec"]["ports"][0]["nodePort"])
            for each in found
            if each["metadata"]["name"].endswith(f"-{NAME}")
        }

    def expected(self) -> dict[str, str]:
        """URL at which a client outside is sent to each broker, by pod."""
        found = self.ports()
        found.pop(f"{self.cluster}-broker-{NAME}")
        return {name.removesuffix(f"-{NAME}"): f"pulsar://{self.node()}:{port}" for name, port in found.items()}

    def looked_up(self, topic: str) -> str:
        """URL to which a lookup of the listener sends the clients of a topic."""
        path = topic.replace("://", "/", 1)
        url = f"{self.admin_url}/lookup/v2/topic/{path}?listenerName={NAME}"
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return str(json.loads(answer.read())["brokerUrl"])
