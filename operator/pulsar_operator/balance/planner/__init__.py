"""The planner: computes splits and moves with reasons from one observed state and one question."""
