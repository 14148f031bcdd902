"""A Pulsar standalone process, and what tests have on it."""
