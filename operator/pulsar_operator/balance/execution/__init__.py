"""Doing a proposal: steps, when to act, drains and fills, and how the custom resource tells it."""
