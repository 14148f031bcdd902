"""The counting client: numbers every message and says what an operation did to them.

``client.CountingRun`` runs in the background of a test, ``python -m pulsar_conformance.counting`` beside an operation
made by hand. ``ledger`` and ``report`` are pure and need no Pulsar.
"""
