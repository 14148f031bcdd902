"""Cases of faults on the wire: which fault, at which request of the undisturbed run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.support.faults.http import ADMIN_WIRE, CASE, KUBE_WIRE, STREAM_WIRE, WATCH_WIRE, Request

CREATE, DELETE = "create", "delete"
KUBERNETES, ADMIN = "kubernetes", "admin"
FAULTS = {KUBERNETES: (*KUBE_WIRE, *WATCH_WIRE), ADMIN: ADMIN_WIRE}


@dataclass(frozen=True)
class Case:
    """One fault at one place of the undisturbed run."""

    side: str
    phase: str
    fault: str
    after: int
    """Equal requests of the case that pass before."""
    words: str
    """The request in the undisturbed run."""
    shared: bool = False
    """Whether the request names no case, so that its words alone tell it."""

    @property
    def alone(self) -> bool:
        """Whether it concerns others too, so that nothing else runs beside it."""
        return self.shared or self.fault in STREAM_WIRE

    @property
    def certain(self) -> bool:
        """Whether the request is made in every run. Two events that come close together are one pass, so that of equal
        requests only the first is certain; the status of what is being deleted is written where something has to be
        waited for; and an answer that concerns no case in particular is remembered."""
        waits = self.phase == DELETE and self.words.endswith("/status")
        return not self.shared and self.after == 0 and not waits

    def __str__(self) -> str:
        return f"{self.side} {self.phase}: {self.fault} at number {self.after} of {self.words}"


def common(runs: list[list[Request]]) -> list[Request]:
    """Requests of the first run that all runs made: as many equal ones as each of them has."""
    counted = [Counter(CASE.sub("", request.words) for request in run) for run in runs]
    out: list[Request] = []
    for request in runs[0]:
        words = CASE.sub("", request.words)
        if sum(CASE.sub("", each.words) == words for each in out) < min(counts[words] for counts in counted):
            out.append(request)
    return out
