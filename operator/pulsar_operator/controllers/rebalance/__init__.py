"""PulsarRebalance: a proposal, its execution, and the measured result."""
