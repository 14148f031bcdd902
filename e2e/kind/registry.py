"""An image registry beside a cluster, without TLS: what a cluster of one's own pulls from, on a machine without one.

The way of kind's own guide "Local Registry": the registry is a container of the nodes' network, published on a port of
127.0.0.1; names with that host and port are pushed from this machine as they are, and containerd on the node is told by
a hosts.toml that the same host is that container. Docker and containerd take 127.0.0.0/8 without TLS.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.kind.docker import Docker, pull_step
from e2e.kind.kindconfig import Cluster
from e2e.kind.rootfs import REGISTRY
from e2e.kind.shell import Argument, CommandError, Log
from e2e.kind.source import Source
from e2e.kind.steps import Step

STOCK_IMAGE = "registry:2"
NETWORK = "kind"
PORT = 5000
"""Where the registry listens in its container."""
CONFIG = f"""version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: /var/lib/registry}}
  delete: {{enabled: true}}
http:
  addr: :{PORT}
"""


@dataclass(frozen=True)
class Registry:
    """The registry of one cluster; it has what was pushed since it was made, and goes with the cluster."""

    docker: Docker
    source: Source
    cluster: Cluster
    folder: Path
    """The cluster's files on this machine."""

    @property
    def name(self) -> str:
        """Its container, which is its host's name in the network too."""
        return container_name(self.cluster.name)

    def base_steps(self) -> list[Step]:
        """The image pulled by name; where it is built from Debian packages its own step does that."""
        return [pull_step(self.docker, STOCK_IMAGE)] if self.source == "stock" else []

    def write_hosts(self) -> None:
        """The file that the node's containerd reads; before the cluster is made, since its folder is mounted."""
        folder = self.folder / "registry" / self.cluster.registry
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath("hosts.toml").write_text(f'[host."http://{self.name}:{PORT}"]\n', encoding="utf-8")

    def step(self) -> Step:
        """Start it, in the network that the cluster's node has made."""
        return Step(f"registry {self.cluster.registry}", self._runs, self._start, done_word="up")

    def _runs(self) -> bool:
        try:
            return self.docker.capture("inspect", "--format", "{{.State.Running}}", self.name).strip() == "true"
        except CommandError:
            return False

    def _start(self, log: Log) -> None:
        self.docker.succeeds("rm", "--force", "--volumes", self.name)
        self.folder.joinpath("registry.yml").write_text(CONFIG, encoding="utf-8")
        words: list[Argument] = ["run", "--detach", "--name", self.name, "--network", NETWORK]
        words += ["--publish", f"{self.cluster.registry}:{PORT}"]
        words += ["--volume", f"{self.folder / 'registry.yml'}:/etc/docker/registry/config.yml:ro"]
        serve = ("serve", "/etc/docker/registry/config.yml")
        if self.source == "stock":
            self.docker.run(log, *words, STOCK_IMAGE, *serve)
        else:
            self.docker.run(log, *words, REGISTRY.tag, "docker-registry", *serve)


def container_name(cluster: str) -> str:
    """Container of a cluster's registry."""
    return f"{cluster}-registry"
