"""The next step for a bookie that is decommissioned or whose volume is replaced. Pure."""
