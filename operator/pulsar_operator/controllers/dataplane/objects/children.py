"""The child objects of a PulsarCluster or PulsarInstance: read, applied, pruned, deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pulsar_operator.api.constants import LABEL_OWNER_KIND, LABEL_OWNER_NAME, Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.domain.dataplane.objects.absent_pods import FAILED_CREATE, refusals
from pulsar_operator.domain.dataplane.objects.live_objects import Live, component_of, controller_uid
from pulsar_operator.domain.dataplane.objects.template_record import (
    RECORD_SUFFIX,
    configurations,
    is_record,
    parse_record,
)
from pulsar_operator.ports import (
    CONFIG_MAPS,
    OPTIONAL,
    PDBS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Deps,
    Json,
    NotServedError,
    PortError,
    ResourceType,
)

log = logging.getLogger(__name__)

OWNED = (STATEFUL_SETS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, PDBS)
"""Types of children that carry an owner reference and are pruned when they are no longer rendered."""

RECORDED = frozenset({STATEFUL_SETS, SERVICES})
"""Types of children whose pruning is an event: pods end, or the address of a Service is lost."""

_BY_KIND = {kind.kind: kind for kind in (*OWNED, PODS)}


class NameConflictError(Exception):
    """An object that the operator would have to write exists, and another one owns it."""


async def observe_children(deps: Deps, owner: Json) -> Live:
    """Reads everything with the owner's labels, and why missing pods are not created. Raises PortError."""
    meta = owner["metadata"]
    selector = f"{LABEL_OWNER_KIND}={owner['kind']},{LABEL_OWNER_NAME}={meta['name']}"
    kinds = (*OWNED, PODS)
    lists = await asyncio.gather(*(_list(deps, kind, meta["namespace"], selector) for kind in kinds))
    live = Live.of(owner, (each for found in lists for each in found))
    missing = live.missing()
    ending = any("deletionTimestamp" in pod["metadata"] for pod in live.every(PODS.kind))
    if missing or ending or live.restarted():
        live = replace(live, at=deps.clock.now())
    return await _explained(deps, live) if missing else live


async def _list(deps: Deps, kind: ResourceType, namespace: str, selector: str) -> list[Json]:
    """Lists the objects of a type; empty if it is optional and not served. Raises PortError."""
    try:
        return await deps.kube.list(kind, namespace, selector=selector)
    except NotServedError:
        if kind not in OPTIONAL:
            raise
        return []


async def _explained(deps: Deps, live: Live) -> Live:
    """Adds what the StatefulSet controller reports about missing pods. Events that cannot be read are unknown."""
    found: dict[str, str] = {}
    for component in Component:
        facts, there = live.facts(component), live.stateful_set(component)
        if facts is None or there is None or not facts.missing:
            continue
        try:
            events = await deps.kube.warnings(there, FAILED_CREATE)
        except PortError as error:
            log.debug("events of StatefulSet %s cannot be read: %s", there["metadata"]["name"], error)
            continue
        if events:
            found |= refusals(events, facts.missing, deps.clock.now())
    return replace(live, refusals=found) if found else live


async def apply_children(actor: Actor, live: Live, manifests: Iterable[Json], *, at: Sequence[str] = ()) -> Live:
    """Applies manifests in order if they differ; returns the live objects after that. ``at``: see Actor.apply.

    Raises NameConflictError, UnavailableError, ConflictError.
    """
    for manifest in manifests:
        kind, name = _BY_KIND[manifest["kind"]], manifest["metadata"]["name"]
        found = live.get(kind.kind, name)
        if found is None:
            await check_free(actor, kind, name)
        result = await actor.apply(manifest, found, at=at)
        if result is not None:
            live = live.having(result)
    return live


async def check_free(actor: Actor, kind: ResourceType, name: str) -> None:
    """Checks that the name is free: server-side apply with force would take over an object of another owner. Raises
    NameConflictError, PortError."""
    namespace = actor.owner["metadata"]["namespace"]
    try:
        found = await actor.deps.kube.get(kind, namespace, name)
    except NotServedError:
        if kind not in OPTIONAL:
            raise
        return  # the attempt to apply it says so
    if found is None or controller_uid(found) == actor.owner["metadata"]["uid"]:
        return
    raise NameConflictError(
        f"{kind.kind} {namespace}/{name} exists and does not belong to this object. Delete or rename it, or "
        "choose another metadata.name"
    )


async def prune(actor: Actor, live: Live, rendered: Iterable[Json], *, keep: frozenset[Component]) -> None:
    """Deletes children that are no longer rendered, except those of ``keep``.

    ServiceAccounts that pods use stay until the pods are replaced, and so do ConfigMaps (prune_configurations).
    """
    desired = {(m["kind"], m["metadata"]["name"]) for m in rendered}
    # A pod whose turn has not come goes on asking for tokens of the identity it was made with.
    desired |= {(SERVICE_ACCOUNTS.kind, name) for name in live.accounts() | _accounts_on_record(live)}
    uid, kept = actor.owner["metadata"]["uid"], {component.value for component in keep}
    for kind in OWNED:
        for obj in live.every(kind.kind):
            name = obj["metadata"]["name"]
            if (kind.kind, name) in desired or component_of(obj) in kept or controller_uid(obj) != uid:
                continue
            if kind != CONFIG_MAPS:
                reason = Reason.DELETED if kind in RECORDED else None
                await actor.delete(kind, obj, "it was removed from the spec", reason=reason)


async def prune_configurations(actor: Actor, live: Live, rendered: Iterable[Json]) -> None:
    """Deletes the ConfigMaps that are not rendered and that no template and no pod refers to.

    Reads them again directly before: a pod that was just created from an older template could not start without its
    ConfigMap. Raises PortError.
    """
    manifests = list(rendered)
    desired = frozenset(m["metadata"]["name"] for m in manifests if m["kind"] == CONFIG_MAPS.kind)
    # A workload that cannot be made, for a stranger has its name, has a record all the same.
    desired |= {f"{m['metadata']['name']}{RECORD_SUFFIX}" for m in manifests if m["kind"] == STATEFUL_SETS.kind}
    if not _unused(actor, live, desired):
        return
    for obj in _unused(actor, await observe_children(actor.deps, actor.owner), desired) if actor.act else ():
        await actor.delete(CONFIG_MAPS, obj, "no pod uses it any longer")


def _unused(actor: Actor, live: Live, desired: frozenset[str]) -> list[Json]:
    used, uid = desired | live.configurations() | _on_record(live), actor.owner["metadata"]["uid"]
    found = [o for o in live.every(CONFIG_MAPS.kind) if controller_uid(o) == uid and o["metadata"]["name"] not in used]
    return found if live.settled() else []


def _on_record(live: Live) -> frozenset[str]:
    """Returns the records of pod templates whose workload exists, and the ConfigMaps of templates from which pods may
    be created."""
    mounted = [configurations(template) for template in _templates_on_record(live)]
    return frozenset(each["metadata"]["name"] for each in _records(live)).union(*mounted)


def _accounts_on_record(live: Live) -> frozenset[str]:
    """Returns the ServiceAccounts of templates from which pods may be created."""
    return frozenset(str((each.get("spec") or {}).get("serviceAccountName")) for each in _templates_on_record(live))


def _templates_on_record(live: Live) -> list[Json]:
    return [kept.template for each in _records(live) for kept in parse_record(each).kept.values()]


def mounting(live: Live) -> list[Json]:
    """Returns the pods, the applied pod templates, and the recorded ones from which pods may be created again."""
    applied = [each["spec"]["template"] for each in live.every(STATEFUL_SETS.kind)]
    return [*live.every(PODS.kind), *applied, *_templates_on_record(live)]


def _records(live: Live) -> list[Json]:
    workloads = {component_of(each) for each in live.every(STATEFUL_SETS.kind)}
    return [o for o in live.every(CONFIG_MAPS.kind) if is_record(o) and component_of(o) in workloads]


async def delete_workloads(actor: Actor, live: Live, components: Iterable[Component], why: str) -> bool:
    """Deletes the StatefulSets of components; True once they and their pods are gone."""
    gone = True
    for component in components:
        found = live.stateful_set(component)
        if found is not None:
            gone = False
            if "deletionTimestamp" not in found["metadata"]:
                await actor.delete(STATEFUL_SETS, found, why, reason=Reason.DELETING)
        if live.pods(component):
            gone = False
    return gone
