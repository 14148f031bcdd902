"""Servers with certificates and tokens, for the clients of Pulsar's admin REST."""
