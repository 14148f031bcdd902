"""What the phases of a pass read of a cluster, and what a phase is given."""
