"""The record of the custom resource that manages an object of Pulsar. It is stored beside that object. Pure functions.

Ages, UIDs and status do not survive a restore from a backup, but the Kubernetes namespace and the name do. So the
record contains these. It is in the properties of a namespace or of a persistent topic, otherwise in a node of the
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
"""Path in the configuration store with one node for each object of Pulsar that has no properties."""
_TEXT = re.compile(r"([A-Za-z]+) ([^/\s]+)/([^/\s]+)")


@dataclass(frozen=True)
class Owner:
    """A custom resource, as a record identifies it."""

    kind: Kind
    namespace: str
    """Kubernetes namespace."""
    name: str

    @property
    def text(self) -> str:
        """Returns the text of the record, such as PulsarTopic apps/orders."""
        return f"{self.kind.value} {self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: object) -> Owner:
        """Returns the owner that a record names. Raises ValueError for any other text."""
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError("not the kind, Kubernetes namespace and name of an object")
        return cls(Kind(found[1]), found[2], found[3])


def owner_of(obj: Mapping[str, Any]) -> Owner:
    """Returns the owner that stands for a raw object."""
    meta = obj["metadata"]
    return Owner(Kind(obj["kind"]), meta["namespace"], meta["name"])


def owner_properties(owner: Owner) -> dict[str, str]:
    """Returns the record as properties of a namespace or topic."""
    return {OWNER_PROPERTY: owner.text}


def record_in(answer: Mapping[str, Any] | None) -> str:
    """Returns the text of the record in an answer of Pulsar with properties; empty if there is none."""
    return str(((answer or {}).get("properties") or {}).get(OWNER_PROPERTY) or "")


def owner_node(*names: str) -> str:
    """Returns the path in the configuration store of the record of an object that has no properties, or does not store
    them."""
    return "/".join((OWNERS_PATH, *(quote(name, safe="").replace(".", "%2E") for name in names)))


@dataclass(frozen=True, order=True)
class Claim:
    """The claim of a custom resource to an object of Pulsar. The smaller claim wins.

    One that already manages the object keeps it; then the older one wins, then the smaller UID.
    """

    newcomer: bool
    """False if its status shows that it manages the object."""
    created: str
    """metadata.creationTimestamp (RFC 3339 in UTC), which sorts as text."""
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
    """Returns the claim that manages the object: the one that its record names, otherwise the smallest."""
    named = f"{recorded.namespace}/{recorded.name}" if recorded is not None else None
    return next((claim for claim in claims if claim.text == named), None) or min(claims)
