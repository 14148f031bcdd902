"""Conformance: what Pulsar promises its clients, proved by real clients on any instance; needs service URLs alone."""
