"""What breaks the checks of transactions and Pulsar Functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.tamper import Mutation, Rule, drop, drop_admin, without


def commit(call: Callable[..., Any]) -> None:
    """Commit where an abort was meant."""
    transaction: Any = call.__self__  # type: ignore[attr-defined]
    transaction.commit()


def abort(call: Callable[..., Any]) -> None:
    """Abort where a commit was meant."""
    transaction: Any = call.__self__  # type: ignore[attr-defined]
    transaction.abort()


MUTATIONS = (
    Mutation(
        "transactions.off",
        "answered",
        "admin REST answers as if there were coordinators",
        (drop_admin("GET", "^admin/v3/transactions/", []),),
    ),
    Mutation("transactions.off", "given", "the broker gives a transaction", (drop("client", "new_transaction"),)),
    Mutation(
        "transactions.on",
        "outside",
        "messages are sent outside the transaction",
        (without("java.producer", "send", "transaction"),),
    ),
    Mutation(
        "transactions.on",
        "settled",
        "the source is acknowledged outside the transaction",
        (without("java.consumer", "ack", "transaction"),),
    ),
    Mutation(
        "transactions.on",
        "unsettled",
        "the source is not acknowledged",
        (drop("java.consumer", "ack"),),
    ),
    Mutation("transactions.on", "no_abort", "the abort commits", (Rule("java.transaction", "abort", commit),)),
    Mutation("transactions.on", "no_commit", "the commit aborts", (Rule("java.transaction", "commit", abort),)),
    Mutation(
        "functions.off",
        "answered",
        "admin REST answers as if there were a functions worker",
        (drop_admin("GET", "^admin/v3/(functions|sources|sinks)/", []),),
    ),
)
