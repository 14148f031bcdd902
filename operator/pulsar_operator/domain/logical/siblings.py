"""Two custom resources for one object in Pulsar: exactly one of them may manage it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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


def winner(claims: Sequence[Claim]) -> Claim:
    """The claim that manages the object."""
    return min(claims)
