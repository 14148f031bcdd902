"""The command ``export``: the tenants, namespaces and topics of a running Pulsar as manifests."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.export.calls import DEADLINE_SECONDS, ExportError
from pulsar_operator.export.options import Options
from pulsar_operator.export.output import MAX_LISTED, Exported, Progress, summarise, write
from pulsar_operator.export.reader import CONCURRENCY, Exporter

PARTLY = 3
"""Exit code of an export from which objects are missing because they could not be read."""


class _NoMetrics:
    """The ports.MetricsPort of a command, which records nothing."""

    def admin_call(self, cluster: str, method: str, status: str, seconds: float) -> None:
        """Records nothing."""


async def export(options: Options, *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Runs the command. Returns 0, or PARTLY if something could not be read. Raises ExportError."""
    errors = err or sys.stderr
    metrics: Any = _NoMetrics()
    admin = AiohttpAdmin(metrics, deadline=DEADLINE_SECONDS, concurrency=CONCURRENCY)
    try:
        exported = await Exporter(admin, options, Progress(errors)).run()
    finally:
        await admin.close()
    try:
        old = write(exported, options.output, out or sys.stdout)
    except OSError as error:
        raise ExportError(f"the output cannot be written to {options.output}: {error.strerror or error}") from None
    summarise(exported, errors, options.command)
    if old:
        print(
            f"These files in {options.output} do not belong to this export: {', '.join(old[:MAX_LISTED])}", file=errors
        )
    return PARTLY if exported.failed else 0


__all__ = ["PARTLY", "ExportError", "Exported", "Exporter", "Options", "Progress", "export"]
