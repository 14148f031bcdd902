"""The metadata of a cluster in both stores: initialised, checked, claimed, and removed when the cluster is deleted."""
