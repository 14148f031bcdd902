"""Structured logs on stdout: one JSON object a line, or text for people; the same fields as the operator's."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes every record has; all others were given with ``extra``."""


class Formatter(logging.Formatter):
    """Time (RFC 3339, UTC), level, logger, message, the fields of ``extra`` that are not None, traceback."""

    def __init__(self, style: str) -> None:
        """``style`` is json or text."""
        super().__init__()
        self._json = style == "json"

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, in text with a traceback below."""
        fields = {k: v for k, v in vars(record).items() if k not in _PLAIN and v is not None}
        trace = self.formatException(record.exc_info) if record.exc_info else None
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        if self._json:
            line = {
                "time": time,
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
                **fields,
                **({"traceback": trace} if trace else {}),
            }
            return json.dumps(line, default=str, ensure_ascii=False)
        words = "".join(f" {k}={v}" for k, v in fields.items())
        return f"{time} {record.levelname:<7} {record.getMessage()}{words}" + (f"\n{trace}" if trace else "")


def configure(*, level: str, style: str) -> None:
    """Send all logs to stdout; aiohttp speaks only from WARNING on."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Formatter(style))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
