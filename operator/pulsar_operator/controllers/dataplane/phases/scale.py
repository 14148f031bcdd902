"""Pods are added and removed: the one place where the number of pods of a component changes."""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_operator.api.constants import Component
from pulsar_operator.balance.execution.drain import scale_in_name
from pulsar_operator.controllers.dataplane.children import apply_children
from pulsar_operator.controllers.dataplane.drain import BrokerDrains
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.templates import dressed
from pulsar_operator.controllers.dataplane.phases.tiers import replicas_of
from pulsar_operator.domain.dataplane.cluster_view import DrainFact, ScaleFact
from pulsar_operator.domain.dataplane.pods import pods_of
from pulsar_operator.ports import STATEFUL_SETS, Json

SCALED = (Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER, Component.PROXY)


async def scale(step: Step) -> ScaleFact:
    """As many pods as the specification says; brokers that are too many hand over their bundles first."""
    found = ScaleFact()
    for component in SCALED:
        there, manifests = step.live.stateful_set(component), step.rendered.of(component)
        wanted = next((replicas_of(m) for m in manifests if m["kind"] == STATEFUL_SETS.kind), None)
        if there is None or wanted is None or replicas_of(there) == wanted:
            continue
        if component in (Component.BROKER, Component.PROXY) and not step.facts.instance.store_known:
            continue
        if component is Component.BOOKIE:
            if replicas_of(there) > wanted:
                step.hand.refused.append(_kept(there, wanted))
                continue
            if step.view.metadata is None or not step.view.metadata.local_ready:
                continue  # its cookie would name a store that is not the cluster's
        if component is Component.BROKER and (drains := step.drains) is not None:
            found = await _brokers(step, drains, there, wanted)
            if found.drain is not None:
                continue
        await apply_children(step.hand, step.live, _workload(await dressed(step, component), there, manifests))
    return found


def _kept(there: Json, wanted: int) -> str:
    have = replicas_of(there)
    return (
        f"StatefulSet {there['metadata']['name']} has {have} replicas and spec.bookkeeper.replicas is {wanted}: a "
        f"bookie is not taken away while ledgers may be on it; set spec.bookkeeper.replicas to {have}"
    )


def _workload(dressed_manifests: Sequence[Json], there: Json, manifests: Sequence[Json]) -> list[Json]:
    """The workload alone; where its template must stay and is not on record, with the template that it has."""
    found = [each for each in dressed_manifests if each["kind"] == STATEFUL_SETS.kind]
    if found:
        return found
    rendered = next(each for each in manifests if each["kind"] == STATEFUL_SETS.kind)
    return [{**rendered, "spec": {**rendered["spec"], "template": there["spec"]["template"]}}]


async def _brokers(step: Step, drains: BrokerDrains, there: Json, wanted: int) -> ScaleFact:
    """New brokers get a share; those that are too many may go once they have nothing left."""
    name, have, meta = there["metadata"]["name"], replicas_of(there), step.facts.meta
    if have >= 1 and wanted > have:
        pods = [f"{name}-{ordinal}" for ordinal in range(have, wanted)]
        await drains.fill(str(meta.generation), pods, there=False)
    if not have > wanted >= 1:
        return ScaleFact(asked=drains.asked)
    pods_there = pods_of(there, step.live.pods(Component.BROKER))
    # Unready ones too: a broker that comes and goes has bundles still; one that is gone is not registered.
    going = [pod.name for pod in pods_there if pod.ordinal >= wanted]
    leave = await drains.leave(going, scale_in_name(meta.name, wanted))
    if leave.go or leave.status is None:
        return ScaleFact(asked=drains.asked)
    return ScaleFact(DrainFact(leave.status, leave.waiting_for), drains.asked)
