"""Status and conditions of a PulsarCluster, computed once from what a pass learned. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import (
    BalancerStatus,
    ComponentStatus,
    DrainStatus,
    Endpoints,
    PulsarClusterStatus,
    RolloutStatus,
)
from pulsar_operator.domain.conditions import FALSE, UNKNOWN, ConditionSet
from pulsar_operator.domain.dataplane.bring_up import Gate, MetadataFact, StoreFact
from pulsar_operator.domain.dataplane.pods import ComponentFacts
from pulsar_operator.domain.render import Owner, RenderedCluster, selector_text

CLUSTER_CONDITIONS = (
    ConditionType.READY,
    ConditionType.ACCEPTED,
    ConditionType.METADATA_READY,
    ConditionType.BOOKKEEPER_READY,
    ConditionType.BROKERS_READY,
    ConditionType.PROXIES_READY,
    ConditionType.UP_TO_DATE,
    ConditionType.PROGRESSING,
)


_REFUSALS = frozenset({Reason.METADATA_LOST, Reason.METADATA_CONFLICT, Reason.METADATA_UNREACHABLE})
"""Reasons that concern either store: a cluster whose registration is lost keeps serving, but is not well."""


STATUS_FIELDS = {Component.BOOKIE: "bookkeeper"}
"""Fields of the status that are called as in the specification, not as the component's pods."""


@dataclass
class ClusterView:
    """Facts of one pass; filled step by step, so that a pass that stops early still tells what it saw."""

    instance_found: bool = False
    own_configuration_store: bool = False
    store: StoreFact = field(default_factory=lambda: StoreFact(False, message="the instance was not looked at yet"))
    rendered: RenderedCluster | None = None
    components: dict[Component, ComponentFacts] = field(default_factory=dict)
    metadata: MetadataFact | None = None
    gates: dict[Component, Gate | None] = field(default_factory=dict)
    waiting_for: str | None = None
    kept_for: str | None = None
    """Why a cluster that is being deleted is kept running."""
    dependents: int | None = None
    """Objects that need the cluster; None = this pass did not look."""
    rollout: RolloutStatus | None = None
    drain: DrainStatus | None = None
    refused: list[str] = field(default_factory=list)
    balancer: BalancerStatus | Literal["unseen"] | None = "unseen"
    """Who balances, while it is not Pulsar itself; unseen = this pass did not look."""
    name_conflict: str | None = None
    error: str | None = None

    @property
    def brokers_roll(self) -> bool:
        """Whether brokers are being replaced."""
        return self.rollout is not None and self.rollout.component == Component.BROKER.value

    @property
    def store_known(self) -> bool:
        """Whether the configuration store's address is known, ready or not."""
        return self.own_configuration_store or self.store.servers is not None


def set_conditions(
    conditions: ConditionSet, spec: PulsarClusterSpec, view: ClusterView, *, deleting: bool, paused: bool
) -> None:
    """Set every condition of the cluster from the facts."""
    _accepted(conditions, view)
    if spec.mode is ClusterMode.STANDALONE:
        _standalone(conditions, view)
    else:
        _metadata(conditions, view)
        _component(conditions, ConditionType.BOOKKEEPER_READY, Component.BOOKIE, "bookies", view)
        _auto_recovery(conditions, view)
        _component(conditions, ConditionType.BROKERS_READY, Component.BROKER, "brokers", view)
        if spec.proxy is None or spec.proxy.replicas == 0:
            conditions.set(ConditionType.PROXIES_READY, True, Reason.NOT_APPLICABLE, "The cluster has no proxies")
        else:
            _component(conditions, ConditionType.PROXIES_READY, Component.PROXY, "proxies", view)
    _up_to_date(conditions, view)
    if deleting:
        conditions.set(ConditionType.READY, False, Reason.DELETING, "The cluster is being deleted")
        text = f"Waiting for {view.waiting_for}" if view.waiting_for else "The cluster is being deleted"
        conditions.set(ConditionType.PROGRESSING, True, Reason.DELETING, text)
        if view.kept_for is not None:
            conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.DEPENDENTS_EXIST, view.kept_for)
        return
    conditions.summarize(
        ConditionType.ACCEPTED,
        ConditionType.METADATA_READY,
        ConditionType.BOOKKEEPER_READY,
        ConditionType.BROKERS_READY,
        ConditionType.PROXIES_READY,
        ready_message="Paused: all components were ready when last looked at" if paused else "All components are ready",
    )
    if view.rollout is not None:
        text = f"Rolling {view.rollout.component}: {view.rollout.pods_done} of {view.rollout.pods_total} pods done"
        conditions.set(ConditionType.PROGRESSING, True, Reason.ROLLING, text)
    elif view.drain is not None:
        conditions.set(ConditionType.PROGRESSING, True, Reason.DRAINING, f"Waiting for {view.waiting_for}")
    elif conditions.is_true(ConditionType.READY):
        conditions.set(ConditionType.PROGRESSING, False, Reason.READY, "Nothing is in progress")
    else:
        text = view.waiting_for or "components to be ready"
        conditions.set(ConditionType.PROGRESSING, True, Reason.PENDING, f"Waiting for {text}")


def _accepted(conditions: ConditionSet, view: ClusterView) -> None:
    if view.name_conflict is not None:
        conditions.set(ConditionType.ACCEPTED, False, Reason.NAME_CONFLICT, view.name_conflict)
    elif view.refused:
        conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, "; ".join(view.refused[:5]))
    elif view.error is not None:
        conditions.set(ConditionType.ACCEPTED, UNKNOWN, Reason.INTERNAL_ERROR, view.error)
    else:
        conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is valid")


def _metadata(conditions: ConditionSet, view: ClusterView) -> None:
    kind, metadata = ConditionType.METADATA_READY, view.metadata
    if metadata is None:
        zookeeper = view.components.get(Component.ZOOKEEPER)
        reason, text = zookeeper.summary("ZooKeeper") if zookeeper else (Reason.PENDING, "ZooKeeper: not created yet")
        if view.error is not None:
            conditions.set(kind, UNKNOWN, Reason.INTERNAL_ERROR, view.error)
        elif reason in (Reason.PENDING, Reason.NOT_READY, Reason.READY):
            conditions.set(kind, FALSE, Reason.WAITING_FOR_ZOOKEEPER, f"Waiting for {text}")
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
            conditions.set(kind, FALSE, gate.reason, f"Waiting for {gate.message}")
        elif view.error is not None:
            conditions.set(kind, UNKNOWN, Reason.UNKNOWN, view.error)
        else:
            conditions.set(kind, FALSE, Reason.PENDING, f"{noun}: not created yet")
        return
    reason, text = facts.summary(noun)
    conditions.set(kind, UNKNOWN if facts.all_ready is None else facts.all_ready, reason, text)


def _auto_recovery(conditions: ConditionSet, view: ClusterView) -> None:
    """Without auto-recovery lost copies are not made again, so BookKeeper is not well although it serves."""
    facts = view.components.get(Component.AUTORECOVERY)
    if facts is None or facts.all_ready is not False or not conditions.is_true(ConditionType.BOOKKEEPER_READY):
        return
    reason, text = facts.summary("auto-recovery")
    conditions.set(ConditionType.BOOKKEEPER_READY, FALSE, reason, f"Bookies are ready, but {text}")


def _standalone(conditions: ConditionSet, view: ClusterView) -> None:
    """One pod is everything: its readiness is the readiness of each part."""
    for kind in (ConditionType.METADATA_READY, ConditionType.BOOKKEEPER_READY, ConditionType.BROKERS_READY):
        if view.instance_found:
            _component(conditions, kind, Component.STANDALONE, "standalone pods", view)
        else:
            conditions.set(kind, FALSE, view.store.reason, view.store.message)
    conditions.set(ConditionType.PROXIES_READY, True, Reason.NOT_APPLICABLE, "Mode Standalone has no proxies")


def _up_to_date(conditions: ConditionSet, view: ClusterView) -> None:
    kind = ConditionType.UP_TO_DATE
    if view.error is not None or not view.components:
        conditions.set(kind, UNKNOWN, Reason.UNKNOWN, view.error or "The pods were not observed yet")
        return
    behind = [
        f"{component.value} ({facts.updated or 0} of {facts.desired} pods)"
        for component, facts in view.components.items()
        if not facts.up_to_date
    ]
    if behind:
        conditions.set(kind, False, Reason.ROLLING, f"Not of the newest revision: {', '.join(behind)}")
    else:
        conditions.set(kind, True, Reason.ROLLED, "Every pod is of the newest revision")


def cluster_status(
    spec: PulsarClusterSpec | None, view: ClusterView, conditions: ConditionSet, obj: Mapping[str, Any], owner: Owner
) -> PulsarClusterStatus:
    """The status to write. Facts this pass could not see are carried over from the stored status."""
    old = obj.get("status") or {}
    rendered = view.rendered
    store = rendered.metadata_store if rendered else None
    parts: dict[str, Any] = {}
    for component in Component:
        facts = view.components.get(component)
        name = STATUS_FIELDS.get(component, component.value)
        if facts is not None and facts.exists:
            parts[name] = ComponentStatus(
                desired=facts.desired or 0,
                ready=facts.ready or 0,
                summary=f"{facts.ready or 0}/{facts.desired or 0}",
                updated=facts.updated or 0,
                revision=facts.revision,
                selector=selector_text(owner, component),
            )
        elif name in old and (rendered is None or component in rendered.components):
            parts[name] = old[name]
    instance_id = view.metadata.instance_id if view.metadata and view.metadata.instance_id else old.get("instanceId")
    return PulsarClusterStatus.model_validate(
        {
            "observedGeneration": conditions.generation,
            "conditions": conditions.result(),
            **{k: v for k, v in parts.items() if k != Component.CONFIGURATION_STORE.value},
            "endpoints": Endpoints(**asdict(rendered.endpoints)) if rendered else old.get("endpoints"),
            "waitingFor": view.waiting_for,
            "dependents": old.get("dependents") if view.dependents is None else view.dependents,
            "rollout": view.rollout,
            "drain": view.drain,
            "balancer": old.get("balancer") if view.balancer == "unseen" else view.balancer,
            "instanceId": instance_id,
            "version": spec.version if spec else old.get("version"),
            "metadataStoreServers": store.servers if store else old.get("metadataStoreServers"),
            "metadataStoreChroot": (store.chroot or None) if store else old.get("metadataStoreChroot"),
        }
    )
