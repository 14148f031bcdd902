"""PulsarInstance: its configuration store, whether its clusters answer, and replication between them."""
