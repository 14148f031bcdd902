"""Managed ZooKeeper ensembles, of a cluster or of an instance: objects, superuser digest, quorum, volumes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.children import apply_children
from pulsar_operator.domain.dataplane.bring_up import majority
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.pods import ComponentFacts
from pulsar_operator.domain.render import SUPER_DIGEST_KEY, Owner, selector_text, workload_name
from pulsar_operator.domain.render.names import labels
from pulsar_operator.ports import PVCS, SECRETS, ConflictError, Json

SUPER_USER = "super"


def super_digest_name(owner: str, component: Component) -> str:
    """Name of the Secret with the superuser of an ensemble."""
    return f"{workload_name(owner, component)}-super"


async def apply_ensemble(
    actor: Actor, owner: Owner, live: Live, component: Component, manifests: Sequence[Json]
) -> Live:
    """Apply the rendered manifests of an ensemble; its pods mount the superuser's Secret, which comes first. What there
    is after that.

    Raises NameConflictError, PortError.
    """
    await ensure_super_digest(actor, owner, component)
    return await apply_children(actor, live, manifests)


def has_quorum(facts: ComponentFacts | None, managed: ManagedZooKeeper) -> bool:
    """Whether so many servers are ready that the ensemble answers; False while that is not known."""
    return facts is not None and (facts.ready or 0) >= majority(managed.replicas)


async def ensure_super_digest(actor: Actor, owner: Owner, component: Component) -> None:
    """Create the Secret with ZooKeeper's superuser password and digest once; never overwritten.

    It has no owner reference and lives as long as the volumes. Digest form: DigestAuthenticationProvider,
    user:base64(sha1(user:password)).
    """
    deps, namespace, name = actor.deps, owner.namespace, super_digest_name(owner.name, component)
    if await deps.kube.get(SECRETS, namespace, name) is not None:
        return
    if not actor.act:
        actor.pending.append(f"Create Secret {name}: it does not exist")
        return
    password = deps.entropy.token()
    # SHA-1 is what ZooKeeper's DigestAuthenticationProvider defines; the password is 24 random bytes.
    sha1 = hashlib.sha1(f"{SUPER_USER}:{password}".encode(), usedforsecurity=False).digest()
    digest = f"{SUPER_USER}:{base64.b64encode(sha1).decode()}"
    manifest: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(owner, component)},
        "type": "Opaque",
        "data": {
            "password": base64.b64encode(password.encode()).decode(),
            SUPER_DIGEST_KEY: base64.b64encode(digest.encode()).decode(),
        },
    }
    try:
        await deps.kube.create(manifest)
    except ConflictError:
        return  # created by a pass that was interrupted after the write


async def delete_super_digest(actor: Actor, owner: Owner, component: Component) -> None:
    """Delete the superuser's Secret with the volumes it belongs to; only called with reclaimPolicy Delete."""
    secret = await actor.deps.kube.get(SECRETS, owner.namespace, super_digest_name(owner.name, component))
    if secret is not None:
        await actor.delete(SECRETS, secret, "reclaimPolicy is Delete")


async def delete_volumes(actor: Actor, owner: Owner) -> None:
    """Delete the claims of an owner's pods; only called with reclaimPolicy Delete."""
    for claim in await actor.deps.kube.list(PVCS, owner.namespace, selector=selector_text(owner)):
        if "deletionTimestamp" not in claim["metadata"]:
            await actor.delete(PVCS, claim, "reclaimPolicy is Delete")
