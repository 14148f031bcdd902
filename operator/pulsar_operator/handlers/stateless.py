"""Storages for kopf that store nothing and copy nothing.

kopf compares each event's object with what it last handled and keeps the progress of its handlers on the object. No
handler here asks for either, but the comparison copies the whole object twice per event: half of what an event costs.
Used by streams.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers no object, so that every event looks the same to kopf."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        """Nothing of the object."""
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Nothing."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nowhere."""


class NoProgress(kopf.ProgressStorage):
    """Remembers no handler's progress: ``kopf.on.event`` has none."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:
        """Nothing."""

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nowhere."""

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nothing is there."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """The object is not touched."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """As it is; nothing of ours is in it."""
        return essence
