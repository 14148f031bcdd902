"""Decisions about instances and clusters, in rooms of the same names as controllers/dataplane. Pure."""
