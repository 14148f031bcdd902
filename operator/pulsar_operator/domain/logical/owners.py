"""Which custom resource manages an object of Pulsar, as it is recorded beside that object. Pure functions.

Ages, UIDs and status do not survive a restore from a backup; the Kubernetes namespace and the name do. So the record
names these. It is in the properties of a namespace or of a persistent topic, and otherwise in a node of the
configuration store, see owner_node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY

OWNERS_PATH: Final = "/pulsar-operator/owners"
"""In the configuration store: one node for each object of Pulsar that has no properties."""
_TEXT = re.compile(r"([A-Za-z]+) ([^/\s]+)/([^/\s]+)")


@dataclass(frozen=True)
class Owner:
    """A custom resource, as a record names it."""

    kind: Kind
    namespace: str
    """Kubernetes namespace."""
    name: str

    @property
    def text(self) -> str:
        """Returns the record: PulsarTopic apps/orders."""
        return f"{self.kind.value} {self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: object) -> Owner:
        """Returns the owner that a record names. Raises ValueError for anything else."""
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError("not the kind, Kubernetes namespace and name of an object")
        return cls(Kind(found[1]), found[2], found[3])


def owner_of(obj: Mapping[str, Any]) -> Owner:
    """Returns the owner that an object is, if it manages what it declares."""
    meta = obj["metadata"]
    return Owner(Kind(obj["kind"]), meta["namespace"], meta["name"])


def owner_properties(owner: Owner) -> dict[str, str]:
    """Returns the record as properties of a namespace or topic."""
    return {OWNER_PROPERTY: owner.text}


def record_in(answer: Mapping[str, Any] | None) -> str:
    """Returns the text of the record in an answer of Pulsar that has properties; empty where there is none."""
    return str(((answer or {}).get("properties") or {}).get(OWNER_PROPERTY) or "")


def owner_node(*names: str) -> str:
    """Returns the path in the configuration store of the record of an object that has no properties, or keeps none."""
    return "/".join((OWNERS_PATH, *(quote(name, safe="").replace(".", "%2E") for name in names)))


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
    """Returns the claim of a custom resource."""
    meta = obj["metadata"]
    return Claim(
        newcomer=not (obj.get("status") or {}).get("pulsarName"),
        created=str(meta.get("creationTimestamp") or ""),
        uid=str(meta["uid"]),
        text=f"{meta['namespace']}/{meta['name']}",
    )


def winner(claims: Sequence[Claim], recorded: Owner | None = None) -> Claim:
    """Returns the claim that manages the object: the one that the record beside it names, or else the smallest."""
    named = f"{recorded.namespace}/{recorded.name}" if recorded is not None else None
    return next((claim for claim in claims if claim.text == named), None) or min(claims)
