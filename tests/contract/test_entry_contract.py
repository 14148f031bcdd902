"""Lists of entries against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from tests.support.contracts.entries import EntryContract


class TestEntryContract(EntryContract):
    """See tests/support/contracts/entries.py."""
