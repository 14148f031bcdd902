"""Instances and clusters: the whole control loop, and what plays the rest of Kubernetes around it."""
