"""Managed ZooKeeper ensembles, of a cluster or of an instance: objects, superuser digest, quorum, volumes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.objects.children import NameConflictError, apply_children
from pulsar_operator.domain.dataplane.cluster.bring_up import majority
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.pods import ComponentFacts
from pulsar_operator.domain.render import (
    FOUNDED_KEY,
    SUPER_DIGEST_KEY,
    Owner,
    founded_name,
    selector_text,
    workload_name,
)
from pulsar_operator.domain.render.child_names import is_claim_of, is_labelled, labels
from pulsar_operator.ports import CONFIG_MAPS, PVCS, SECRETS, ConflictError, Json, ResourceType

SUPER_USER = "super"


def super_digest_name(owner: str, component: Component) -> str:
    """Returns the name of the Secret with the superuser of an ensemble."""
    return f"{workload_name(owner, component)}-super"


async def apply_ensemble(
    actor: Actor, owner: Owner, live: Live, component: Component, manifests: Sequence[Json]
) -> Live:
    """Applies the rendered manifests of an ensemble; its pods mount the superuser's Secret, which comes first. Returns
    the live objects after that. Raises NameConflictError, PortError.
    """
    await ensure_super_digest(actor, owner, component)
    return await apply_children(actor, live, manifests)


async def record_founding(
    actor: Actor, owner: Owner, live: Live, component: Component, managed: ManagedZooKeeper
) -> bool:
    """Records that the ensemble was founded, as soon as it has a quorum; returns whether it has one and is recorded.

    From then on a server with an empty volume joins the others and founds nothing (pulsar_start/zookeeper.py). It must
    be called before anything is written into the ensemble: while its object is paused, an ensemble that is not recorded
    is not ready for other writers. (A cluster's own ensemble is ready for them only after the cluster has set it up,
    which happens after this.) The record lives as long as the volumes. Raises NameConflictError, PortError.
    """
    if not has_quorum(live.facts(component), managed):
        return False
    kube, name = actor.deps.kube, founded_name(owner.name, component)
    # The list shows what has our labels: one that was restored by hand may have none.
    found = live.get(CONFIG_MAPS.kind, name) or await kube.get(CONFIG_MAPS, owner.namespace, name)
    if found is not None and is_founded(found):
        return True
    if found is not None and not is_labelled(owner, found):
        raise NameConflictError(
            f"ConfigMap {owner.namespace}/{name} exists, but does not record that the ensemble was founded. "
            f'Delete the ConfigMap, or set its data to {FOUNDED_KEY}: "true"'
        )
    if not actor.act:
        actor.pending.append(f"{'Update' if found else 'Create'} ConfigMap {name}, because the ensemble has a quorum")
        return False
    manifest: Json = {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": name, "namespace": owner.namespace, "labels": labels(owner, component)},
        "data": {FOUNDED_KEY: "true"},
    }
    if found is None:
        await kube.create(manifest)
        return True
    manifest["metadata"]["uid"] = found["metadata"]["uid"]
    await kube.apply(manifest)
    actor.record_write(f"Updated ConfigMap {name}, because it did not record that the ensemble was founded")
    return True


def is_founded(record: Json) -> bool:
    """Whether the record says that an ensemble was founded."""
    return bool((record.get("data") or {}).get(FOUNDED_KEY) == "true")


def has_quorum(facts: ComponentFacts | None, managed: ManagedZooKeeper) -> bool:
    """Whether enough servers are ready for a quorum; False if not known."""
    return facts is not None and (facts.ready or 0) >= majority(managed.replicas)


async def ensure_super_digest(actor: Actor, owner: Owner, component: Component) -> None:
    """Creates the Secret with ZooKeeper's superuser password and digest once; it is never overwritten.

    It has no owner reference and lives as long as the volumes. Digest form: DigestAuthenticationProvider,
    user:base64(sha1(user:password)).
    """
    deps, namespace, name = actor.deps, owner.namespace, super_digest_name(owner.name, component)
    if await deps.kube.get(SECRETS, namespace, name) is not None:
        return
    if not actor.act:
        actor.pending.append(f"Create Secret {name}, because it does not exist")
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
    """Deletes what lives as long as a managed ensemble's volumes: the superuser's Secret, and the record of its
    founding. Only called with reclaimPolicy Delete, after the volumes."""
    secret = await actor.deps.kube.get(SECRETS, owner.namespace, super_digest_name(owner.name, component))
    if secret is not None:
        await delete_ours(actor, SECRETS, secret, ours=is_labelled(owner, secret))
    record = await actor.deps.kube.get(CONFIG_MAPS, owner.namespace, founded_name(owner.name, component))
    if record is not None:
        await delete_ours(actor, CONFIG_MAPS, record, ours=is_labelled(owner, record) or is_founded(record))


async def delete_volumes(actor: Actor, owner: Owner) -> None:
    """Deletes the claims of an owner's pods; only called with reclaimPolicy Delete.

    A claim that was created as a copy of one, with its labels, does not belong to a pod and stays.
    """
    for claim in await actor.deps.kube.list(PVCS, owner.namespace, selector=selector_text(owner)):
        if "deletionTimestamp" not in claim["metadata"]:
            await delete_ours(actor, PVCS, claim, ours=is_claim_of(owner, claim["metadata"]["name"]))


async def delete_ours(actor: Actor, kind: ResourceType, found: Json, *, ours: bool) -> None:
    """Deletes an object that the operator created; one of another creator stays, with an event."""
    if ours:
        reason = None if kind == CONFIG_MAPS else Reason.DELETED  # a ConfigMap is a record of the operator
        await actor.delete(kind, found, "reclaimPolicy is Delete", reason=reason)
    else:
        why = "the operator did not create it for this object. Delete it if it is no longer needed"
        await actor.warn(Reason.NOT_DELETED, f"{kind.kind} {found['metadata']['name']} is not deleted, because {why}")
