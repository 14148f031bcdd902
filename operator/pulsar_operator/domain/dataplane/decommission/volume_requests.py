"""A request for a new volume outlives the pod that was annotated: it is kept at the bookie's claims. Pure.

The annotation replace-volume ends with its pod, and a roll or a node drain may replace the pod before the bookie's turn
has come. So the operator keeps what it reads there at the PersistentVolumeClaims. The request cannot come back after it
was done: a new volume has new claims, nothing is kept at those, and a request that somebody copies to them, as a backup
tool does, names the claim that it was made for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

FALSE = "false"
"""Value of the annotation that takes it back."""
WORDS = 200
"""Characters of a reason that are kept."""
NO_REASON = "no reason is given"


@dataclass(frozen=True)
class VolumeRequest:
    """That somebody wants a new volume for a bookie."""

    why: str
    """The value of the annotation."""
    pod: str
    """UID of the pod that was annotated."""
    annotated_pod: str = ""
    """UID of the pod that came after it, once an event says that the request goes on; empty = none does."""
    claim: str = ""
    """UID of the claim that it is kept at; empty in one of an operator that did not write it."""

    def text(self) -> str:
        """Value of the annotation at a claim."""
        return json.dumps({"why": self.why, "pod": self.pod, "annotatedPod": self.annotated_pod, "claim": self.claim})

    def is_about(self, claim: str) -> bool:
        """Whether it was made for the claim with that UID."""
        return self.claim in ("", claim)


def parse_request(text: str | None) -> VolumeRequest | None:
    """What an annotation at a claim says; None where there is none, or it says something else."""
    try:
        found = json.loads(text or "null") or {}
        return VolumeRequest(
            str(found["why"]), str(found["pod"]), str(found.get("annotatedPod", "")), str(found.get("claim", ""))
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def reason_given(annotation: str | None) -> str | None:
    """Why somebody wants a new volume, as the pod's annotation says; None = it has none."""
    return None if annotation is None else annotation[:WORDS] or NO_REASON


def request_now(annotation: str | None, pod: str, kept: VolumeRequest | None) -> VolumeRequest | None:
    """What is to be kept at the claims of a bookie; None = nobody wants a new volume.

    ``annotation`` is that of its pod, ``pod`` the pod's UID, empty = there is none.
    """
    why = reason_given(annotation)
    if why == FALSE:
        return None
    if why is not None:
        return kept if kept is not None and (kept.why, kept.pod) == (why, pod) else VolumeRequest(why, pod)
    # Whoever takes the annotation off the pod that has it takes the request back; a new pod never had it.
    return None if kept is None or kept.pod == pod else kept


def goes_on(request: VolumeRequest, pod: str) -> bool:
    """Whether its pod was replaced, and nobody was told yet that the request goes on."""
    return pod not in ("", request.pod, request.annotated_pod)
