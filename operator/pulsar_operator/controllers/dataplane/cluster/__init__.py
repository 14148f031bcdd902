"""The phases of a pass over a PulsarCluster, one module each; row.py puts them in order."""
