"""Pure balancing logic: bundle hashing, ranges, traffic model. No I/O, no clock, no randomness."""
