"""Instances and clusters, in rooms by what a cluster does; each room may use those below it (pyproject.toml)."""
