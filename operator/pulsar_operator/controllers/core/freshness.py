"""Decides which state of an object is the newest, since lists and watch events arrive in any order.

A list takes some time. An object that was deleted or changed in the meantime, according to a watch event or a read of
the object, must not be reverted by the list: nothing would correct that before the next list. Used by world.py.
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
    """resourceVersion; 0 if it is not a number."""
    at: int = 0
    """Sequence number at which the state was noted."""


class Freshness:
    """The newest state of every object, and the deletions during a running list of their kind.

    Resource versions of one kind can be compared as numbers, also of different objects (Kubernetes documentation,
    "Resource versions", since 1.35; in practice with every etcd-backed server). A list without a resourceVersion is
    consistent: one that begins after a deletion does not contain the object, so a deletion is kept only while lists are
    running. For the same reason such a list overrides everything that was noted before it began: an earlier state in it
    means that the API server was restored from a backup, and that versions begin again.
    """

    def __init__(self) -> None:
        self._newest: dict[Key, _State] = {}
        self._dead: dict[Key, _State] = {}
        self._lists: Counter[Kind] = Counter()
        self._noted = 0

    def list_begins(self, kind: Kind) -> int:
        """Starts keeping deletions of the kind. Returns the current sequence number, for the objects in the list."""
        self._lists[kind] += 1
        return self._noted

    @property
    def moment(self) -> int:
        """Returns the current sequence number, for a read of an object that begins now."""
        return self._noted

    def list_ends(self, kind: Kind) -> None:
        """Ends a list, whether or not it succeeded."""
        self._lists[kind] -= 1
        if not self._lists[kind]:
            del self._lists[kind]
            self._dead = {key: state for key, state in self._dead.items() if key.kind is not kind}

    def is_news(self, key: Key, obj: Json, *, since: int | None = None) -> bool:
        """Whether this is the newest state of the object so far. If it is, the state is noted.

        ``since`` is the sequence number at which the list, or the read of the object, began. States that were noted
        before it are ignored.
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
        """Whether another object of the same name was already observed that was created after the deletion in
        ``last``."""
        known, gone = self._newest.get(key), _state(last)
        return known is not None and known.uid != gone.uid and 0 < gone.version < known.version

    def bury(self, key: Key, last: Json | None = None) -> None:
        """Records that an object no longer exists. ``last`` is its state at the version of the deletion."""
        known = self._newest.pop(key, None)
        state = _state(last) if last is not None else known
        if state is not None and self._lists[key.kind]:
            self._dead[key] = self._note(state)


def _state(obj: Json) -> _State:
    meta = obj["metadata"]
    version = str(meta.get("resourceVersion", ""))
    return _State(str(meta.get("uid", "")), int(version) if version.isdigit() else 0)
