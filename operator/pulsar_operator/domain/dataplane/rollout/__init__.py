"""When pods of OnDelete StatefulSets are replaced: what is known (facts.py), which pod is next (order.py), and what
keeps it from being replaced now (checks.py). Pure."""
