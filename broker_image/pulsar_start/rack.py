"""A bookie waits until brokers can know its rack: one that registers before is given ledgers without regard to it.

The operator writes the rack into the metadata store, where brokers look, and then into an annotation of the pod, which
the kubelet has in a file (https://kubernetes.io/docs/concepts/storage/volumes/#downwardapi).
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pulsar_start.files import read_if_there

RACK_VARIABLE = "PULSAR_OPERATOR_RACK"
"""Names the file; not set = there is nothing to wait for."""
WAIT_SECONDS = 60.0
"""After so long the bookie starts all the same: what it has is needed more than its place."""
PAUSE_SECONDS = 0.5


def await_rack(
    environ: Mapping[str, str],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> str | None:
    """What to say of the rack, once it is known or the time is over; None where there is nothing to wait for."""
    file = environ.get(RACK_VARIABLE)
    if not file:
        return None
    begin = clock()
    while True:
        rack = (read_if_there(Path(file)) or "").strip()
        waited = clock() - begin
        if rack:
            return f"in rack {rack}, after {waited:.0f} s"
        if waited >= WAIT_SECONDS:
            return (
                f"no rack after {waited:.0f} s: it starts all the same, and brokers may give it ledgers without regard "
                "to racks. See condition RacksKnown of the PulsarCluster"
            )
        pause(PAUSE_SECONDS)
