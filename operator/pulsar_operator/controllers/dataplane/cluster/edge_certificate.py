"""Keeps the operator's copy of the certificate at the edge, which pods mount."""

from __future__ import annotations

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.dataplane.objects.children import check_free, mounting
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.dataplane.cluster.cluster_view import CertificateFact
from pulsar_operator.domain.dataplane.objects.live_objects import controller_uid
from pulsar_operator.domain.dataplane.observed.edge_certificate import edge_secret
from pulsar_operator.domain.render.edge_tls import edge_secret_name, mounts_certificate
from pulsar_operator.ports import SECRETS


async def certificate(ctx: PhaseContext) -> CertificateFact:
    """Writes the copy with contents that were checked, before pods are created that mount it. Deletes it once no pod
    uses TLS any more. Raises NameConflictError, PortError."""
    facts = ctx.facts
    known, secrets = facts.certificate, facts.edge_secrets
    if known is None or secrets is None:
        return CertificateFact(None, mode=facts.edge, kept=await _kept(ctx))
    if known.contents is not None:
        if secrets.copy is None:
            await check_free(ctx.actor, SECRETS, edge_secret_name(facts.owner.name))
        await ctx.actor.apply(edge_secret(facts.owner, known.contents), secrets.copy)
    return CertificateFact(known, mode=facts.edge, lagging=facts.proxies_lagging, kept=True)


async def _kept(ctx: PhaseContext) -> bool:
    """Deletes a copy that no pod can mount; returns whether there is one still. Whether there was one is known from the
    status, so clusters that never used TLS cause no request."""
    owner = ctx.facts.owner
    if not ctx.facts.before.certificates:
        return False
    if any(mounts_certificate(each, owner.name) for each in mounting(ctx.live)):
        return True
    found = await ctx.actor.deps.kube.get(SECRETS, owner.namespace, edge_secret_name(owner.name))
    if found is None or controller_uid(found) != owner.uid:
        return False
    await ctx.actor.delete(SECRETS, found, "no pod uses it any longer", reason=Reason.DELETED)
    return not ctx.actor.act
