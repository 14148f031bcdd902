"""Pulsar's concepts, line by line: the field that declares each, what enforces it. Checks name the lines they prove."""

from __future__ import annotations

from pulsar_conformance.concepts.logical import LOGICAL
from pulsar_conformance.concepts.messaging import MESSAGING
from pulsar_conformance.concepts.platform import PLATFORM
from pulsar_conformance.model import Concept

SECTIONS = {
    "A": "Instance, clusters, layers",
    "B": "Bundles, balancing, shedding",
    "C": "Storage",
    "D": "Tenants, namespaces, topics",
    "E": "Messaging",
}

CONCEPTS: tuple[Concept, ...] = (*PLATFORM, *LOGICAL, *MESSAGING)


def section(key: str) -> str:
    """Title of the section a key belongs to. Raises KeyError for an unknown section."""
    return SECTIONS[key.split(".", 1)[0]]
