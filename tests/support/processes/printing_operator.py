"""The operator as a process with reconcilers that only print, run with ``python -m``; an argument is Printer's file.

Everything but the controllers is the real thing: settings, Lease, watches, queue, health, signals.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pulsar_operator import logs
from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import DONE, Outcome, Reconciler
from pulsar_operator.ports import CUSTOM, Deps, Key
from pulsar_operator.runtime import operate
from pulsar_operator.settings import load


class Printer:
    """Prints each pass as a line of JSON; one of a topic called "slow" ends when ``release`` is there."""

    def __init__(self, deps: Deps, release: Path) -> None:
        self._deps, self._release = deps, release

    async def reconcile(self, key: Key) -> Outcome:
        """Read the object, print it."""
        obj = await self._deps.kube.get(CUSTOM[key.kind], key.namespace, key.name)
        _say(begin=str(key), found=obj is not None, generation=(obj or {}).get("metadata", {}).get("generation"))
        if key.name == "slow":
            await asyncio.to_thread(self._released)
        _say(end=str(key))
        return DONE

    def _released(self) -> None:
        while not self._release.exists():
            time.sleep(0.02)


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def printers(deps: Deps) -> Mapping[Kind, Reconciler]:
    """A printer for every kind."""
    return dict.fromkeys(Kind, Printer(deps, Path(*sys.argv[1:])))


if __name__ == "__main__":
    settings = load()
    logs.configure(level=settings.log_level, style=settings.log_format)
    sys.exit(asyncio.run(operate(settings, make_reconcilers=printers)))
