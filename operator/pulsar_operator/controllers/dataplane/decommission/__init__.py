"""Decommissions of bookies, and replacements of their volumes."""
