"""The dynamic settings of Pulsar's own balancer: changed while the operator moves bundles, restored afterwards.

Called by the cluster controller, the only writer. The previous values are in the record (balancer_record.py) and in the
cluster's status before the first setting is changed. A PulsarRebalance waits until the status names it. Each step can
be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import BalancerStatus, FlagStatus
from pulsar_operator.balance.execution.custom_resource import is_standing, standing_manifest, standing_name
from pulsar_operator.balance.execution.drain import DRAIN, purpose_of
from pulsar_operator.balance.execution.handover import Handover, lapsed
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.index import key_of, references
from pulsar_operator.controllers.core.status import is_true
from pulsar_operator.controllers.dataplane.balancing.balancer_record import MAX_VALUE, BalancerRecord
from pulsar_operator.ports import CUSTOM, AdminEndpoint, Deps, Json, PulsarAdminPort, UnavailableError

FLAGS: Final[Mapping[str, str]] = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}
"""Dynamic settings and their values while the operator balances (class ServiceConfiguration, both ``dynamic =
true``)."""
CONFIGURATION = ("brokers", "configuration")


@dataclass(frozen=True)
class Balancer:
    """Outcome of one step."""

    status: BalancerStatus | None
    """New status of the cluster; None if Pulsar balances."""
    again: bool = False
    """Whether the next step waits for this one to be in the status."""


def executing(cluster: Json, rebalances: Sequence[Json]) -> dict[str, Json]:
    """Returns the PulsarRebalances of a cluster that execute, by namespace/name."""
    found: dict[str, Json] = {}
    for each in rebalances:
        key = key_of(Kind.REBALANCE, each)
        is_own = key_of(Kind.CLUSTER, cluster) in references(Kind.REBALANCE, each)
        if is_own and is_true(each, ConditionType.EXECUTING.value) and "deletionTimestamp" not in each["metadata"]:
            found[f"{key.namespace}/{key.name}"] = each
    return found


def holder(cluster: Json, candidates: Mapping[str, Json], current: str | None, now: datetime) -> str | None:
    """Returns namespace/name of the PulsarRebalance that may execute: the current one, else a drain, else the oldest.

    ``candidates`` execute. One that has done no step for a long time does not block the others
    (balance/execution/handover.py).
    """
    wanting = {
        name: (purpose_of(each, cluster) != DRAIN, str(each["metadata"].get("creationTimestamp") or ""))
        for name, each in candidates.items()
        if not lapsed(each, now)
    }
    if current in wanting:
        return current
    return min(wanting, key=lambda name: (wanting[name], name), default=None)


async def hold(
    deps: Deps,
    actor: Actor,
    endpoint: AdminEndpoint,
    before: BalancerStatus | None,
    desired: str | None,
    *,
    drives: bool,
    record: BalancerRecord,
    handover: Handover | None = None,
    executing: Collection[str] = (),
) -> Balancer:
    """Does one step to take the settings over (``desired`` names the PulsarRebalance, or ``drives``: for any), or to
    restore Pulsar's.

    ``handover`` is kept in the record if Pulsar's balancer was ever restored. ``executing`` are rebalances that
    continue as soon as they can: the status names none of them before the settings are restored. Raises PortError.
    """
    kept = handover if handover is not None and handover.count else None
    if desired is None and not drives:
        if before is None and (record.listed is None or (kept is not None and not record.disabled)):
            return Balancer(None)
        if not actor.act:
            actor.pending.append("Restore the settings of Pulsar's own balancer")
            return Balancer(before)
        if before is not None and before.disabled_for in executing:
            return Balancer(before.model_copy(update={"disabled_for": None}), again=True)
        await restore_load_balancer(deps, actor, endpoint, before, record, kept)
        return Balancer(None)
    if not actor.act:
        actor.pending.append("Switch Pulsar's own balancer off")
        return Balancer(before)
    values = await _values(deps, endpoint)
    if before is None:
        saved = _saved(values, record)
        await record.write(saved, kept)
        return Balancer(BalancerStatus(disabled_for=None, saved=saved), again=True)
    await record.write(before.saved, kept)
    changed = {name: value for name, value in FLAGS.items() if values.get(name) != value}
    for name, value in changed.items():
        await deps.admin.call(endpoint, "POST", (*CONFIGURATION, name, value))
    if changed:
        settings = ", ".join(f"{name}={value}" for name, value in changed.items())
        text = f"Switched Pulsar's own balancer off while {desired or 'the operator'} balances: {settings}"
        await actor.record_event(Reason.LOAD_BALANCER_PAUSED, text)
    return Balancer(before.model_copy(update={"disabled_for": desired}))


async def restore_load_balancer(
    deps: Deps,
    actor: Actor,
    endpoint: AdminEndpoint,
    before: BalancerStatus | None,
    record: BalancerRecord,
    kept: Handover | None = None,
) -> None:
    """Restores the settings from the status, or else the record, and deletes the record, all but ``kept``. Raises
    PortError."""
    if before is None:
        # The record is of an earlier time: what is not as we set it is somebody else's by now.
        values = await _values(deps, endpoint) if record.disabled else {}
        before = BalancerStatus(saved=[f for f in record.saved(FLAGS) if values.get(f.name) == FLAGS[f.name]])
    elif record.disabled:
        # A status that somebody edited may have lost some.
        named = {flag.name for flag in before.saved}
        lost = [flag for flag in record.saved(FLAGS) if flag.name not in named]
        before = before.model_copy(update={"saved": [*before.saved, *lost]})
    await restore(deps.admin, endpoint, before)
    if kept is not None:
        await record.write(before.saved or record.saved(FLAGS), kept, disabled=False)
    else:
        await record.delete(FLAGS)
    if before.saved:
        await actor.record_event(Reason.LOAD_BALANCER_RESUMED, f"Restored load balancer settings: {_text(before)}")


async def _values(deps: Deps, endpoint: AdminEndpoint) -> Mapping[str, str]:
    """Returns the dynamic settings. Raises PortError, also if one of them has a value that cannot be stored and
    restored."""
    values = await deps.admin.call(endpoint, "GET", (*CONFIGURATION, "values")) or {}
    if not isinstance(values, Mapping):
        raise UnavailableError("the answer about dynamic settings is not a map", status=200)
    for name in FLAGS:
        value = values.get(name)
        if value is not None and not (isinstance(value, str) and len(value) <= MAX_VALUE):
            text = f"dynamic setting {name} is not a text of at most {MAX_VALUE} characters. Delete the setting"
            raise UnavailableError(text, status=200)
    return values


def _saved(values: Mapping[str, str], record: BalancerRecord) -> list[FlagStatus]:
    """Returns the values to restore later: the current ones, or the recorded ones if the current ones are the
    operator's.

    Without a record, values that equal the operator's are the user's: removing them would start a balancer that was
    off. So are values from a time in which Pulsar's balancer was restored.
    """
    known = {flag.name: flag.before for flag in record.saved(FLAGS)} if record.disabled else {}
    return [
        FlagStatus(name=name, before=known[name] if name in known and values.get(name) == ours else values.get(name))
        for name, ours in FLAGS.items()
    ]


async def restore(admin: PulsarAdminPort, endpoint: AdminEndpoint, before: BalancerStatus) -> None:
    """Restores the settings. Raises PortError."""
    for flag in before.saved:
        if flag.before is not None:
            await admin.call(endpoint, "POST", (*CONFIGURATION, flag.name, flag.before))
        else:
            # Deleting what is not there succeeds as well (seen on 4.0.8).
            await admin.call(endpoint, "DELETE", (*CONFIGURATION, flag.name))


async def standing_rebalance(
    deps: Deps, actor: Actor, cluster: Json, spec: PulsarClusterSpec, *, drives: bool, disabled: bool
) -> None:
    """Keeps the PulsarRebalance with which the operator balances continuously, and deletes it otherwise. ``disabled``:
    whether the status says that Pulsar's balancer is off. Raises PortError."""
    meta = cluster["metadata"]
    name = standing_name(cluster)
    if not drives:
        if not disabled:
            return  # never driven, or all given back
        live = await deps.kube.get(CUSTOM[Kind.REBALANCE], meta["namespace"], name)
        if live is not None and _owned(live, meta["uid"]):
            await actor.delete(CUSTOM[Kind.REBALANCE], live, "spec.loadBalancing.driver is Pulsar")
        return
    live = await deps.kube.get(CUSTOM[Kind.REBALANCE], meta["namespace"], name)
    if live is not None and not _owned(live, meta["uid"]):
        actor.refused.append(
            f"PulsarRebalance {name} exists and is not owned by this cluster, so the operator cannot balance "
            "continuously. Delete the PulsarRebalance, or set spec.loadBalancing.driver to Pulsar"
        )
        return
    await actor.apply(standing_manifest(cluster, name, spec), live)


async def without_standing(actor: Actor, cluster: Json, rebalances: Sequence[Json]) -> list[Json]:
    """Returns the rebalances of a cluster that the operator does not balance continuously. A standing one left from
    before is deleted, since it would keep moving bundles. Raises PortError."""
    for each in rebalances:
        if is_standing(each, cluster) and "deletionTimestamp" not in each["metadata"]:
            await actor.delete(CUSTOM[Kind.REBALANCE], each, "spec.loadBalancing.driver is Pulsar")
    return [each for each in rebalances if not is_standing(each, cluster)]


def _owned(obj: Json, uid: str) -> bool:
    return any(each.get("uid") == uid for each in obj["metadata"].get("ownerReferences") or ())


def _text(status: BalancerStatus) -> str:
    return ", ".join(f"{f.name} {f.before or 'as configured'}" for f in status.saved)
