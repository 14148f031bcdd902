"""Structured logs on stdout: one JSON object per line, or text for people."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from pulsar_operator.domain.texts import quoted, visible, without_secrets

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every record has. All others come from ``extra``."""
_HIDDEN = frozenset({"settings", "k8s_skip", "k8s_ref"})
"""Attributes that the watch framework adds to its records. Their values are objects and not data."""


def extras(record: logging.LogRecord) -> dict[str, object]:
    """Returns the fields that a log call passed with ``extra``, without empty ones."""
    return {k: v for k, v in vars(record).items() if k not in _PLAIN and k not in _HIDDEN and v is not None}


def message(record: logging.LogRecord) -> str:
    """Returns the message of a record. Errors among its arguments contain text from other systems and are quoted."""
    if not isinstance(record.args, tuple):
        return record.getMessage()
    args = tuple(quoted(str(each)) if isinstance(each, BaseException) else each for each in record.args)
    return str(record.msg) % args if args else str(record.msg)


def _quoted_trace(text: str) -> str:
    """Returns a traceback without secrets in error messages. Lines of code, which are indented, are kept."""
    return "\n".join(each if each.startswith(" ") else without_secrets(each) for each in text.split("\n"))


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time (RFC 3339, UTC), level, logger, message, the extra fields, error."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message(record),
            **extras(record),
        }
        if record.exc_info:
            line["traceback"] = _quoted_trace(self.formatException(record.exc_info))
        return visible(json.dumps(line, default=str, ensure_ascii=False), keep="")


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, and the extra fields as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line, followed by a traceback if there is one."""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{k}={v}" for k, v in extras(record).items())
        text = f"{moment} {record.levelname:<7} {record.name}: {message(record)}" + (f"  [{fields}]" if fields else "")
        return visible(text, keep="") + visible(
            f"\n{_quoted_trace(self.formatException(record.exc_info))}" if record.exc_info else ""
        )


def configure(*, level: str, style: str) -> None:
    """Sends all logs to stdout. ``style`` is json or text. Libraries log from WARNING on."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    quiet = logging.DEBUG if level.upper() == "DEBUG" else logging.WARNING
    for name in ("kopf", "kubernetes", "kazoo", "aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(max(quiet, logging.INFO) if name in ("asyncio", "kazoo") else quiet)
