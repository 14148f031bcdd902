"""Hostile text for every place of the logical kinds that takes text, and the bench that tries it."""
