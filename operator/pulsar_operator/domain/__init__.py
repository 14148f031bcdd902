"""Pure decisions: manifests, plans, policy differences, conditions. No I/O, no clock, no randomness."""
