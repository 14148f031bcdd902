"""Instances and clusters: metadata, pods, drains and rolls."""
