"""Kubernetes operator and multi-cluster control plane for Apache Pulsar."""

__version__ = "0.1.0"
