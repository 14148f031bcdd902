"""The metadata of a cluster in both stores: initialized, checked, claimed, and removed when the cluster is deleted."""
