"""The engine and what every controller shares: queue, index, watch cache, references, status, actor."""
