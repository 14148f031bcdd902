"""The logical plane in memory: an API server, a Pulsar, and the controllers of tenants and what is in them."""
