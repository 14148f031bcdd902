"""Decides which state of an object is the newest: lists and watch events arrive in any order.

A list takes a while. What was deleted or changed in the meantime, as a watch event or a read of the object itself said,
must not come back with it: nothing would take it away before the next list. Used by world.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import Json, Key


@dataclass(frozen=True, slots=True)
class _State:
    uid: str
    version: int
    """resourceVersion; 0 where it is no number."""
    at: int = 0
    """When it was noted, by the count of what is noted."""


class Freshness:
    """The newest state of every object, and what was deleted while a list of its kind was under way.

    Resource versions of one kind can be compared as numbers, whatever object they are of (Kubernetes documentation,
    "Resource versions", since 1.35; in practice with every etcd-backed server). A list without a resourceVersion is
    consistent: one that begins after a deletion does not show the object, so no deletion is kept for longer than lists
    that are under way. For the same reason such a list knows better than anything that was noted before it began: an
    earlier state of an object in it says that the API server was restored from a backup, where versions begin again.
    """

    def __init__(self) -> None:
        self._newest: dict[Key, _State] = {}
        self._dead: dict[Key, _State] = {}
        self._lists: Counter[Kind] = Counter()
        self._noted = 0

    def list_begins(self, kind: Kind) -> int:
        """From now on deletions of the kind are kept. Returns the moment, for what the list shows."""
        self._lists[kind] += 1
        return self._noted

    @property
    def moment(self) -> int:
        """Returns the moment, for a read of an object that begins now."""
        return self._noted

    def list_ends(self, kind: Kind) -> None:
        """A list was taken in, or failed."""
        self._lists[kind] -= 1
        if not self._lists[kind]:
            del self._lists[kind]
            self._dead = {key: state for key, state in self._dead.items() if key.kind is not kind}

    def is_news(self, key: Key, obj: Json, *, since: int | None = None) -> bool:
        """Whether this is the newest state of an object so far, which is noted, and no earlier one of it or of one of
        its name.

        ``since`` is the moment when a list, or a read of the object, began that shows it: what was noted before does
        not count against it.
        """
        now = _state(obj)
        newest, dead = (
            before if before is not None and (since is None or before.at > since) else None
            for before in (self._newest.get(key), self._dead.get(key))
        )
        for before in (newest, dead):
            if before is not None and now.version and now.version < before.version:
                return False
        if dead is not None and now.uid and now.uid == dead.uid:
            return False
        self._newest[key] = self._note(now)
        return True

    def _note(self, state: _State) -> _State:
        self._noted += 1
        return replace(state, at=self._noted)

    def has_successor(self, key: Key, last: Json) -> bool:
        """Whether another object of the name was observed already, created after the deletion that ``last`` shows."""
        known, gone = self._newest.get(key), _state(last)
        return known is not None and known.uid != gone.uid and 0 < gone.version < known.version

    def bury(self, key: Key, last: Json | None = None) -> None:
        """An object is gone; ``last`` is what the deletion showed of it, at the version of the deletion."""
        known = self._newest.pop(key, None)
        state = _state(last) if last is not None else known
        if state is not None and self._lists[key.kind]:
            self._dead[key] = self._note(state)


def _state(obj: Json) -> _State:
    meta = obj["metadata"]
    version = str(meta.get("resourceVersion", ""))
    return _State(str(meta.get("uid", "")), int(version) if version.isdigit() else 0)
