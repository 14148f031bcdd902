"""Kubernetes objects of a cluster as they are read and as they are rendered. Pure."""
