"""Managed ZooKeeper ensembles, of a cluster or of an instance: objects, superuser digest, quorum, volumes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from contextlib import suppress

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.children import apply_children
from pulsar_operator.domain.dataplane.bring_up import majority
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.pods import ComponentFacts
from pulsar_operator.domain.render import (
    FOUNDED_KEY,
    SUPER_DIGEST_KEY,
    Owner,
    founded_name,
    selector_text,
    workload_name,
)
from pulsar_operator.domain.render.names import labels
from pulsar_operator.ports import CONFIG_MAPS, PVCS, SECRETS, ConflictError, Json

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


async def record_founding(
    actor: Actor, owner: Owner, live: Live, component: Component, managed: ManagedZooKeeper
) -> bool:
    """Put on record that the ensemble was founded, as soon as it has a quorum; whether it has one. Raises PortError.

    From then on a server whose volume is empty joins the others and founds nothing (pulsar_start/zookeeper.py). To be
    called before anything is written into the ensemble. The record lives as long as the volumes.
    """
    if not has_quorum(live.facts(component), managed):
        return False
    name = founded_name(owner.name, component)
    if live.get(CONFIG_MAPS.kind, name) is not None:
        return True
    if not actor.act:
        actor.pending.append(f"Create ConfigMap {name}: the ensemble has a quorum")
        return True
    manifest: Json = {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": name, "namespace": owner.namespace, "labels": labels(owner, component)},
        "data": {FOUNDED_KEY: "true"},
    }
    with suppress(ConflictError):  # created by a pass that was interrupted after the write
        await actor.deps.kube.create(manifest)
    return True


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


async def delete_records(actor: Actor, owner: Owner, component: Component) -> None:
    """Delete what lives as long as an ensemble's volumes: the superuser's Secret, and that it was founded. Only called
    with reclaimPolicy Delete, after the volumes."""
    names = {SECRETS: super_digest_name(owner.name, component), CONFIG_MAPS: founded_name(owner.name, component)}
    for kind, name in names.items():
        found = await actor.deps.kube.get(kind, owner.namespace, name)
        if found is not None:
            await actor.delete(kind, found, "reclaimPolicy is Delete")


async def delete_volumes(actor: Actor, owner: Owner) -> None:
    """Delete the claims of an owner's pods; only called with reclaimPolicy Delete."""
    for claim in await actor.deps.kube.list(PVCS, owner.namespace, selector=selector_text(owner)):
        if "deletionTimestamp" not in claim["metadata"]:
            await actor.delete(PVCS, claim, "reclaimPolicy is Delete")
