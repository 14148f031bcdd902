"""Which state of an object is the newest: lists and watch events arrive in any order.

A list takes a while. What was deleted or changed meanwhile, as a watch event or a read of the object itself said, must
not come back with it: nothing would take it away before the next list. Used by engine.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import Json, Key


@dataclass(frozen=True, slots=True)
class _State:
    uid: str
    version: int
    """resourceVersion; 0 where it is no number."""


class Freshness:
    """The newest state of every object, and what was deleted while a list of its kind was under way.

    Resource versions of one kind can be compared as numbers, whatever object they are of (Kubernetes documentation,
    "Resource versions", since 1.35; in practice with every etcd-backed server). A list without a resourceVersion is
    consistent: one that begins after a deletion does not show the object, so no deletion is kept for longer than lists
    that are under way.
    """

    def __init__(self) -> None:
        self._newest: dict[Key, _State] = {}
        self._dead: dict[Key, _State] = {}
        self._lists: Counter[Kind] = Counter()

    def list_begins(self, kind: Kind) -> None:
        """From now on deletions of the kind are kept."""
        self._lists[kind] += 1

    def list_ends(self, kind: Kind) -> None:
        """A list was taken in, or failed."""
        self._lists[kind] -= 1
        if not self._lists[kind]:
            del self._lists[kind]
            self._dead = {key: state for key, state in self._dead.items() if key.kind is not kind}

    def is_news(self, key: Key, obj: Json) -> bool:
        """Whether this is the newest state of an object so far, which is noted, and no earlier one of it or of one of
        its name."""
        now = _state(obj)
        for before in (self._newest.get(key), self._dead.get(key)):
            if before is not None and now.version and now.version < before.version:
                return False
        dead = self._dead.get(key)
        if dead is not None and now.uid and now.uid == dead.uid:
            return False
        self._newest[key] = now
        return True

    def has_successor(self, key: Key, last: Json) -> bool:
        """Whether another object of the name was seen already, made after the deletion of which ``last`` tells."""
        known, gone = self._newest.get(key), _state(last)
        return known is not None and known.uid != gone.uid and 0 < gone.version < known.version

    def bury(self, key: Key, last: Json | None = None) -> None:
        """An object is gone; ``last`` is what the deletion showed of it, at the version of the deletion."""
        known = self._newest.pop(key, None)
        state = _state(last) if last is not None else known
        if state is not None and self._lists[key.kind]:
            self._dead[key] = state


def _state(obj: Json) -> _State:
    meta = obj["metadata"]
    version = str(meta.get("resourceVersion", ""))
    return _State(str(meta.get("uid", "")), int(version) if version.isdigit() else 0)
