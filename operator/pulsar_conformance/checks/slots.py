"""Promises with a place in the table that no check of a client proves yet: offload."""

from __future__ import annotations

from pulsar_conformance.model import slot

OFFLOAD = "an object store and managedLedgerOffloadDriver set to it"

SLOTS = (
    slot(
        "offload.read_back",
        proves="Closed ledgers copied to the object store and deleted from the bookies are read back in full and order",
        concepts=("C.offload", "D.namespace.offload"),
        needs=OFFLOAD,
    ),
    slot(
        "offload.threshold",
        proves="Ledgers are offloaded above the namespace's threshold, immediately if it is 0, never if it is negative",
        concepts=("C.offload", "D.namespace.offload"),
        needs=OFFLOAD,
    ),
)
