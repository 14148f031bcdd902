"""What breaks the checks of storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop_admin, override

NO_UNLOAD = drop_admin("PUT", r"/unload$")


def lost(text: str, method: str = "send") -> Rule:
    """A message with this text is acknowledged to its sender and kept nowhere."""
    return Rule(
        "producer", method, lambda _call, *_args, **_kwargs: None, lambda data, *_a, **_kw: data == text.encode()
    )


def unacknowledged(text: str) -> Rule:
    """The acknowledgement of the message with this text does not leave."""
    return Rule(
        "consumer",
        "acknowledge",
        lambda _call, *_args, **_kwargs: None,
        lambda message, *_a, **_kw: message.data() == text.encode(),
    )


def _all_before(call: Callable[..., Any], message: Any) -> Any:
    """A cumulative acknowledgement in the place of a single one."""
    return call.__self__.acknowledge_cumulative(message)  # type: ignore[attr-defined]


MUTATIONS = (
    Mutation(
        "ledger.rollover.entries",
        "batched",
        "messages go in batches, so that there are far fewer entries",
        (override("client", "create_producer", batching_enabled=True),),
    ),
    Mutation("ledger.rollover.owner", "kept", "the topic stays with its owner", (NO_UNLOAD,)),
    Mutation("ledger.rollover.owner", "lost", "one message is lost at the change", (lost("m10"),)),
    Mutation("ledger.readonly", "open", "the ledger is never closed: its owner stays", (NO_UNLOAD,)),
    Mutation("ledger.delete", "unacknowledged", "one message is never acknowledged", (unacknowledged("a9"),)),
    Mutation(
        "ledger.delete",
        "cumulative",
        "single acknowledgements take all messages before with them",
        (Rule("consumer", "acknowledge", _all_before),),
    ),
    Mutation(
        "ledger.delete",
        "retained",
        "the namespace retains acknowledged messages",
        (change_admin("POST", r"/retention$", lambda _body: {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}),),
    ),
    Mutation("ledger.single_writer", "lost", "one acknowledged message is lost", (lost("000120"),)),
    Mutation("ledger.single_writer", "kept", "the owner never changes", (NO_UNLOAD,)),
    Mutation(
        "storage.cursor.ledger",
        "unacknowledged",
        "no acknowledgement leaves",
        (Rule("consumer", "acknowledge", lambda _call, *_args, **_kwargs: None),),
    ),
    Mutation(
        "storage.cursor.unload",
        "cumulative",
        "an acknowledgement takes all messages before with it",
        (Rule("consumer", "acknowledge", _all_before),),
    ),
    Mutation("storage.cursor.unload", "unacknowledged", "one acknowledgement does not leave", (unacknowledged("m10"),)),
    Mutation(
        "storage.quorum.short",
        "one",
        "the ensemble is always 1",
        (
            change_admin(
                "POST",
                r"/persistence$",
                lambda body: {
                    **body,
                    **dict.fromkeys(("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 1),
                },
            ),
        ),
    ),
)
