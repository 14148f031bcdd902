"""Whether the clusters of an instance answer, and how replication between them progresses. Pure."""
