"""Claims of bookies' volumes: which are marked as empty, and which ordinals may be used again. Pure.

Class LegacyCookieValidation of BookKeeper 4.17.2: a bookie starts with cookies in its folders and in the metadata
store, or with neither. So a volume whose cookie was deleted from the store starts no bookie again, and one that no
ledger needs is deleted before its ordinal returns. Nothing is formatted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, ANNOTATION_VOLUME_REQUESTED, Reason
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.bookie_ids import same_pod
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.decommission.volume_requests import VolumeRequest, parse_request

Json = Mapping[str, Any]


@dataclass(frozen=True)
class EmptyMark:
    """The mark at a claim of a bookie that is decommissioned."""

    bookie: str
    """Id of the bookie."""
    instance_id: str
    """INSTANCEID of the metadata store that was checked."""
    verified: str
    """When no ledger in that store referenced the bookie, RFC 3339."""

    @classmethod
    def of(cls, bookie: str, instance_id: str, now: datetime) -> EmptyMark:
        """Returns a mark with the time ``now``."""
        return cls(bookie, instance_id, timestamp(now))

    def text(self) -> str:
        """Value of the annotation."""
        return json.dumps(
            {"bookieId": self.bookie, "instanceId": self.instance_id, "ledgersVerifiedEmpty": self.verified}
        )

    def same(self, other: EmptyMark | None) -> bool:
        """Whether another mark is of the same bookie, in any incarnation, and of the same store."""
        return other is not None and self.instance_id == other.instance_id and same_pod(self.bookie, other.bookie)


def parse_empty_mark(text: str | None) -> EmptyMark | None:
    """Parses an annotation; None if there is none, or it is no mark."""
    try:
        found = json.loads(text or "null") or {}
        return EmptyMark(str(found["bookieId"]), str(found["instanceId"]), str(found["ledgersVerifiedEmpty"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


@dataclass(frozen=True)
class Claim:
    """A claim of one of a bookie's volumes."""

    name: str
    uid: str
    ordinal: int
    mark: EmptyMark | None = None
    going: bool = False
    """Whether it is being deleted."""
    volume: str = ""
    """Name of its PersistentVolume; empty while it has none."""
    lost: bool = False
    """Whether its PersistentVolume is gone (phase Lost of the claim)."""
    created: str = ""
    """metadata.creationTimestamp, which sorts as text."""
    request: VolumeRequest | None = None
    """The request to replace its volume; None also if the annotation names another claim."""


def is_claim_of(workload: str, name: str) -> bool:
    """Whether a claim has the name of a journal or a ledger volume of a StatefulSet of bookies, of any number of
    volumes."""
    pattern = rf"(?:journal|ledgers)-[0-9]{{1,3}}-{re.escape(workload)}-[0-9]{{1,10}}"
    return re.fullmatch(pattern, name, re.ASCII) is not None


def claims_of(workload: str, objects: Iterable[Json], volumes: Collection[str]) -> list[Claim]:
    """The claims of a StatefulSet of bookies, ``<volume>-<workload>-<ordinal>``, by name; ``volumes`` are the names of
    its claim templates."""
    names = "|".join(map(re.escape, sorted(volumes)))
    pattern = re.compile(rf"(?:{names})-{re.escape(workload)}-(0|[1-9][0-9]{{0,9}})", re.ASCII)
    found = []
    for obj in objects:
        meta = obj["metadata"]
        match = pattern.fullmatch(str(meta["name"]))
        if match is None:
            continue
        annotations = meta.get("annotations") or {}
        mark = parse_empty_mark(annotations.get(ANNOTATION_VERIFIED_EMPTY))
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        request, uid = parse_request(annotations.get(ANNOTATION_VOLUME_REQUESTED)), str(meta["uid"])
        found.append(
            Claim(
                str(meta["name"]),
                uid,
                int(match[1]),
                mark,
                "deletionTimestamp" in meta,
                volume=str(spec.get("volumeName") or ""),
                lost=status.get("phase") == "Lost",
                created=str(meta.get("creationTimestamp") or ""),
                request=request if request is not None and request.is_about(uid) else None,
            )
        )
    return sorted(found, key=lambda claim: (claim.ordinal, claim.name))


@dataclass(frozen=True)
class Return:
    """Whether an ordinal may have a pod again."""

    delete: tuple[Claim, ...] = ()
    """Claims to delete first: they are marked."""
    blocker: Blocker | None = None
    """Why it may not yet; None if nothing blocks it."""
    foreign: str | None = None
    """Why it cannot until a person acts, with the remedy, as a message."""

    @property
    def free(self) -> bool:
        """Whether it may return now."""
        return not self.delete and self.blocker is None and self.foreign is None


def still_exists(claim: Claim) -> Blocker:
    """Returns the blocker of an ordinal whose earlier claim is being deleted."""
    return Blocker(Reason.PENDING, f"PersistentVolumeClaim {claim.name} still exists")


def may_return(
    bookie: str, claims: Iterable[Claim], *, cookie: bool, instance_id: str, emptied: bool = False
) -> Return:
    """Decides whether the pod of a bookie may be created at an ordinal, given the existing claims.

    ``emptied``: no ledger referenced the bookie when this operator deleted its cookie, and its claims may not be marked
    yet. ``cookie``: whether the metadata store has its cookie; then that bookie returns with its data.
    """
    there = list(claims)
    going = [claim for claim in there if claim.going]
    if going:
        return Return(blocker=still_exists(going[0]))
    here = EmptyMark(bookie, instance_id, "")
    marked = tuple(claim for claim in there if here.same(claim.mark))
    if cookie:
        if not marked:
            return Return()
        return Return(
            foreign=f"PersistentVolumeClaim {marked[0].name} is marked as empty, but the metadata store has a cookie "
            f"of bookie {bookie}. If the claim is the volume of that bookie, remove annotation "
            f"{ANNOTATION_VERIFIED_EMPTY} from the claim"
        )
    if emptied:
        marked = tuple(there)
    strange = [claim for claim in there if claim not in marked]
    if strange:
        return Return(
            foreign=f"PersistentVolumeClaim {strange[0].name} is the volume of a bookie that the metadata store does "
            f"not know, so bookie {bookie} would not start with it. If the data is not needed, delete the claim. "
            "Otherwise reset spec.bookkeeper.replicas, with autoscaling its maxReplicas, to the previous value"
        )
    return Return(delete=marked)


def unknown_volume(bookie: str, claims: Iterable[Claim], since: str) -> str | None:
    """Returns why the pod of a bookie without a cookie does not come up, as a message with the remedy; None if its
    volumes are not the cause. ``since`` is the creationTimestamp of the StatefulSet: an older claim was not created for
    this bookie."""
    older = [claim for claim in claims if claim.created and claim.created < since and not claim.going]
    if not older:
        return None
    return (
        f"Bookie {bookie} does not start, because PersistentVolumeClaim {older[0].name} is the volume of a bookie "
        "that the metadata store does not know. If its data is not needed, delete the claim and then pod "
        f"{bookie.partition('.')[0]}. If it is the volume of this bookie, write the cookie of the bookie into the "
        "metadata store again with `bin/bookkeeper shell cookie_create -cf <ledger folder>/current/VERSION "
        "<bookie>`"
    )
