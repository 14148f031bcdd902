"""What the in-memory Pulsar answers with."""

from __future__ import annotations

from typing import Any

Answer = tuple[int, Any]
NO_CONTENT: Answer = (204, None)
EMPTY: Answer = (200, None)


class Text(str):
    """An answer that is plain text, although its content type says JSON."""

    __slots__ = ()


class RefusalError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.answer: Answer = (status, {"reason": reason})
