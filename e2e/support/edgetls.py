"""A cluster with TLS at the edge as its users see it: its authority, the Secret, and connections to the proxies."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulsar
from cryptography import x509

from e2e.support.kubectl import Kubectl, KubectlError
from e2e.support.objects import condition
from tests.support.certificates import Issued, authority, contents, issue, secret

SECRET, CLUSTER = "east-edge", "east"
PULSAR_TLS_PORT, HTTPS_PORT = 30651, 30443
"""Node ports."""
SECONDS = 10
_OPEN = "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); print('open')"


@dataclass(frozen=True)
class EdgeTls:
    """The cluster, and the authority of its certificates."""

    kubectl: Kubectl
    namespace: str
    folder: Path
    root: Issued = field(default_factory=authority)

    def __post_init__(self) -> None:
        self.ca_file.write_bytes(self.root.pem)
        self.other_ca_file.write_bytes(authority("Another CA").pem)

    @property
    def ca_file(self) -> Path:
        """The authority."""
        return self.folder / "ca.crt"

    @property
    def other_ca_file(self) -> Path:
        """An authority that issued nothing."""
        return self.folder / "other.crt"

    def node(self) -> str:
        """Address of the node; the machine that runs the tests reaches it."""
        addresses = self.kubectl.json("get", "nodes")["items"][0]["status"]["addresses"]
        return str(next(each["address"] for each in addresses if each["type"] == "InternalIP"))

    @property
    def url(self) -> str:
        """URL of the binary protocol with TLS."""
        return f"pulsar+ssl://{self.node()}:{PULSAR_TLS_PORT}"

    @property
    def web_url(self) -> str:
        """URL of admin REST with TLS."""
        return f"https://{self.node()}:{HTTPS_PORT}"

    def issued(self) -> Issued:
        """A certificate for the Service of the proxies, and for the address of the node."""
        host = f"{CLUSTER}-proxy.{self.namespace}.svc.cluster.local"
        return issue(CLUSTER, issuer=self.root, names=[host, self.node()])

    def give(self, data: dict[str, bytes]) -> None:
        """Write the Secret."""
        self.kubectl.apply(json.dumps(secret(SECRET, self.namespace, data)))

    def give_good(self) -> Issued:
        """Write the Secret with a new certificate."""
        leaf = self.issued()
        self.give(contents(leaf, self.root))
        return leaf

    def told(self, kind: str = "TLSReady") -> dict[str, Any]:
        """A condition of the cluster."""
        found = self.kubectl.get("pulsarcluster", self.namespace, CLUSTER)
        assert found is not None
        return dict(condition(found, kind))

    def status(self) -> dict[str, Any]:
        """Status of the cluster."""
        found = self.kubectl.get("pulsarcluster", self.namespace, CLUSTER)
        assert found is not None
        return dict(found["status"])

    def proxies(self) -> dict[str, str]:
        """UID of each proxy, by name."""
        pods = self.kubectl.items("pods", self.namespace, "app.kubernetes.io/component=proxy")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

    def served(self) -> x509.Certificate:
        """The certificate that the proxies show, verified by the authority and for the address of the node."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        with (
            socket.create_connection((self.node(), PULSAR_TLS_PORT), timeout=SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=self.node()) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown)

    def refusal(self, ca_file: Path, host: str) -> str:
        """Why a client that expects this host does not trust the proxies."""
        context = ssl.create_default_context(cafile=str(ca_file))
        with socket.create_connection((self.node(), PULSAR_TLS_PORT), timeout=SECONDS) as plain:
            try:
                context.wrap_socket(plain, server_hostname=host).close()
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
        return "trusted"

    def open_ports(self) -> dict[str, set[int]]:
        """Ports that each proxy accepts connections at, tried from a broker."""
        pods = self.kubectl.items("pods", self.namespace, "app.kubernetes.io/component=proxy")
        found: dict[str, set[int]] = {}
        for pod in pods:
            name, address = pod["metadata"]["name"], pod["status"]["podIP"]
            found[name] = {port for port in (6650, 6651, 8080, 8443) if self._opens(address, port)}
        return found

    def _opens(self, address: str, port: int) -> bool:
        pod = ("exec", f"{CLUSTER}-broker-0", "-n", self.namespace, "--")
        try:
            return "open" in self.kubectl.run(*pod, "python3", "-c", _OPEN, address, str(port))
        except KubectlError as error:
            if "ConnectionRefusedError" in str(error):
                return False
            raise


def received(url: str, topic: str, ca_file: Path, text: str, *, verify_host: bool = True) -> str:
    """Publish and consume one message with Pulsar's client. Raises pulsar.PulsarException when it is refused."""
    client = pulsar.Client(
        url,
        tls_trust_certs_file_path=str(ca_file),
        tls_validate_hostname=verify_host,
        operation_timeout_seconds=SECONDS,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        consumer = client.subscribe(topic, f"edge-{text}", initial_position=pulsar.InitialPosition.Latest)
        client.create_producer(topic, send_timeout_millis=SECONDS * 1000).send(text.encode())
        message = consumer.receive(timeout_millis=SECONDS * 1000)
        consumer.acknowledge(message)
        consumer.unsubscribe()
        return str(message.data().decode())
    finally:
        client.close()
