"""The number of pods of each component: loads, decisions, and what the status reports of them. Pure."""
