"""Two custom resources for one object in Pulsar: exactly one of them may manage it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_operator.domain.logical.owners import Owner


@dataclass(frozen=True, order=True)
class Claim:
    """A custom resource that claims an object of Pulsar; smaller wins.

    One that already has the object keeps it, so that nothing changes hands; then the older one, then the smaller UID.
    """

    newcomer: bool
    """False when its status says that it has the object."""
    created: str
    """metadata.creationTimestamp, RFC 3339 in UTC, which sorts as text."""
    uid: str
    text: str = ""
    """namespace/name, for messages."""


def claim_of(obj: Mapping[str, Any]) -> Claim:
    """What a custom resource says of itself."""
    meta = obj["metadata"]
    return Claim(
        newcomer=not (obj.get("status") or {}).get("pulsarName"),
        created=str(meta.get("creationTimestamp") or ""),
        uid=str(meta["uid"]),
        text=f"{meta['namespace']}/{meta['name']}",
    )


def winner(claims: Sequence[Claim], recorded: Owner | None = None) -> Claim:
    """The claim that manages the object: the one that the record beside it names, or else the smallest."""
    named = f"{recorded.namespace}/{recorded.name}" if recorded is not None else None
    return next((claim for claim in claims if claim.text == named), None) or min(claims)
