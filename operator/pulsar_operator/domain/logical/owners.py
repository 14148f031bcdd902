"""Which custom resource manages an object of Pulsar, as it is recorded beside that object. Pure functions.

Ages, UIDs and status do not survive a restore from a backup; the Kubernetes namespace and the name do. So the record
names these. It is in the properties of a namespace or of a persistent topic, and otherwise in a node of the
configuration store, see owner_node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
        """The record: PulsarTopic apps/orders."""
        return f"{self.kind.value} {self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: object) -> Owner:
        """The owner that a record names. Raises ValueError for anything else."""
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError("not the kind, Kubernetes namespace and name of an object")
        return cls(Kind(found[1]), found[2], found[3])


def owner_of(obj: Mapping[str, Any]) -> Owner:
    """The owner that an object is, if it manages what it declares."""
    meta = obj["metadata"]
    return Owner(Kind(obj["kind"]), meta["namespace"], meta["name"])


def owner_properties(owner: Owner) -> dict[str, str]:
    """The record as properties of a namespace or topic."""
    return {OWNER_PROPERTY: owner.text}


def record_in(answer: Mapping[str, Any] | None) -> str:
    """Text of the record in an answer of Pulsar that has properties; empty where there is none."""
    return str(((answer or {}).get("properties") or {}).get(OWNER_PROPERTY) or "")


def owner_node(*names: str) -> str:
    """Path in the configuration store of the record of an object that has no properties, or keeps none."""
    return "/".join((OWNERS_PATH, *(quote(name, safe="").replace(".", "%2E") for name in names)))
