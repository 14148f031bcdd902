"""ConfigMap ``<cluster>-load-balancer``: the settings of Pulsar's own balancer before the operator took over.

The cluster's status has them too, but the settings are in Pulsar's metadata, which outlives the object and its status.
So the record has no owner reference: a cluster that was deleted, or restored without status, still knows what to
restore. The record exists only while the settings are the operator's, with one exception: if the operator restored
Pulsar's balancer because it could not decide (balance/execution/handover.py), the record has the time, so that a lost
status changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster_status import FlagStatus
from pulsar_operator.balance.execution.handover import Handover
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.render import Owner
from pulsar_operator.domain.render.child_names import is_labelled, labels
from pulsar_operator.domain.texts import quoted
from pulsar_operator.ports import CONFIG_MAPS, ConflictError, ForbiddenError, Json, RefusedError

MAX_VALUE = 256
"""Maximum length of a value, as in the status."""
MAX_COUNT = 1_000_000
"""Maximum number of times that Pulsar's balancer was restored: twice an hour, the highest rate, for 57 years."""
DISABLED, RESTORED_TIME, COUNT = "disabled", "restoredTime", "handovers"
"""Keys beside the settings, once the operator restored Pulsar's balancer: whether it is disabled now, the time at which
it was restored (empty: the operator balances again), and how often."""
_OWN: Final = frozenset({DISABLED, RESTORED_TIME, COUNT})


@dataclass(frozen=True)
class BalancerRecord:
    """The record of one cluster, for one pass."""

    actor: Actor
    owner: Owner
    listed: Json | None
    """The ConfigMap as read with the children."""

    @classmethod
    def of(cls, actor: Actor, owner: Owner, live: Live) -> BalancerRecord:
        """Reads the record from the children."""
        return cls(actor, owner, live.get(CONFIG_MAPS.kind, balancer_record_name(owner.name)))

    def saved(self, names: Collection[str]) -> list[FlagStatus]:
        """Returns the recorded values of these settings."""
        data = (self.listed or {}).get("data") or {}
        return [FlagStatus(name=each, before=str(data[each])[:MAX_VALUE] or None) for each in names if each in data]

    @property
    def disabled(self) -> bool:
        """Whether the settings are the operator's, according to the record."""
        return self.listed is not None and (self.listed.get("data") or {}).get(DISABLED) != "false"

    def handover(self) -> Handover:
        """Returns when and how often Pulsar's balancer was restored; empty if that is missing or cannot be read."""
        data = (self.listed or {}).get("data") or {}
        text, back = data.get(RESTORED_TIME), parse_time(data.get(RESTORED_TIME))
        try:
            count = int(data.get(COUNT) or 0)
        except (TypeError, ValueError):
            return Handover()
        if not 0 <= count <= MAX_COUNT or (text and back is None):
            return Handover()
        return Handover(restored_at=max(back.timestamp(), 0.0) if back is not None else None, count=count)

    async def write(
        self, saved: Sequence[FlagStatus], handover: Handover | None = None, *, disabled: bool = True
    ) -> None:
        """Writes the record.

        A ConfigMap of that name with another owner stays, and so does one that the API server does not let the operator
        write, such as an immutable one: the pass reports it and continues. Raises PortError.
        """
        data = {flag.name: flag.before or "" for flag in saved}
        if handover is not None and handover.count:
            back = handover.restored_at
            since = timestamp(datetime.fromtimestamp(back, UTC)) if back is not None else ""
            data |= {DISABLED: "true" if disabled else "false", RESTORED_TIME: since, COUNT: str(handover.count)}
        found = await self._find()
        if found is not None and not self._ours(found, data):
            self.actor.refused.append(
                f"ConfigMap {found['metadata']['name']} exists and is not owned by this cluster, so the original "
                "settings of Pulsar's balancer are recorded only in status.balancer. Delete or rename the "
                "ConfigMap"
            )
            return
        if found is not None and data.items() <= (found.get("data") or {}).items():
            return
        manifest: Json = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {
                "name": balancer_record_name(self.owner.name),
                "namespace": self.owner.namespace,
                "labels": labels(self.owner, Component.BROKER),
            },
            "data": data,
        }
        try:
            if found is None:
                with suppress(ConflictError):  # created by a pass that was interrupted after the write
                    await self.actor.deps.kube.create(manifest)
                return
            manifest["metadata"]["uid"] = found["metadata"]["uid"]
            await self.actor.deps.kube.apply(manifest)
        except ForbiddenError:
            raise
        except RefusedError as error:
            self.actor.refused.append(
                f"ConfigMap {manifest['metadata']['name']} cannot be written: {quoted(str(error))}. The settings "
                "of Pulsar's balancer are recorded only in status.balancer and status.handover. Delete the "
                "ConfigMap, and the operator creates it again"
            )

    async def delete(self, names: Collection[str]) -> None:
        """Deletes the record once the settings (``names``) were restored, or are gone. Raises PortError."""
        found = await self._find()
        if found is not None and self._ours(found, names):
            meta = found["metadata"]
            await self.actor.deps.kube.delete(CONFIG_MAPS, meta["namespace"], meta["name"], uid=meta["uid"])

    async def _find(self) -> Json | None:
        if self.listed is not None:
            return self.listed
        # The list shows what has our labels: one that was restored by hand may have none.
        return await self.actor.deps.kube.get(CONFIG_MAPS, self.owner.namespace, balancer_record_name(self.owner.name))

    def _ours(self, found: Json, names: Collection[str]) -> bool:
        """Whether the ConfigMap is the operator's, by its labels or its content."""
        return is_labelled(self.owner, found) or set(found.get("data") or ()) - _OWN == set(names) - _OWN


def balancer_record_name(cluster: str) -> str:
    """Name of the ConfigMap; ``cluster`` is the PulsarCluster's metadata.name."""
    return f"{cluster}-load-balancer"
