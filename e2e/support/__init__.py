"""Helpers shared by the demo and the end-to-end tests."""
