"""Answers of a fake in pieces, as ports.PulsarAdminPort streams them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pulsar_operator.ports import AdminEndpoint

PIECE_BYTES = 1000


class Streaming:
    """The stream of what ``call`` answers: whoever fails, gates or counts calls does so with streams."""

    call: Any

    async def stream(
        self,
        endpoint: AdminEndpoint,
        path: Sequence[str],
        feed: Callable[[bytes], None],
        *,
        query: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> None:
        """See ports.PulsarAdminPort."""
        answer = await self.call(endpoint, "GET", path, query=query, deadline=deadline)
        # Pulsar writes whole numbers for what is no finite one, as Java turns it to a long (SimpleTextOutputStream).
        text = "" if answer is None else json.dumps(answer)
        text = text.replace("Infinity", str((1 << 63) - 1)).replace("NaN", "0")
        data = text.encode()
        for at in range(0, len(data), PIECE_BYTES):
            feed(data[at : at + PIECE_BYTES])
