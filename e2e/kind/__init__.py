"""A real Kubernetes cluster, a real Pulsar and the product's images on this machine, with or without a registry.

Run it from the root of the repository: ``python -m e2e.kind --help``. Only the standard library is needed.
"""
