"""Requests for a new volume, kept at the bookie's claims so that they outlive the annotated pod. Pure.

The annotation replace-volume ends with its pod, and a rollout or a node drain may replace the pod before the operator
acts on it. So the operator copies the request to the PersistentVolumeClaims. A request cannot return after it was
carried out: the new volume has new claims without it, and a request that another tool copies to them, as a backup tool
does, names the claim that it was made for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

FALSE = "false"
"""Value of the annotation that withdraws the request."""
WORDS = 200
"""Maximum length of the stored reason."""
NO_REASON = "no reason was given"


@dataclass(frozen=True)
class VolumeRequest:
    """A request for a new volume of a bookie."""

    why: str
    """The value of the annotation."""
    pod: str
    """UID of the pod that was annotated."""
    annotated_pod: str = ""
    """UID of the pod that replaced it, once an event reported that the request continues; empty before that."""
    claim: str = ""
    """UID of the claim at which it is stored; empty if an earlier operator stored it."""

    def text(self) -> str:
        """Value of the annotation at a claim."""
        return json.dumps({"why": self.why, "pod": self.pod, "annotatedPod": self.annotated_pod, "claim": self.claim})

    def is_about(self, claim: str) -> bool:
        """Whether it was stored for the claim with that UID."""
        return self.claim in ("", claim)


def parse_request(text: str | None) -> VolumeRequest | None:
    """Parses an annotation of a claim; None if there is none, or it is no request."""
    try:
        found = json.loads(text or "null") or {}
        return VolumeRequest(
            str(found["why"]), str(found["pod"]), str(found.get("annotatedPod", "")), str(found.get("claim", ""))
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def reason_given(annotation: str | None) -> str | None:
    """Returns why a new volume is requested, from the pod's annotation; None without the annotation."""
    return None if annotation is None else annotation[:WORDS] or NO_REASON


def request_now(annotation: str | None, pod: str, kept: VolumeRequest | None) -> VolumeRequest | None:
    """Returns the request to keep at the claims of a bookie; None if no new volume is requested. ``annotation`` is that
    of its pod, ``pod`` the pod's UID, empty if there is no pod.
    """
    why = reason_given(annotation)
    if why == FALSE:
        return None
    if why is not None:
        return kept if kept is not None and (kept.why, kept.pod) == (why, pod) else VolumeRequest(why, pod)
    # Whoever takes the annotation off the pod that has it takes the request back; a new pod never had it.
    return None if kept is None or kept.pod == pod else kept


def goes_on(request: VolumeRequest, pod: str) -> bool:
    """Whether its pod was replaced, and no event reported yet that the request continues."""
    return pod not in ("", request.pod, request.annotated_pod)
