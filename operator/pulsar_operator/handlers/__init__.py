"""The watch framework (kopf) is used here and nowhere else: registration of handlers that only pass events on."""
