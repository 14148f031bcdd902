"""Balance: where bundles are cut (P5), how the load is shed (P6), how fast a plan is made (P7), rolls (P9)."""
