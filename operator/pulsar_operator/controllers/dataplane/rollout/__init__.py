"""Replaces pods of a PulsarCluster or PulsarInstance one at a time.

observe.py reads the facts, domain/dataplane/rollout decides, and apply.py evicts the pod after it has checked again.
"""
