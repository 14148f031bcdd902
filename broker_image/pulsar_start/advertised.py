"""A broker waits until the operator knows the addresses of its external listeners: it tells them to clients, and to the
other brokers, from its start to its end.

The operator writes them into a ConfigMap, one entry for each pod, which the kubelet has as files. A load balancer gets
its address minutes after its Service was created; and the kubelet may see a new entry a minute late.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pulsar_start.errors import StartError
from pulsar_start.files import read_if_there

VARIABLE = "PULSAR_OPERATOR_LISTENERS"
"""Names the file of this pod; not set = the broker has no external listener."""
SETTING = "advertisedListeners"
WAIT_SECONDS, PAUSE_SECONDS = 300.0, 1.0
REMEDY = "See condition ListenersReady of the PulsarCluster"


def await_listeners(
    environ: Mapping[str, str],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """The setting with the addresses; empty where there is no external listener.

    Raises StartError after five minutes: the pod's status says why, and its next start looks again.
    """
    file = environ.get(VARIABLE)
    if not file:
        return {}
    begin, waits = clock(), False
    while True:
        found = (read_if_there(Path(file)) or "").strip()
        if found:
            say(f"its addresses at external listeners are known: {found}")
            return {SETTING: found}
        if clock() - begin >= WAIT_SECONDS:
            raise StartError(
                f"after {WAIT_SECONDS:.0f} s the addresses of this broker at external listeners are not known: {file} "
                f"is not there. {REMEDY}"
            )
        if not waits:
            waits = True
            say(f"waits for its addresses at external listeners, {WAIT_SECONDS:.0f} s at most. {REMEDY}")
        pause(PAUSE_SECONDS)
