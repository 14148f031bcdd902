"""Addresses of metadata stores, in each notation Pulsar and BookKeeper want."""

from __future__ import annotations

from dataclasses import dataclass

ZOOKEEPER_PORT = 2181


@dataclass(frozen=True)
class StoreAddress:
    """A ZooKeeper ensemble and the path in it under which everything lives."""

    servers: str
    """host:port,... with a port on every server."""
    chroot: str = ""
    """Path such as /pulsar, or empty."""

    @classmethod
    def of(cls, servers: str, chroot: str | None = None) -> StoreAddress:
        """From what a user writes: the port defaults to 2181, the chroot to none."""
        parts = [part if ":" in part else f"{part}:{ZOOKEEPER_PORT}" for part in servers.split(",")]
        return cls(",".join(parts), chroot or "")

    @property
    def url(self) -> str:
        """metadataStoreUrl and configurationMetadataStoreUrl."""
        return f"zk:{self.servers}{self.chroot}"

    @property
    def bookkeeper_uri(self) -> str:
        """metadataServiceUri of bookies and auto-recovery.

        The ledgers path stays /ledgers below the chroot: Pulsar's driver takes the path of the URI only when the URI is
        hierarchical, which ``metadata-store:`` never is. Servers are separated by semicolons, which the driver turns
        back, because BookKeeper's configuration splits values at commas and then fails to cast the list (source:
        AbstractMetadataDriver and BookieRackAffinityMapping of Pulsar 4.0).
        """
        return f"metadata-store:zk:{self.servers.replace(',', ';')}{self.chroot}"
