"""Faults and kills at every call of the operator, and what a disturbed run must come to."""
