"""README as a newcomer follows it: a fresh clone, a fresh cluster, a registry of its own."""
