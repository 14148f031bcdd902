"""Status and conditions of a PulsarCluster, computed once from what a pass knows. Pure."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import (
    BookieStatus,
    ComponentStatus,
    Endpoints,
    EnsembleStatus,
    ListenerStatus,
    PulsarClusterStatus,
    VersionStatus,
)
from pulsar_operator.api.v1alpha1.confirmations import UsedClusterConfirmation
from pulsar_operator.api.v1alpha1.load_balancing import BalancingDriver
from pulsar_operator.domain.bookkeeper.storage_facts import bookie_rows, own_bookies_of
from pulsar_operator.domain.conditions import FALSE, UNKNOWN, ConditionSet, parse_time
from pulsar_operator.domain.dataplane.cluster.applied_config import set_config_condition
from pulsar_operator.domain.dataplane.cluster.bookkeeper_status import (
    set_auto_recovery,
    set_racks,
    set_read_only,
    set_replicated,
    set_volumes,
)
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView
from pulsar_operator.domain.dataplane.cluster.edge_status import certificate_rows, set_tls
from pulsar_operator.domain.dataplane.cluster.findings import findings_of, fold
from pulsar_operator.domain.dataplane.objects.absent_pods import missing_rows
from pulsar_operator.domain.dataplane.observed.edge_certificate import certified
from pulsar_operator.domain.dataplane.observed.remote_clusters import known_urls, remote_changes, remote_rows
from pulsar_operator.domain.dataplane.observed.running_versions import pod_versions
from pulsar_operator.domain.dataplane.scaling import scaling_status
from pulsar_operator.domain.dataplane.scaling.replicas import Rows
from pulsar_operator.domain.render import Owner, selector_text

CLUSTER_CONDITIONS = (
    ConditionType.READY,
    ConditionType.ACCEPTED,
    ConditionType.METADATA_READY,
    ConditionType.BOOKKEEPER_READY,
    ConditionType.BROKERS_READY,
    ConditionType.PROXIES_READY,
    ConditionType.REPLICATED,
    ConditionType.UP_TO_DATE,
    ConditionType.PROGRESSING,
)


_REFUSALS = frozenset({Reason.METADATA_LOST, Reason.METADATA_CONFLICT, Reason.METADATA_UNREACHABLE})
"""Reasons that concern either metadata store. A cluster whose registration is lost keeps serving, but is not Ready."""


MOST_USED = 8
"""Largest number of used confirmations that the status shows; the specification may declare as many."""
STATUS_FIELDS = {Component.BOOKIE: "bookkeeper"}
"""Components whose status field has the name that the specification uses, not the name of the component's pods."""


def set_conditions(
    conditions: ConditionSet,
    spec: PulsarClusterSpec,
    view: ClusterView,
    *,
    deleting: bool,
    paused: bool,
    acts: bool = True,
    unread: Rows | None = None,
) -> None:
    """Sets every condition of the cluster. ``acts`` is False during a pause or a dry run. ``unread`` are the records of
    components whose last decision on replicas could not be read, if the pass decided nothing."""
    _accepted(conditions, view)
    if spec.mode is ClusterMode.STANDALONE:
        _standalone(conditions, view)
    else:
        _metadata(conditions, view)
        _component(conditions, ConditionType.BOOKKEEPER_READY, Component.BOOKIE, "bookies", view)
        set_read_only(conditions, view)
        set_volumes(conditions, view)
        set_auto_recovery(conditions, view)
        _component(conditions, ConditionType.BROKERS_READY, Component.BROKER, "brokers", view)
        if spec.proxy is None or spec.proxy.replicas == 0:
            conditions.set(ConditionType.PROXIES_READY, True, Reason.NOT_APPLICABLE, "The cluster has no proxies")
        else:
            _component(conditions, ConditionType.PROXIES_READY, Component.PROXY, "proxies", view)
        set_replicated(conditions, view, acts=acts)
        set_racks(conditions, spec, view)
        decided = view.scaling.rows if view.scaling is not None else None
        scaling_status.set_condition(conditions, spec, decided, unread or {}, view.error)
        _balancing(conditions, spec, view)
        _listeners(conditions, spec, view)
        set_tls(conditions, spec, view)
    _up_to_date(conditions, view)
    set_config_condition(conditions, view.config, spec.version if view.config_unchecked else None)
    if deleting:
        conditions.set(ConditionType.READY, False, Reason.DELETING, "The cluster is being deleted")
        text = view.blocker or "The cluster is being deleted"
        conditions.set(ConditionType.PROGRESSING, True, Reason.DELETING, text)
        if view.kept_for is not None:
            conditions.set(ConditionType.DELETION_BLOCKED, True, view.kept_by, view.kept_for)
        elif view.error is not None:
            conditions.set(ConditionType.DELETION_BLOCKED, True, view.error_reason, view.error)
        return
    conditions.summarize(
        ConditionType.ACCEPTED,
        ConditionType.METADATA_READY,
        ConditionType.BOOKKEEPER_READY,
        ConditionType.BROKERS_READY,
        ConditionType.PROXIES_READY,
        *([ConditionType.LISTENERS_READY] if spec.listeners else []),
        *([ConditionType.TLS_READY] if certified(spec) else []),
        ready_message=("The cluster is paused. All components were ready at the last check")
        if paused
        else "All components are ready",
    )
    found = fold(findings_of(view)).progressing
    if view.error is not None:
        conditions.set(ConditionType.PROGRESSING, UNKNOWN, view.error_reason, view.error)
    elif view.refused and not view.rendered:
        text = "Nothing is in progress, because the specification is refused"
        conditions.set(ConditionType.PROGRESSING, False, view.refusal, text)
    elif found is not None:
        conditions.set(ConditionType.PROGRESSING, *found)
    elif conditions.is_true(ConditionType.READY):
        conditions.set(ConditionType.PROGRESSING, False, Reason.READY, "Nothing is in progress")
    else:
        text = view.blocker or "Components are not ready"
        conditions.set(ConditionType.PROGRESSING, True, Reason.PENDING, text)


def _accepted(conditions: ConditionSet, view: ClusterView) -> None:
    if view.name_conflict is not None:
        conditions.set(ConditionType.ACCEPTED, False, Reason.NAME_CONFLICT, view.name_conflict)
    elif view.refused:
        conditions.set(ConditionType.ACCEPTED, False, view.refusal, ". ".join(view.refused[:5]))
    elif view.error is not None:
        conditions.set(ConditionType.ACCEPTED, UNKNOWN, view.error_reason, view.error)
    else:
        conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is valid")


def _metadata(conditions: ConditionSet, view: ClusterView) -> None:
    kind, metadata = ConditionType.METADATA_READY, view.metadata
    if metadata is None and view.error is None and "metadata" not in view.ran and conditions.carry(kind):
        return
    if metadata is None:
        zookeeper = view.components.get(Component.ZOOKEEPER)
        reason, text = (
            zookeeper.summary("ZooKeeper servers")
            if zookeeper
            else (Reason.PENDING, "The ZooKeeper servers are not created yet")
        )
        if view.error is not None:
            conditions.set(kind, UNKNOWN, view.error_reason, view.error)
        elif reason in (Reason.PENDING, Reason.NOT_READY, Reason.READY):
            conditions.set(kind, FALSE, Reason.WAITING_FOR_ZOOKEEPER, text)
        else:
            conditions.set(kind, FALSE, reason, text)
    elif metadata.local_ready and metadata.reason not in _REFUSALS:
        conditions.set(kind, True, Reason.METADATA_INITIALIZED, metadata.message)
    else:
        status = UNKNOWN if metadata.reason is Reason.METADATA_UNREACHABLE else FALSE
        conditions.set(kind, status, metadata.reason, metadata.message)


def _component(
    conditions: ConditionSet, kind: ConditionType, component: Component, noun: str, view: ClusterView
) -> None:
    facts, gate = view.components.get(component), view.gates.get(component)
    if facts is None:
        if gate is not None:
            conditions.set(kind, FALSE, gate.reason, gate.message)
        elif view.error is not None:
            conditions.set(kind, UNKNOWN, Reason.UNKNOWN, view.error)
        else:
            conditions.set(kind, FALSE, Reason.PENDING, f"The {noun} are not created yet")
        return
    reason, text = facts.summary(noun)
    if facts.desired == 0 and component is Component.BROKER:
        conditions.set(
            kind,
            FALSE,
            Reason.SCALED_TO_ZERO,
            f"The number of {noun} is 0, so clients cannot connect. Set spec.broker.replicas to 1 or more",
        )
        return
    conditions.set(kind, UNKNOWN if facts.all_ready is None else facts.all_ready, reason, text)


def _standalone(conditions: ConditionSet, view: ClusterView) -> None:
    """Sets the conditions of a standalone cluster: the readiness of its one pod is the readiness of each component."""
    for kind in (ConditionType.METADATA_READY, ConditionType.BOOKKEEPER_READY, ConditionType.BROKERS_READY):
        if view.instance is None or view.instance.found:
            _component(conditions, kind, Component.STANDALONE, "standalone pods", view)
        else:
            conditions.set(kind, FALSE, view.instance.store.reason, view.instance.store.message)
    conditions.set(ConditionType.PROXIES_READY, True, Reason.NOT_APPLICABLE, "Mode Standalone has no proxies")
    conditions.set(
        ConditionType.REPLICATED,
        True,
        Reason.NOT_APPLICABLE,
        "A cluster in mode Standalone has only one copy of all data",
    )


def _listeners(conditions: ConditionSet, spec: PulsarClusterSpec, view: ClusterView) -> None:
    """Sets condition ListenersReady if the specification has external listeners. It is False while an address is not
    known, and while a broker advertises another one."""
    kind, fact = ConditionType.LISTENERS_READY, view.listeners
    if not spec.listeners:
        return
    if fact is None:
        if not conditions.carry(kind):
            conditions.set(
                kind, UNKNOWN, Reason.UNKNOWN, view.error or "The operator has not checked the listeners yet"
            )
    elif fact.blocker is not None:
        text = f"{fact.blocker.message}. The operator creates, adds or changes no broker until the address is known"
        conditions.set(kind, FALSE, fact.blocker.reason, text)
    elif fact.stale:
        text = f"The operator replaces {len(fact.stale)} of the brokers, because {next(iter(fact.stale.values()))}"
        conditions.set(kind, FALSE, Reason.ROLLOUT_IN_PROGRESS, text)
    elif fact.lagging:
        text = f"The operator replaces pods that do not advertise all listeners yet: {', '.join(fact.lagging[:3])}"
        conditions.set(kind, FALSE, Reason.ROLLOUT_IN_PROGRESS, text)
    elif fact.known.lost:
        text = f"{fact.known.lost[0]}. The broker keeps the address that it had"
        conditions.set(kind, FALSE, Reason.ADDRESS_PENDING, text)
    elif names := [each.name for each in spec.listeners if each.name not in fact.known.bootstrap]:
        text = f"The bootstrap Service of listener {', '.join(names)} has no address yet. See the events of the Service"
        conditions.set(kind, FALSE, Reason.ADDRESS_PENDING, text)
    else:
        urls = ", ".join(f"{name} at {url}" for name, url in sorted(fact.known.bootstrap.items()))
        conditions.set(kind, True, Reason.READY, f"Clients reach the brokers through listener {urls}")


def _up_to_date(conditions: ConditionSet, view: ClusterView) -> None:
    kind = ConditionType.UP_TO_DATE
    if view.error is not None or not view.components:
        conditions.set(kind, UNKNOWN, Reason.UNKNOWN, view.error or "The pods have not been observed yet")
        return
    behind = [
        f"{component.value} ({facts.updated or 0} of {facts.desired} pods)"
        for component, facts in view.components.items()
        if not facts.up_to_date
    ]
    template_order = view.template_order.of if view.template_order is not None else {}
    waiting = [component.value for component, turn in template_order.items() if turn.pending]
    if behind or waiting:
        behind += [
            (f"{name} (the rollout of this component has not started)")
            for name in waiting
            if not any(b.startswith(f"{name} ") for b in behind)
        ]
        conditions.set(
            kind, False, Reason.ROLLOUT_IN_PROGRESS, f"Some pods do not have the newest revision: {', '.join(behind)}"
        )
    else:
        conditions.set(kind, True, Reason.ROLLOUT_COMPLETE, "Every pod has the newest revision")


def _used(
    stored: list[UsedClusterConfirmation], spec: PulsarClusterSpec | None, view: ClusterView, now: datetime
) -> list[UsedClusterConfirmation]:
    """Returns the used confirmations that are still declared, or that would count again if they were declared again."""
    if spec is None or view.rollout is None or view.decommission is None:
        return stored
    declared = {(each.action, each.expires_time) for each in spec.confirmations}
    new = [each for each in (view.rollout.confirmed, view.decommission.confirmed) if each is not None]
    keys = {(each.action, each.expires_time) for each in new}
    kept = [
        each
        for each in stored
        if (key := (each.action, each.expires_time)) not in keys
        and (key in declared or (parse_time(each.expires_time) or now) > now)
    ]
    return [*new, *kept][:MOST_USED]


def _versions(view: ClusterView, component: Component) -> list[VersionStatus]:
    found = pod_versions(view.live, component) if view.live is not None else {}
    return [VersionStatus(version=version, pods=sorted(pods)) for version, pods in sorted(found.items())]


def _bookies(previous: list[BookieStatus], view: ClusterView, now: datetime) -> list[BookieStatus]:
    """Returns the rows of bookies; the stored rows where the metadata store was not read."""
    rendered, storage = view.rendered, view.storage
    facts = storage.facts if storage is not None else None
    if rendered is None or storage is None or facts is None or not rendered.bookie_ids:
        return previous
    leave = view.decommission
    pods = set(range(len(rendered.bookie_ids)))
    if leave is None:
        steps = {each.id: each.step for each in previous if each.step}
    else:
        steps = {leave.bookie: leave.step} if leave.bookie is not None and leave.step is not None else {}
    own, usage = own_bookies_of(rendered.bookie_ids[0], facts), storage.usage
    written = view.racks.written if view.racks is not None else None
    if written is None and (view.racks is None or view.racks.condition is not None):
        written = {each.id: each.rack for each in previous if each.rack}
    listed, racks = sorted(pods), written or {}
    if view.read_only_bookies is None:
        reasons = {each.id: each.reason for each in previous if each.reason}
    else:
        reasons = {each.bookie: each.reason.value for each in view.read_only_bookies.bookies}
    return bookie_rows(
        facts, own, listed, now=now, previous=previous, usage=usage, steps=steps, racks=racks, reasons=reasons
    )


def cluster_status(
    spec: PulsarClusterSpec | None,
    view: ClusterView,
    conditions: ConditionSet,
    before: PulsarClusterStatus,
    owner: Owner,
) -> PulsarClusterStatus:
    """Returns the status to write. Facts that this pass could not read are carried over from the stored status,
    ``before``."""
    now, rendered, metadata, storage = conditions.now, view.rendered, view.metadata, view.storage
    brokers = view.live.stateful_set(Component.BROKER) if view.live is not None else None
    applied_changes = remote_changes(brokers["spec"]["template"]) if brokers is not None else {}
    remote = metadata.remote if metadata is not None else None
    known: dict[str, Any] = {
        "observed_generation": conditions.generation,
        "conditions": conditions.result(),
        "blocker": view.blocker,
        "missing_pods": missing_rows(before.missing_pods, view.missing, now),
        "used_confirmations": _used(before.used_confirmations, spec, view, now),
        "bookies": _bookies(before.bookies, view, now),
        "remote_clusters": remote_rows(before, remote, now, applied_changes, known_urls(brokers)),
        "autoscaling": before.autoscaling if view.scaling is None else scaling_status.status_of(view.scaling.rows),
    }
    for component in Component:
        facts, name = view.components.get(component), STATUS_FIELDS.get(component, component.value)
        if component is Component.CONFIGURATION_STORE:
            continue
        if facts is not None and facts.exists:
            known[name] = ComponentStatus(
                desired=facts.desired or 0,
                ready=facts.ready or 0,
                summary=f"{facts.ready or 0}/{facts.desired or 0}",
                updated=facts.updated or 0,
                revision=facts.revision,
                selector=selector_text(owner, component),
                versions=_versions(view, component),
            )
        elif rendered is not None and component not in rendered.components:
            known[name] = None
    if rendered is not None:
        known["endpoints"] = Endpoints(**asdict(rendered.endpoints))
        if view.listeners is not None:
            urls = view.listeners.known.bootstrap
            names = [each.name for each in (spec.listeners if spec is not None else None) or ()]
            known["listeners"] = [ListenerStatus(name=name, service_url=urls.get(name)) for name in names] or None
        if view.certificate is not None:
            known["certificates"] = certificate_rows(view.certificate, before.certificates)
        if rendered.quorum:
            known["ensemble"] = EnsembleStatus(**asdict(rendered.quorum))
        if (store := rendered.metadata_store) is not None:
            known |= {"metadata_store_servers": store.servers, "metadata_store_chroot": store.chroot or None}
        if spec is not None and (conditions.is_true(ConditionType.UP_TO_DATE) or not before.version):
            known["version"] = spec.version
    if metadata is not None and metadata.instance_id:
        known["instance_id"] = metadata.instance_id
    if view.dependents is not None:
        known["dependents"] = view.dependents
    if view.rollout is not None:
        known["rollout"] = view.rollout.status
    if view.template_order is not None:
        known["canaries"] = list(view.template_order.canaries)
    if storage is not None and storage.facts is not None:
        known["recovery_delay"] = storage.delay
    if view.placement is not None:
        known["placement"] = view.placement.status
    if view.drain is not None or (view.rollout is not None and view.scale is not None):
        # The stored one, with its time, stays while a phase that decides on it did not run.
        ended = next((each.drained for each in (view.scale, view.rollout) if each is not None and each.drained), None)
        known["drain"] = view.drain.status if view.drain is not None else ended
    if view.balance is not None and view.balance.observed:
        known["balancer"] = view.balance.status
    if spec is not None and spec.load_balancing.driver is not BalancingDriver.OPERATOR:
        known["handover"] = None
    elif view.balance is not None and view.balance.condition is not None:
        known["handover"] = view.balance.handover
    return before.model_copy(update=known)


def _balancing(conditions: ConditionSet, spec: PulsarClusterSpec, view: ClusterView) -> None:
    """Sets the conditions of balancing; only where the operator balances."""
    kind = ConditionType.BALANCING_ACTIVE
    if spec.load_balancing.driver is not BalancingDriver.OPERATOR:
        return
    if view.balance is not None and view.balance.condition is not None:
        conditions.set(kind, *view.balance.condition)
    elif not conditions.carry(kind):
        conditions.set(kind, UNKNOWN, Reason.UNKNOWN, view.error or "The brokers are not ready yet")
