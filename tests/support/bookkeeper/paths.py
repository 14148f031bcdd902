"""Where auto-recovery marks and locks ledgers (classes PulsarLedgerUnderreplicationManager, BookKeeperConstants)."""

from __future__ import annotations

from typing import Final

from pulsar_operator.domain.bookkeeper.znodes import UNDER_REPLICATED, UNDER_REPLICATION

LOCKS: Final = f"{UNDER_REPLICATION}/locks"
"""A child for each ledger that is being copied."""


def under_replicated_path(ledger: int) -> str:
    """Path of the mark of a ledger that lacks copies."""
    digits = f"{ledger:016x}"
    levels = "/".join(digits[begin : begin + 4] for begin in range(0, 16, 4))
    return f"{UNDER_REPLICATED}/{levels}/{mark_name(ledger)}"


def lock_path(ledger: int) -> str:
    """Path of the lock of who copies a ledger."""
    return f"{LOCKS}/{mark_name(ledger)}"


def mark_name(ledger: int) -> str:
    """Name of the mark of a ledger, and of its lock."""
    return f"urL{ledger:010}"
