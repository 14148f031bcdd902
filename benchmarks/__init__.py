"""Measurements; each is a command that prints one table. None of them decides whether a test passes."""
