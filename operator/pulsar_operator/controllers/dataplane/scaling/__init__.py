"""The number of pods of each component: decisions, and adding and removing pods."""
