"""The only I/O of the operator: Kubernetes, Pulsar admin REST, BookKeeper HTTP, ZooKeeper, clock."""
