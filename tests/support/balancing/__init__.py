"""A world of brokers for tests of rebalancing, and tiny clusters for tests of its planner."""
