"""The engine and the shared parts of all controllers: queue, index, watch cache, references, status, actor."""
