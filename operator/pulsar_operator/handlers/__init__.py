"""kopf registration and nothing else: event, key, queue."""
