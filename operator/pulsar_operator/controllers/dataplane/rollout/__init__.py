"""Pods of a PulsarCluster or PulsarInstance are replaced one at a time.

observe.py reads what is known, domain/dataplane/rollout decides, and apply.py evicts the pod after a second look.
"""
