"""Bookies that are decommissioned, and bookies whose volume is replaced."""
