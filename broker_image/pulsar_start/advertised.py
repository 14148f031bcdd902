"""Waits until the operator knows the addresses of this broker at external listeners.

A broker reads its addresses once, when it starts. The operator writes them to a ConfigMap with one entry for each pod,
which the kubelet mounts as files. A load balancer may get its address minutes after its Service was created, and the
kubelet may update the files a minute late.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pulsar_start.errors import StartError
from pulsar_start.files import read_if_there

VARIABLE = "PULSAR_OPERATOR_LISTENERS"
"""Variable with the path of the file of this pod. Without it, the broker has no external listener."""
SETTING = "advertisedListeners"
WAIT_SECONDS, PAUSE_SECONDS = 300.0, 1.0
REMEDY = "See condition ListenersReady of the PulsarCluster"


def await_listeners(
    environ: Mapping[str, str],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """Returns the setting with the addresses, or nothing if the broker has no external listener.

    Raises StartError after five minutes. The pod's status then shows the cause, and its next container waits again.
    """
    file = environ.get(VARIABLE)
    if not file:
        return {}
    begin, waits = clock(), False
    while True:
        found = (read_if_there(Path(file)) or "").strip()
        if found:
            say(f"advertises {found}")
            return {SETTING: found}
        if clock() - begin >= WAIT_SECONDS:
            raise StartError(
                f"the addresses of this broker at external listeners are still not known after {WAIT_SECONDS:.0f} s, "
                f"because {file} does not exist. {REMEDY}"
            )
        if not waits:
            waits = True
            say(f"waits up to {WAIT_SECONDS:.0f} s for its addresses at external listeners. {REMEDY}")
        pause(PAUSE_SECONDS)
