"""Areas: what is too long for every run, by capability, cut into slices; and what belongs to no run but its own.

A long test carries the mark of its area with the number of its slice: ``@pytest.mark.balance(1)``. `make test` leaves
all of them out, ``make e2e-full AREA=balance`` runs one area slice by slice, CI adds one slice to each of its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slice:
    """Part of an area that runs alone from nothing, in at most LIMIT minutes; a soak, in as many as it needs."""

    area: str
    number: int
    about: str
    soak: bool = False
    """Runs with its area or by its name alone, never beside what CI runs."""

    @property
    def name(self) -> str:
        """As it is asked for and recorded: ``balance-1``."""
        return f"{self.area}-{self.number}"


LIMIT = 15.0
"""Minutes of a slice on 2 cores, set-up of the cluster included, with warm caches."""
AREAS: dict[str, str] = {
    "balance": "rebalancing, splitting, shedding, from recorded traffic too",
    "autoscaling": "brokers, proxies and bookies whose number follows the load",
    "rolls": "rolling changes of clusters of several replicas",
    "bookies": "bookies that are lost or leave",
    "geo": "several clusters of one instance",
    "security": "external listeners, authentication, authorization, TLS",
    "storage": "what storage that fails does to topics",
    "safety": "what users do that must lose nothing and leave nothing stuck",
}
SLICES: Sequence[Slice] = (
    Slice("balance", 1, "collector to Spark to proposal, with and without executors"),
    Slice("balance", 2, "Pulsar's shedder beside the operator"),
    Slice("balance", 3, "promises that need several brokers"),
    Slice("balance", 4, "those of splitting and scaling broken, and seen to be"),
    Slice("balance", 5, "those of shedding broken, and seen to be"),
    Slice("balance", 6, "brokers of different size, from recorded traffic at a budget of 9 %"),
    Slice("balance", 7, "twenty minutes of noise move nothing", soak=True),
    Slice("balance", 8, "the worked example, by Pulsar's shedder and by the operator", soak=True),
    Slice("balance", 9, "shedding by OverloadShedder, and broken"),
    Slice("balance", 10, "shedding by the Extensible load manager, and broken"),
    Slice("balance", 11, "the sizing job on two nodes, its tables in an object store"),
    Slice("autoscaling", 1, "two brokers become three under load, and two again without it"),
    Slice("autoscaling", 2, "three bookies become four as their disks are full, and three again"),
    Slice("autoscaling", 3, "a bookie more as small disks fill"),
    Slice("autoscaling", 4, "a broker more before a recorded peak"),
    Slice("autoscaling", 5, "two proxies become three as connections grow, and two again as they leave"),
    Slice("rolls", 1, "a cluster of three ZooKeeper servers, three bookies and two brokers"),
    Slice("rolls", 2, "two proxies under traffic, one of them killed"),
    Slice("rolls", 3, "the operator upgraded from the recorded commit, objects of every kind"),
    Slice("rolls", 4, "an older version of Pulsar and back with a canary, an image that never starts"),
    Slice("rolls", 5, "three of each: an election, a node drain, processes killed, the configuration store away"),
    Slice("rolls", 6, "what Pulsar promises while bookies, brokers and ZooKeeper fail"),
    Slice("rolls", 7, "pauses that producers feel, by operation and stage", soak=True),
    Slice("bookies", 1, "one ZooKeeper server, bookie and broker replaced"),
    Slice("bookies", 2, "a bookie that loses its volume, and one that is to have another"),
    Slice("bookies", 3, "two zones, and every new ledger is in both"),
    Slice("bookies", 4, "three bookies to five and back, twice: ids that return empty"),
    Slice("bookies", 5, "removals taken back or refused, a full disk, and the loss that unloading prevents"),
    Slice("geo", 1, "two clusters replicate both ways, and one of them is away and comes back"),
    Slice("geo", 2, "what Pulsar promises between two clusters"),
    Slice("geo", 3, "a minute without the configuration store of two clusters"),
    Slice("geo", 4, "twelve minutes without it", soak=True),
    Slice("geo", 5, "a third cluster joins and leaves, the operator killed in each phase; one gets other addresses"),
    Slice("geo", 6, "a replicator that is connected and delivers nothing"),
    Slice("security", 1, "clients with tokens of ServiceAccounts, and those that are refused"),
    Slice("security", 2, "connections through a proxy that outlive their tokens", soak=True),
    Slice("security", 3, "clients outside without a proxy while brokers come and go, and a bundle moves"),
    Slice("security", 4, "TLS at the proxies: refused clients, the step to Required, a lost and a renewed Secret"),
    Slice("storage", 1, "compaction while bookies are away"),
    Slice("safety", 1, "a rename, a deletion of what retention keeps, two clusters in one apply"),
    Slice("safety", 2, "the release of the chart pulsar uninstalled with live tenants, and installed again"),
)
OWN_TARGET = "slow"
"""Mark of what only a make target of its own runs: whole matrices of faults, mutations, hostile text."""


def slice_of(commits: int) -> Slice:
    """The slice that CI runs beside the core at a commit with so many commits in its history."""
    short = [each for each in SLICES if not each.soak]
    return short[commits % len(short)]


def slices(names: Iterable[str]) -> list[Slice]:
    """Slices by the name of an area or of a slice, all of them without names.

    Raises ValueError for a name that has no slice, with those there are.
    """
    asked = list(names)
    found = [each for each in SLICES if not asked or each.area in asked or each.name in asked]
    for name in asked:
        if not any(name in (each.area, each.name) for each in found):
            word = f"area {name} has no long tests yet" if name in AREAS else f"no area or slice {name!r}"
            raise ValueError(f"{word}: use one of {', '.join(sorted({s.area for s in SLICES}))}, or a slice of them")
    return found
