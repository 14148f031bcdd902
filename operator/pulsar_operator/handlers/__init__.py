"""The only user of the watch framework (kopf): registers handlers that just pass events on."""
