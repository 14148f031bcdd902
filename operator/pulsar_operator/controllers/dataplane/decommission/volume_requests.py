"""Keeps requests for new volumes at the bookies' claims (domain/dataplane/decommission/volume_requests.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, ANNOTATION_VOLUME_REQUESTED, Component, Reason
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import annotate, claims
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim
from pulsar_operator.domain.dataplane.decommission.volume_requests import (
    VolumeRequest,
    goes_on,
    reason_given,
    request_now,
)
from pulsar_operator.domain.dataplane.objects.pods import PodFacts, pods_of
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of
from pulsar_operator.ports import Json


async def requests(ctx: PhaseContext, there: Json) -> dict[int, str]:
    """Returns why a new volume is requested, by ordinal; changes are kept at the claims. ``there`` is the StatefulSet.
    Raises PortError.
    """
    # A pod that ends says nothing new: its successor may have other claims already.
    pods = {pod.ordinal: pod for pod in pods_of(there, ctx.live.pods(Component.BOOKIE)) if not pod.terminating}
    every = await claims(ctx, range(replicas_of(there)), read=ctx.facts.claims)
    asked: dict[int, str] = {}
    for ordinal in sorted({*pods, *(claim.ordinal for claim in every)}):
        own_claims = [claim for claim in every if claim.ordinal == ordinal and not claim.going and claim.mark is None]
        pod = pods.get(ordinal)
        kept = next((claim.request for claim in own_claims if claim.request is not None), None)
        annotation, uid = _annotation(pod), pod.uid if pod is not None else ""
        request = request_now(annotation, uid, kept)
        why = reason_given(annotation) or (request.why if request is not None else None)
        if why is not None:
            asked[ordinal] = why
        if request is not None and pod is not None and goes_on(request, uid) and ctx.actor.act:
            await ctx.actor.record_event(
                Reason.REPLACING_VOLUME,
                f"Pod {pod.name} was replaced before its volume. The request for a new volume ({request.why}) "
                "still applies, and is recorded on the PersistentVolumeClaims of the bookie. To withdraw the "
                f"request, annotate the pod with {ANNOTATION_REPLACE_VOLUME}=false",
            )
            request = replace(request, annotated_pod=uid)
        await _keep(ctx, own_claims, request)
    return asked


async def _keep(ctx: PhaseContext, own_claims: Sequence[Claim], request: VolumeRequest | None) -> None:
    """Writes the request at the claims, or removes it. A marked claim is empty, and keeps its mark."""
    for claim in own_claims:
        desired = replace(request, claim=claim.uid) if request is not None else None
        if claim.request == desired:
            continue
        if not ctx.actor.act:
            ctx.actor.pending.append(f"Record on PersistentVolumeClaim {claim.name} whether a new volume is requested")
            continue
        await annotate(ctx, claim, {ANNOTATION_VOLUME_REQUESTED: desired.text()} if desired is not None else {})


def _annotation(pod: PodFacts | None) -> str | None:
    found = (pod.raw["metadata"].get("annotations") or {}).get(ANNOTATION_REPLACE_VOLUME) if pod is not None else None
    return None if found is None else str(found)
