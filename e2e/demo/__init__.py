"""make demo: from a bare machine to messages through a proxy."""
