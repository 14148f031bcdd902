"""The operator as a process with its logical controllers alone: ``python -m tests.support.processes.logical_operator``.

Everything is the real thing but the deadlines of its two HTTP clients, which are short so that a stall does not take a
quarter of a minute, and instances and clusters, of which tests write the status themselves.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from pulsar_operator import logs
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import DONE, Outcome, Reconciler
from pulsar_operator.ports import Deps, Key
from pulsar_operator.runtime import Operator, controllers, on_signals
from pulsar_operator.settings import load
from tests.support.logical.world import LOGICAL

DEADLINE_SECONDS = 3.0


class _Idle:
    """Does nothing."""

    async def reconcile(self, key: Key) -> Outcome:
        """Nothing to do."""
        return DONE


def logical(deps: Deps) -> Mapping[Kind, Reconciler]:
    """The real controllers of the logical kinds."""
    real, idle = controllers(deps), _Idle()
    return {kind: real[kind] if kind in LOGICAL else idle for kind in real}


async def operate() -> int:
    """Run until a signal."""
    settings, stop = load(), asyncio.Event()
    logs.configure(level=settings.log_level, style=settings.log_format)
    on_signals(stop)
    client = KubeClient(await load_configuration(settings.kubeconfig), deadline=DEADLINE_SECONDS)
    operator = Operator(settings, client, logical)
    assert isinstance(operator.deps.admin, AiohttpAdmin)
    operator.deps.admin._deadline = DEADLINE_SECONDS
    return await operator.run(stop)


if __name__ == "__main__":
    sys.exit(asyncio.run(operate()))
