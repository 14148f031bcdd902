"""PulsarRebalance: a proposal, its execution, what came of it."""
