"""Promises with a place in the table that no check of a client proves yet: several clusters, offload."""

from __future__ import annotations

from pulsar_conformance.model import slot

CLUSTERS = "two clusters of one instance with a shared configuration store"
FAULTS = "leave to stop pods or processes of the instance while clients run"
OFFLOAD = "an object store and managedLedgerOffloadDriver set to it"

SLOTS = (
    # several clusters
    slot(
        "geo.replication",
        proves="A message published in one cluster of the namespace's replication set is received in every other, once "
        "and in order",
        concepts=("E.geo", "D.namespace.replication"),
        needs=CLUSTERS,
    ),
    slot(
        "geo.selective",
        proves="A message goes only to the clusters its producer names, and a namespace replicates only to its own",
        concepts=("E.geo", "D.namespace.replication"),
        needs=CLUSTERS,
    ),
    slot(
        "geo.replicated_subscription",
        proves="A replicated subscription goes on in the other cluster about where it stopped in the first",
        concepts="E.geo",
        needs=CLUSTERS,
    ),
    slot(
        "geo.remote_down",
        proves="While a remote cluster is down messages for it wait in the local one and are delivered once it is back",
        concepts="E.geo",
        needs=f"{CLUSTERS} and {FAULTS}",
    ),
    slot(
        "geo.configstore_outage",
        proves="While the configuration store is down clients go on and messages for other clusters are kept; they are "
        "forwarded when it is back",
        concepts=("A.configstore.outage", "E.geo"),
        needs=f"{CLUSTERS} and {FAULTS}",
    ),
    slot(
        "geo.shared_policies",
        proves="A tenant, a namespace and its policies made in one cluster are there in every cluster of the instance",
        concepts=("A.instance", "A.configstore"),
        needs=CLUSTERS,
    ),
    slot(
        "geo.foreign_cluster",
        proves="Clusters of another instance take no part: neither its tenants nor its messages are seen",
        concepts="A.instance",
        needs="two instances",
    ),
    # offload
    slot(
        "offload.read_back",
        proves="Closed ledgers copied to the object store and deleted from the bookies are read back in full and order",
        concepts=("C.offload", "D.namespace.offload"),
        needs=OFFLOAD,
    ),
    slot(
        "offload.threshold",
        proves="Ledgers are offloaded above the namespace's threshold, at once with 0, never when it is negative",
        concepts=("C.offload", "D.namespace.offload"),
        needs=OFFLOAD,
    ),
)
