"""Bundles spread evenly over brokers, traffic on all of them, and a count of how often each changes its broker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from e2e.support.kubectl import KubectlError
from e2e.support.skew import BOUNDS, BUNDLES, NAMESPACE, Brokers, skew
from e2e.support.traffic import topics_within

LOOK_SECONDS = 1.0


@contextmanager
def even(brokers: Brokers, each: int = 2) -> Iterator[list[str]]:
    """A namespace whose bundles are spread evenly; yields ``each`` topics of every bundle."""
    with skew(brokers):
        yield [
            topic
            for index in range(BUNDLES)
            for topic in topics_within(NAMESPACE, [(BOUNDS[index], BOUNDS[index + 1])], each, prefix="e")
        ]


@dataclass
class Watch:
    """Looks at the owners of all bundles once a second, from a thread, and counts the changes."""

    brokers: Brokers
    moves: Counter[str] = field(default_factory=Counter)
    """By bundle."""
    owners: dict[str, str] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.owners = self.brokers.owners()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(timeout=60)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Read the owners; a bundle on its way, or one whose broker does not answer now, keeps its last one."""
        for broker in self.brokers.ids:
            try:
                owned = self.brokers.owned(broker)
            except KubectlError:
                continue
            for bundle in owned:
                if self.owners.get(bundle, broker) != broker:
                    self.moves[bundle] += 1
                self.owners[bundle] = broker

    @property
    def per_bundle(self) -> float:
        """Changes of broker per bundle so far."""
        return sum(self.moves.values()) / BUNDLES

    def counts(self) -> list[int]:
        """Bundles of each broker, the fewest first."""
        found = Counter(self.owners.values())
        return sorted(found.get(broker, 0) for broker in self.brokers.ids)
