"""State of the watch streams: what each one does, when it last worked, and its current error.

A stream works if it delivers an event or a bookmark, or if the API server accepted it and it did not end abnormally
right after that. The API server does not guarantee bookmarks
(https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks), so a quiet stream does not count as
broken. The reflector (reflector.py) reports to this module; the probes and the metrics read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from pulsar_operator.adapters.kube_http import resource_path
from pulsar_operator.adapters.watch_requests import WatchError
from pulsar_operator.ports import ResourceType

SHOWN = 3
SETTLED_SECONDS = 5.0
"""Seconds after which an open stream counts as accepted."""


class StreamState(StrEnum):
    """State of a stream."""

    LISTING = "listing"
    WATCHING = "watching"
    FAILING = "failing"
    REFUSED = "refused"


class StreamHealth:
    """The health of one stream."""

    def __init__(self, kind: str, path: str, monitor: WatchMonitor) -> None:
        """``path`` is the URL path of the collection."""
        self.kind, self.path = kind, path
        self.state = StreamState.LISTING
        self.problem: str | None = None
        """Why it does not deliver; None while it does."""
        self._monitor = monitor
        # From the moment it is expected: one that never opens is as bad as one that breaks.
        self._proven = self._accepted = self._progress = monitor.now()

    @property
    def age(self) -> float:
        """Returns the seconds since it last proved to work."""
        self._settle()
        return self._monitor.now() - self._proven

    def _settle(self) -> None:
        if self.state is StreamState.WATCHING and self._monitor.now() - self._accepted >= SETTLED_SECONDS:
            self._proven = max(self._proven, self._accepted)

    def listing(self) -> None:
        """Records that a list begins."""
        self._progress = self._monitor.now()
        if self.problem is None:
            self.state = StreamState.LISTING

    def progressed(self) -> None:
        """Records that a page of the list was processed.

        The time of a list does not count against the stream, however long it is. It does not prove that the stream
        works either: a kind whose lists succeed and whose watches fail must not appear to be watched.
        """
        now = self._monitor.now()
        self._proven += now - self._progress
        self._progress = now

    def accepted(self) -> None:
        """Records that the API server accepted the watch."""
        self.state, self.problem = StreamState.WATCHING, None
        self._accepted = self._monitor.now()

    def delivered(self) -> None:
        """Records that an event or a bookmark arrived."""
        self._proven = self._monitor.now()
        self._monitor.on_delivery(self.kind)

    def ended(self, reason: str | None = None) -> None:
        """Records that the stream ended without a failure: the API server served it after it accepted it. Without
        ``reason`` its time was over."""
        self._proven = max(self._proven, self._accepted)
        if reason is not None:
            self._monitor.on_restart(self.kind, reason)

    def failed(self, error: WatchError) -> None:
        """Records that a list or a watch ended abnormally."""
        self._settle()
        self.problem = f"HTTP {error.status}" if error.status else str(error)
        self.state = StreamState.REFUSED if error.refused else StreamState.FAILING
        if error.refused:
            # An answer that another process would get as well: readiness reports it, a restart does not help.
            self._proven = self._monitor.now()
        self._monitor.on_restart(self.kind, error.reason)


class WatchMonitor:
    """The health of all streams."""

    def __init__(
        self,
        now: Callable[[], float],
        on_delivery: Callable[[str], None] = lambda kind: None,
        on_restart: Callable[[str, str], None] = lambda kind, reason: None,
    ) -> None:
        """``now`` is a monotonic clock in seconds.

        ``on_delivery`` gets the kind whose stream delivered, ``on_restart`` the kind and the reason of an abnormal end.
        """
        self.now, self.on_delivery, self.on_restart = now, on_delivery, on_restart
        self._streams: dict[str, StreamHealth] = {}

    def expect(self, kind: ResourceType, namespaces: Iterable[str]) -> list[StreamHealth]:
        """Adds a stream of the kind for each namespace (none for a cluster-wide one). It is expected from now on."""
        scopes: list[str | None] = [*namespaces] or [None]
        expected = [StreamHealth(kind.kind, resource_path(kind, scope), self) for scope in scopes]
        self._streams |= {stream.path: stream for stream in expected}
        return expected

    def problem(self) -> str | None:
        """Returns what currently cannot be watched, as a sentence; None if everything can."""
        failing = sorted(path for path, stream in self._streams.items() if stream.problem is not None)
        if not failing:
            return None
        each = [f"{path} ({self._streams[path].problem})" for path in failing[:SHOWN]]
        more = f" and {len(failing) - SHOWN} more" if len(failing) > SHOWN else ""
        return f"cannot watch {', '.join(each)}{more}"

    def blind(self, seconds: float) -> str | None:
        """Returns the streams that have not proved to work for more than ``seconds``, as a sentence; None if there are
        none."""
        blind = sorted(path for path, stream in self._streams.items() if stream.age > seconds)
        if not blind:
            return None
        each = []
        for path in blind[:SHOWN]:
            stream = self._streams[path]
            each.append(f"{path} (for {stream.age:.0f} s: {stream.problem or stream.state})")
        more = f" and {len(blind) - SHOWN} more" if len(blind) > SHOWN else ""
        return f"there was no event, no bookmark and no new stream on {', '.join(each)}{more}"

    def states(self) -> Mapping[tuple[str, str], int]:
        """Returns the number of streams by kind and state."""
        found = Counter({(stream.kind, state.value): 0 for stream in self._streams.values() for state in StreamState})
        found.update((stream.kind, stream.state.value) for stream in self._streams.values())
        return found
