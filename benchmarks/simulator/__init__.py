"""A cluster minute by minute: real topic names, Pulsar's balancers re-built from their published rules, and ours.

Pure and repeatable: chance comes in through `state.Randomness`. `published` holds the worked examples that Pulsar's
authors published; a re-built strategy that misses its example must not be compared with anything.
"""
