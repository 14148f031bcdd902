"""Kubernetes objects of a cluster or an instance, and the topics that the operator unloads."""
