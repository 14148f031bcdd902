"""Bring-up, pods and rolls, metadata stores, and the status of a cluster."""
