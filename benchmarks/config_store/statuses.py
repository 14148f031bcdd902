"""When objects became Ready at a generation, as one watch of the API server tells it."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
import urllib.parse
from typing import Any

from benchmarks.objects.measure import is_ready
from tests.support.processes.apiserver import ApiServer

STREAM_SECONDS = 6 * 3600


class Statuses:
    """Follows all objects of a kind. A context manager."""

    def __init__(self, api: ApiServer, path: str) -> None:
        self._seen: dict[str, tuple[int, float]] = {}
        """By name: the last generation that was Ready, and when that was first seen."""
        self._news = threading.Condition()
        self._ended: Exception | None = None
        address = urllib.parse.urlsplit(api.url)
        trust = ssl.create_default_context(cafile=str(api.ca_file))
        self._connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=trust)
        self._target = f"{path}?watch=true&timeoutSeconds={STREAM_SECONDS}"
        self._headers = {"Authorization": f"Bearer {api.token}"}
        self._over = False
        self._thread = threading.Thread(target=self._follow, name="statuses", daemon=True)

    def __enter__(self) -> Statuses:
        self._connection.request("GET", self._target, headers=self._headers)
        self._answer = self._connection.getresponse()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(2)
        self._thread.join(10)
        self._connection.close()

    def take(self, obj: dict[str, Any]) -> None:
        """An object as a watch shows it."""
        generation = done_at(obj)
        if generation is None:
            return
        name = obj["metadata"]["name"]
        with self._news:
            if generation > self._seen.get(name, (0, 0.0))[0]:
                self._seen[name] = generation, time.monotonic()
                self._news.notify_all()

    def ready(self, name: str, generation: int, within: float) -> float:
        """Wait until an object is Ready at a generation; when that was seen. Raises RuntimeError."""
        end = time.monotonic() + within
        with self._news:
            while (found := self._seen.get(name, (0, 0.0)))[0] < generation:
                if self._ended is not None:
                    raise RuntimeError("the watch ended") from self._ended
                if not self._news.wait(end - time.monotonic()):
                    raise RuntimeError(f"{name} was not Ready at generation {generation} within {within:.0f} s")
        return found[1]

    def _follow(self) -> None:
        try:
            for line in self._answer:
                self.take(json.loads(line)["object"])
            raise EOFError
        except Exception as error:
            with self._news:
                self._ended = None if self._over else error
                self._news.notify_all()


def done_at(obj: dict[str, Any]) -> int | None:
    """The generation that an object's status says is done, where that is its own; None = it is not done."""
    generation: int | None = (obj.get("status") or {}).get("observedGeneration")
    return generation if is_ready(obj) and generation == obj["metadata"].get("generation") else None
