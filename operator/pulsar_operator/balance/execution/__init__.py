"""Execution of proposals: steps, when to act, drains and fills, and what the custom resource reports."""
