"""Addresses of metadata stores, in the notations of Pulsar and BookKeeper."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.domain.render.listeners import ZOOKEEPER_PORT


@dataclass(frozen=True)
class StoreAddress:
    """A ZooKeeper ensemble and the root path in it."""

    servers: str
    """host:port,... with a port for every server."""
    chroot: str = ""
    """Path such as /pulsar, or empty."""

    @classmethod
    def of(cls, servers: str, chroot: str | None = None) -> StoreAddress:
        """Returns the address from user input. The port defaults to 2181, the chroot to none."""
        parts = [part if ":" in part else f"{part}:{ZOOKEEPER_PORT}" for part in servers.split(",")]
        return cls(",".join(parts), chroot or "")

    @property
    def url(self) -> str:
        """Returns the value of metadataStoreUrl and configurationMetadataStoreUrl."""
        return f"zk:{self.servers}{self.chroot}"

    @property
    def bookkeeper_uri(self) -> str:
        """Returns the value of metadataServiceUri for bookies and auto-recovery.

        The ledgers path stays /ledgers below the chroot: Pulsar's driver uses the path of the URI only if the URI is
        hierarchical, which ``metadata-store:`` never is. Servers are separated by semicolons, which the driver converts
        back, because BookKeeper's configuration splits values at commas and then fails to cast the list (source:
        AbstractMetadataDriver and BookieRackAffinityMapping of Pulsar 4.0).
        """
        return f"metadata-store:zk:{self.servers.replace(',', ';')}{self.chroot}"
