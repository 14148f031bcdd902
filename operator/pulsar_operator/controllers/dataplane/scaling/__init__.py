"""The number of pods of each component: decided, raised and lowered."""
