"""Helpers that start real servers and wait for them."""
