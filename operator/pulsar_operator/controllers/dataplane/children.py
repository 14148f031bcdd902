"""The child objects of a PulsarCluster or PulsarInstance: observed once per pass, applied, pruned, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from pulsar_operator.api.constants import LABEL_COMPONENT, LABEL_OWNER_KIND, LABEL_OWNER_NAME, Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.ports import (
    CONFIG_MAPS,
    PDBS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Deps,
    Json,
    ResourceType,
)

OWNED = (STATEFUL_SETS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, PDBS)
"""Types of children that carry an owner reference and are pruned when they are no longer rendered."""

_BY_KIND = {kind.kind: kind for kind in (*OWNED, PODS)}


class NameConflictError(Exception):
    """An object the operator would have to write exists, and another one owns it."""


@dataclass
class Children:
    """Live children by type and name; updated as the pass writes."""

    deps: Deps
    owner: Json
    _live: dict[ResourceType, dict[str, Json]] = field(default_factory=dict)

    @classmethod
    async def observe(cls, deps: Deps, owner: Json) -> Children:
        """List everything that carries the owner's labels. Raises UnavailableError."""
        meta = owner["metadata"]
        selector = f"{LABEL_OWNER_KIND}={owner['kind']},{LABEL_OWNER_NAME}={meta['name']}"
        kinds = (*OWNED, PODS)
        lists = await asyncio.gather(*(deps.kube.list(kind, meta["namespace"], selector=selector) for kind in kinds))
        return cls(
            deps,
            owner,
            {kind: {o["metadata"]["name"]: o for o in found} for kind, found in zip(kinds, lists, strict=True)},
        )

    def get(self, kind: ResourceType, name: str) -> Json | None:
        """A child as observed."""
        return self._live[kind].get(name)

    def stateful_set(self, component: Component) -> Json | None:
        """The StatefulSet of a component."""
        for obj in self._live[STATEFUL_SETS].values():
            if obj["metadata"]["labels"].get(LABEL_COMPONENT) == component.value:
                return obj
        return None

    def pods(self, component: Component) -> list[Json]:
        """The pods of a component, by name."""
        found = [
            o for o in self._live[PODS].values() if o["metadata"]["labels"].get(LABEL_COMPONENT) == component.value
        ]
        return sorted(found, key=lambda o: str(o["metadata"]["name"]))

    def of_previous_owner(self) -> list[str]:
        """Children that still belong to a deleted object of the same name; garbage collection is removing them."""
        uid = self.owner["metadata"]["uid"]
        names = []
        for kind in OWNED:
            for name, obj in self._live[kind].items():
                owner = _controller_uid(obj)
                if owner is not None and owner != uid:
                    names.append(f"{kind.kind} {name}")
        return sorted(names)

    async def apply(self, actor: Actor, manifests: Iterable[Json]) -> None:
        """Apply manifests in order where they differ. Raises NameConflictError, UnavailableError, ConflictError."""
        for manifest in manifests:
            kind, name = _BY_KIND[manifest["kind"]], manifest["metadata"]["name"]
            live = self._live[kind].get(name)
            if live is None:
                await self._check_free(kind, name)
            result = await actor.apply(manifest, live)
            if result is not None:
                self._live[kind][name] = result

    async def _check_free(self, kind: ResourceType, name: str) -> None:
        """Server-side apply with force would take over an object of that name that is not ours."""
        namespace = self.owner["metadata"]["namespace"]
        found = await self.deps.kube.get(kind, namespace, name)
        if found is None or _controller_uid(found) == self.owner["metadata"]["uid"]:
            return
        raise NameConflictError(
            f"{kind.kind} {namespace}/{name} exists and does not belong to this object: "
            "delete or rename it, or choose another metadata.name"
        )

    async def prune(self, actor: Actor, rendered: Iterable[Json], *, keep: frozenset[Component]) -> None:
        """Delete children this object controls that are no longer rendered, except those of ``keep``."""
        wanted = {(m["kind"], m["metadata"]["name"]) for m in rendered}
        uid = self.owner["metadata"]["uid"]
        for kind in OWNED:
            for name, obj in list(self._live[kind].items()):
                component = obj["metadata"]["labels"].get(LABEL_COMPONENT)
                if (kind.kind, name) in wanted or component in keep or _controller_uid(obj) != uid:
                    continue
                await actor.delete(kind, obj, "removed from spec")

    async def delete_workloads(self, actor: Actor, components: Iterable[Component], why: str) -> bool:
        """Delete the StatefulSets of components; True when they and their pods are gone."""
        gone = True
        for component in components:
            sts = self.stateful_set(component)
            if sts is not None:
                gone = False
                if "deletionTimestamp" not in sts["metadata"]:
                    await actor.delete(STATEFUL_SETS, sts, why, reason=Reason.DELETING)
            if self.pods(component):
                gone = False
        return gone


def _controller_uid(obj: Json) -> str | None:
    for reference in obj["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            return str(reference["uid"])
    return None
