"""PulsarCluster: one pass through its phases (pipeline.py), the order of bring-up, and the tear-down."""
