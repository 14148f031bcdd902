"""The operator as a process, reconciling the logical plane alone: there are no pods behind its clusters.

python -m benchmarks.objects.logical_operator [KIND ...] reconciles these kinds too. Everything else is the real thing:
settings, Lease, watches, queue, adapters, health, metrics.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping

from pulsar_operator import logs
from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import DONE, Outcome, Reconciler
from pulsar_operator.ports import Deps, Key
from pulsar_operator.runtime import MakeReconcilers, controllers, operate
from pulsar_operator.settings import load

LOGICAL = (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY)


class Untouched:
    """Leaves objects of its kind as the benchmark made them."""

    async def reconcile(self, key: Key) -> Outcome:
        """Nothing."""
        return DONE


def only(kinds: Collection[Kind]) -> MakeReconcilers:
    """The real controllers of some kinds."""

    def make(deps: Deps) -> Mapping[Kind, Reconciler]:
        real = controllers(deps)
        return {kind: reconciler if kind in kinds else Untouched() for kind, reconciler in real.items()}

    return make


if __name__ == "__main__":
    settings = load()
    logs.configure(level=settings.log_level, style=settings.log_format)
    sys.exit(asyncio.run(operate(settings, make_reconcilers=only({*LOGICAL, *map(Kind, sys.argv[1:])}))))
