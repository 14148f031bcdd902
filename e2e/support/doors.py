"""New connections all the time: what a client that starts just now meets while proxies are replaced."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from e2e.support.admin import ask

EVERY = 0.05
"""Seconds between two connections."""
SECONDS = 5.0
"""An answer takes no longer; a call that does is one that failed."""


class Doors:
    """Opens a connection for each call of the admin REST through the proxies, from one thread, and counts what failed.

    urllib keeps no connection, so that each call is a choice of a proxy anew. A port that is forwarded to a node takes
    the connection itself, so that a proxy that is gone is seen in the answer, not in the connection.
    """

    def __init__(self, admin_url: str, call: Callable[[], object] | None = None) -> None:
        self._call = call or (lambda: ask(admin_url, "GET", "clusters", seconds=SECONDS))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doors", daemon=True)
        self._lock = threading.Lock()
        self._answered = 0
        self._failed: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(SECONDS + 1)

    @property
    def answered(self) -> int:
        """Connections that were answered so far."""
        with self._lock:
            return self._answered

    def failures(self) -> list[str]:
        """Why connections failed, with how many of each; and that there were none at all."""
        with self._lock:
            found = [f"{count} new connections: {why}" for why, count in self._failed.most_common()]
            return found if self._answered else [*found, "no connection was answered"]

    def _run(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                self._call()
            except (OSError, ValueError) as error:
                with self._lock:
                    self._failed[f"{type(error).__name__}: {error}"] += 1
            else:
                with self._lock:
                    self._answered += 1
            self._stop.wait(max(0.0, EVERY - (time.monotonic() - begin)))
