"""The listener plan: where the processes of a component listen, and by which names and URLs they are reached.

Ports, probes, Services, advertised addresses, URLs of ClusterData and ids of brokers and bookies all follow from it. No
other module knows a port number of Pulsar, BookKeeper or ZooKeeper (tests/unit/render/test_listener_plan.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.listeners import INTERNAL, Listener
from pulsar_operator.api.v1alpha1.tls import EdgeMode
from pulsar_operator.domain.render.child_names import Owner, headless_name, pod_host, service_host, workload_name

PULSAR, HTTP = "pulsar", "http"
"""Names of the ports of Pulsar's binary protocol, and of HTTP: admin REST, probes and metrics. A service mesh treats a
port as HTTP only where the name or appProtocol says so."""
PULSAR_TLS, HTTPS = "tls-pulsar", "https"
"""Names of the ports of the same protocols with TLS, which show a service mesh that they are encrypted already."""
_CLIENT, _BOOKIE = "client", "bookie"
BOOKKEEPER_HTTP_PORT = 8000
"""HTTP server of bookies and of auto-recovery. ZooKeeper servers serve metrics at the same number."""
ZOOKEEPER_PORT = 2181
_BOOKIE_PORT = 3181


@dataclass(frozen=True)
class Served:
    """What the main container of a component listens on."""

    ports: Mapping[str, int]
    """Number by name of the port."""
    keys: Mapping[str, str]
    """Name of the port by the setting that contains its number. The setting is empty if there is no such port."""
    clients: tuple[str, ...] = ()
    """Names of the ports of the Service for all pods; empty if there is no such Service."""


_SERVER = {PULSAR: 6650, HTTP: 8080}
_SERVER_TLS = {PULSAR_TLS: 6651, HTTPS: 8443}
_PROXY_KEYS = {"servicePort": PULSAR, "webServicePort": HTTP}
_PROXY_TLS_KEYS = {**_PROXY_KEYS, "servicePortTls": PULSAR_TLS, "webServicePortTls": HTTPS}
PROXIES: Mapping[EdgeMode, Served] = {
    EdgeMode.PLAIN: Served(_SERVER, _PROXY_KEYS, tuple(_SERVER)),
    EdgeMode.PLAIN_AND_TLS: Served({**_SERVER, **_SERVER_TLS}, _PROXY_TLS_KEYS, (*_SERVER, *_SERVER_TLS)),
    EdgeMode.REQUIRED: Served(_SERVER_TLS, _PROXY_TLS_KEYS, tuple(_SERVER_TLS)),
}
"""What proxies listen on, by the mode of spec.tls.edge."""
_BROKER = Served(_SERVER, {"brokerServicePort": PULSAR, "webServicePort": HTTP}, (PULSAR, HTTP))
_ZOOKEEPER = Served({_CLIENT: ZOOKEEPER_PORT, "quorum": 2888, "election": 3888}, {}, (_CLIENT,))
SERVED: Mapping[Component, Served] = {
    Component.ZOOKEEPER: _ZOOKEEPER,
    Component.CONFIGURATION_STORE: _ZOOKEEPER,
    Component.BOOKIE: Served(
        {_BOOKIE: _BOOKIE_PORT, HTTP: BOOKKEEPER_HTTP_PORT}, {"bookiePort": _BOOKIE, "httpServerPort": HTTP}
    ),
    Component.AUTORECOVERY: Served({HTTP: BOOKKEEPER_HTTP_PORT}, {"httpServerPort": HTTP}),
    Component.BROKER: _BROKER,
    Component.PROXY: PROXIES[EdgeMode.PLAIN],
    Component.STANDALONE: _BROKER,
}
"""By component, without the metrics port that a ZooKeeper server has on request, and of proxies without TLS."""
METRICS_PORTS = {HTTP: BOOKKEEPER_HTTP_PORT}


@dataclass(frozen=True)
class ListenerPlan:
    """Ports, names and addresses of one component of an owner."""

    owner: Owner
    component: Component
    cluster_domain: str
    metrics: bool = False
    """Whether the component serves metrics at a separate port (METRICS_PORTS)."""
    external: tuple[Listener, ...] = ()
    """External listeners of brokers."""
    edge: EdgeMode = EdgeMode.PLAIN
    """Which connections proxies accept."""
    edge_host: str | None = None
    """Host by which clients reach proxies with TLS; None for the Service for all pods."""

    @property
    def served(self) -> Served:
        """Returns what the main container listens on, without external listeners and the separate metrics port."""
        return PROXIES[self.edge] if self.component is Component.PROXY else SERVED[self.component]

    @property
    def tls(self) -> bool:
        """Whether the pods need a certificate."""
        return PULSAR_TLS in self.served.ports or any(each.tls for each in self.external)

    @property
    def ports(self) -> Mapping[str, int]:
        """Returns the ports of the main container, number by name."""
        external = {each.name: each.port for each in self.external}
        return {**self.served.ports, **(METRICS_PORTS if self.metrics else {}), **external}

    @property
    def client_ports(self) -> Mapping[str, int]:
        """Returns the ports of the Service for all pods; empty if there is no such Service."""
        return {name: self.ports[name] for name in self.served.clients}

    @property
    def settings(self) -> dict[str, str]:
        """Returns the settings with which a process listens on the ports. A client that connects to the port of an
        external listener gets its addresses, without naming it (PIP-95 of Pulsar)."""
        ports = self.ports
        found = {key: str(ports.get(name, "")) for key, name in self.served.keys.items()}
        if self.external:
            found["internalListenerName"] = INTERNAL
            found["bindAddresses"] = ",".join(
                f"{each.name}:{pulsar_url(f'0.0.0.0:{each.port}', tls=each.tls)}" for each in self.external
            )
        return found

    @property
    def workload(self) -> str:
        """Returns the name of the StatefulSet and of the Service for all pods."""
        return workload_name(self.owner.name, self.component)

    @property
    def addresses(self) -> str:
        """Returns the name of the ConfigMap with the addresses of brokers at external listeners."""
        return f"{self.workload}-listeners"

    def pod(self, ordinal: int) -> str:
        """Returns the name of one pod."""
        return f"{self.workload}-{ordinal}"

    @property
    def headless(self) -> str:
        """Returns the name of the Service that gives each pod its own host name."""
        return headless_name(self.workload)

    @property
    def host(self) -> str:
        """Returns the host name of the Service for all pods."""
        return service_host(self.workload, self.owner.namespace, self.cluster_domain)

    @property
    def headless_host(self) -> str:
        """Returns the domain of the pods' host names."""
        return service_host(self.headless, self.owner.namespace, self.cluster_domain)

    @property
    def advertised_address(self) -> str:
        """Returns the host name of a pod, which Kubernetes composes from its environment variable POD_NAME. Together
        with the HTTP port it is the id of a broker."""
        return f"$(POD_NAME).{self.headless_host}"

    def pod_host(self, ordinal: int) -> str:
        """Returns the host name of one pod."""
        return pod_host(self.workload, ordinal, self.owner.namespace, self.cluster_domain)

    def broker_id(self, ordinal: int) -> str:
        """Returns the id of a broker: Pulsar builds it from advertisedAddress and webServicePort."""
        return f"{self.pod_host(ordinal)}:{self.ports[HTTP]}"

    @property
    def service_url(self) -> str:
        """Returns the URL of the binary protocol at the Service for all pods; with TLS only if there is no other."""
        return pulsar_url(f"{self.host}:{self.ports[PULSAR]}") if PULSAR in self.ports else self._service_url_tls

    @property
    def web_service_url(self) -> str:
        """Returns the URL of admin REST at the Service for all pods; with TLS only if there is no other."""
        return f"http://{self.host}:{self.ports[HTTP]}" if HTTP in self.ports else self._web_service_url_tls

    @property
    def service_url_tls(self) -> str | None:
        """Returns the URL of the binary protocol with TLS; None if there is none."""
        return self._service_url_tls if PULSAR_TLS in self.ports else None

    @property
    def web_service_url_tls(self) -> str | None:
        """Returns the URL of admin REST with TLS; None if there is none."""
        return self._web_service_url_tls if HTTPS in self.ports else None

    @property
    def _service_url_tls(self) -> str:
        return pulsar_url(f"{self.edge_host or self.host}:{self.ports[PULSAR_TLS]}", tls=True)

    @property
    def _web_service_url_tls(self) -> str:
        return f"https://{self.edge_host or self.host}:{self.ports[HTTPS]}"

    @property
    def store_servers(self) -> str:
        """Returns the address of a metadata store at the Service for all pods. It does not depend on the number of
        servers, so a change of that causes no rollout."""
        return f"{self.host}:{self.ports[_CLIENT]}"

    def store_server(self, ordinal: int) -> str:
        """Returns the address of one server of a metadata store."""
        return f"{self.pod_host(ordinal)}:{self.ports[_CLIENT]}"

    def bookie_id(self, ordinal: int) -> str:
        """Returns the id with which a bookie registers first."""
        return bookie_id(self.workload, ordinal, self.owner.namespace, self.cluster_domain, self.ports[_BOOKIE])


def bookie_id(workload: str, ordinal: int, namespace: str, cluster_domain: str, port: int = _BOOKIE_PORT) -> str:
    """Returns the id with which a bookie registers: BookKeeper builds it from advertisedAddress and bookiePort."""
    return f"{pod_host(workload, ordinal, namespace, cluster_domain)}:{port}"


def pulsar_url(address: str, *, tls: bool = False) -> str:
    """Returns the URL of the binary protocol at host:port, or at several of them with commas between."""
    return f"pulsar+ssl://{address}" if tls else f"pulsar://{address}"


def http_probe(path: str, plan: ListenerPlan | None = None) -> dict[str, Any]:
    """Returns a probe handler for a GET request at the HTTP port, or with TLS if ``plan`` has no such port. The kubelet
    does not verify the certificate."""
    if plan is not None and HTTP not in plan.ports:
        return {"httpGet": {"path": path, "port": HTTPS, "scheme": "HTTPS"}}
    return {"httpGet": {"path": path, "port": HTTP}}


def tcp_probe(port: str = HTTP) -> dict[str, Any]:
    """Returns a probe handler for a connection to a port."""
    return {"tcpSocket": {"port": port}}


def pod_url(address: str, port: int, path: str, *, tls: bool = False) -> str:
    """Returns the URL of a page at a pod's IP address."""
    return f"{'https' if tls else 'http'}://{f'[{address}]' if ':' in address else address}:{port}{path}"
