"""Calls to Pulsar that are repeated for a while if there is no answer."""

from __future__ import annotations

import asyncio
from typing import Any

from pulsar_operator.domain.policies import Call, Unreadable
from pulsar_operator.ports import (
    AdminEndpoint,
    NotFoundError,
    PortError,
    PulsarAdminPort,
    UnavailableError,
    UnownedError,
)

DEADLINE_SECONDS = 60.0
"""Deadline of one call in seconds; a namespace may have many topics to list."""
FIRST_DEADLINE_SECONDS = 10.0
"""Deadline in seconds of the first call, which checks whether the address is reachable."""
AGAIN_SECONDS = 10.0
"""Seconds for which a call without an answer is repeated, and for which the operator waits once for a topic without an
owner."""
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 4.0
ANSWERS = frozenset({412, 500})
"""HTTP statuses of a request that Pulsar answers but cannot serve, such as for a topic that it cannot load."""
UNREACHABLE_CALLS = 10
"""Number of consecutive calls without an answer after which the export ends."""


class ExportError(RuntimeError):
    """The export cannot continue. The message has the reason and the remedy."""


class Calls:
    """The calls of one export."""

    def __init__(self, admin: PulsarAdminPort, endpoint: AdminEndpoint, command: str) -> None:
        """``command`` is the command with which the user retries."""
        self._admin = admin
        self._endpoint = endpoint
        self._command = command
        self._unreachable = 0
        self._unowned: set[tuple[str, ...]] = set()
        """Namespaces with a topic that remained without an owner. The export does not wait for their other topics."""

    @property
    def advice(self) -> str:
        """Returns the remedy if Pulsar does not answer."""
        return (
            f"Check the brokers (curl {self._endpoint.url.rstrip('/')}/admin/v2/brokers/health must answer ok), "
            f"then run the export again: {self._command}"
        )

    async def ask(self, call: Call, *, deadline: float = DEADLINE_SECONDS) -> Any:
        """Returns the answer. Raises PortError; ExportError if Pulsar has stopped answering."""
        try:
            answer = await self._patiently(call, deadline)
        except UnavailableError as error:
            if error.status in ANSWERS:
                self._unreachable = 0
                raise
            self._unreachable += 1
            if self._unreachable >= UNREACHABLE_CALLS:
                text = f"nothing was written, because Pulsar no longer answers: {error}. {self.advice}"
                raise ExportError(text) from None
            raise
        except PortError:
            self._unreachable = 0
            raise
        self._unreachable = 0
        return answer

    async def _patiently(self, call: Call, deadline: float) -> Any:
        """Returns the first answer. Gives up at the latest AGAIN_SECONDS after the first attempt without one."""
        now = asyncio.get_running_loop().time
        pause, until, waited = FIRST_PAUSE_SECONDS, None, False
        while True:
            try:
                return await self._admin.call(
                    self._endpoint, call.method, call.path, query=call.query, text=call.text, deadline=deadline
                )
            except UnownedError:
                namespace = tuple(call.path[1:3])
                if waited or namespace in self._unowned:
                    self._unowned.add(namespace)
                    raise
                waited = True
                await asyncio.sleep(AGAIN_SECONDS)
            except UnavailableError as error:
                if error.status in ANSWERS:
                    raise
                until = now() + AGAIN_SECONDS if until is None else until
                wait = pause if error.retry_after is None else error.retry_after
                if now() + wait >= until:
                    raise
                await asyncio.sleep(wait)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)
                deadline = until - now()

    async def find(self, call: Call, *, deadline: float = DEADLINE_SECONDS) -> Any:
        """Returns the same as :meth:`ask`; None if the object does not exist."""
        try:
            return await self.ask(call, deadline=deadline)
        except NotFoundError:
            return None

    async def readable(self, call: Call) -> Any:
        """Returns the same as :meth:`find`; Unreadable if there is no answer. Raises UnownedError."""
        try:
            return await self.find(call)
        except UnownedError:
            raise
        except PortError as error:
            return Unreadable(str(error))
