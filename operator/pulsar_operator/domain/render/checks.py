"""Checks of a spec that neither the CRD nor CEL can express. Each problem is one sentence with field, value and
remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm, Preset, Resources
from pulsar_operator.api.v1alpha1.cluster import (
    BookKeeper,
    Broker,
    ClusterMode,
    PulsarClusterSpec,
    Standalone,
)
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.api.v1alpha1.listeners import Listener
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.api.v1alpha1.quantities import MEBI, quantity
from pulsar_operator.domain.render.common import ADDRESSES
from pulsar_operator.domain.render.config import check_config, check_jvm
from pulsar_operator.domain.render.external_listeners import same_addresses
from pulsar_operator.domain.render.inputs import declared_edge
from pulsar_operator.domain.render.listeners import PROXIES, SERVED
from pulsar_operator.domain.render.pod_checks import pod_problems, written_problems
from pulsar_operator.domain.render.pod_racks import rack_problems
from pulsar_operator.domain.render.presets import direct_mebibytes, heap_mebibytes
from pulsar_operator.domain.render.properties import property_problems
from pulsar_operator.domain.render.proxy import drain_problems
from pulsar_operator.domain.render.quorum import Quorum, QuorumError, resolve_quorum
from pulsar_operator.domain.render.volumes import store_volume_problems, volume_problems
from pulsar_operator.domain.render.writecache import write_cache_problems
from pulsar_operator.domain.windows import window_problems


def spec_problems(spec: PulsarClusterSpec, quorum: Quorum | None = None) -> list[str]:
    """Returns the problems of a spec that only the operator can detect. If empty, render_cluster succeeds.

    ``quorum`` is the quorum of existing ledgers, as in ClusterInputs.
    """
    if spec.mode is ClusterMode.STANDALONE:
        one = spec.standalone or Standalone()
        return [
            *_problems(Component.STANDALONE, "spec.standalone", one.config, one.jvm, one.pod),
            *memory_problems(Component.STANDALONE, "spec.standalone", spec.preset, one.jvm, one.resources),
            *window_problems(spec.maintenance_windows),
        ]
    found = []
    if not spec.metadata_store or not (spec.metadata_store.managed or spec.metadata_store.external):
        found.append("spec.metadataStore is not set. Set spec.metadataStore.managed or spec.metadataStore.external")
    elif managed := spec.metadata_store.managed:
        found += store_problems(managed, Component.ZOOKEEPER, "spec.metadataStore.managed", spec.preset)
    keeper, broker, proxy = spec.bookkeeper or BookKeeper(), spec.broker or Broker(), spec.proxy
    recovery = keeper.auto_recovery
    found += _problems(Component.BOOKIE, "spec.bookkeeper", keeper.config, keeper.jvm, keeper.pod)
    found += _problems(Component.AUTORECOVERY, "spec.bookkeeper.autoRecovery", None, recovery.jvm, recovery.pod)
    external = {each.name: each.port for each in spec.listeners or ()}
    found += _problems(Component.BROKER, "spec.broker", broker.config, broker.jvm, broker.pod, external)
    found += _listener_problems(spec.listeners or (), broker)
    if proxy:
        ports = PROXIES[declared_edge(spec)].ports
        found += _problems(Component.PROXY, "spec.proxy", proxy.config, proxy.jvm, proxy.pod, ports)
        found += drain_problems(proxy)
        found += memory_problems(Component.PROXY, "spec.proxy", spec.preset, proxy.jvm, proxy.resources)
    found += memory_problems(Component.BOOKIE, "spec.bookkeeper", spec.preset, keeper.jvm, keeper.resources)
    found += memory_problems(
        Component.AUTORECOVERY, "spec.bookkeeper.autoRecovery", spec.preset, recovery.jvm, recovery.resources
    )
    found += memory_problems(Component.BROKER, "spec.broker", spec.preset, broker.jvm, broker.resources)
    found += write_cache_problems(keeper, spec.preset, broker.max_message_size)
    found += volume_problems(keeper, spec.preset)
    found += rack_problems(keeper, broker)
    found += window_problems(spec.maintenance_windows)
    return [*found, *_quorum_problems(keeper, quorum), *_message_problems(broker, spec.preset)]


def store_problems(store: ManagedZooKeeper, component: Component, field: str, preset: Preset) -> list[str]:
    """Returns the problems of a managed ZooKeeper. ``field`` is its path in the spec."""
    return [
        *_problems(component, field, store.config, store.jvm, store.pod),
        *_budget_problems(store, field),
        *memory_problems(component, field, preset, store.jvm, store.resources),
        *store_volume_problems(store, field),
    ]


def _budget_problems(store: ManagedZooKeeper, field: str) -> list[str]:
    """Returns whether evictions could remove the majority of an ensemble, and with it the metadata of every client, as
    a list of problems."""
    desired = store.pod.pod_disruption_budget if store.pod else None
    most = max(1, (store.replicas - 1) // 2)
    if desired is None or not desired.enabled or (desired.max_unavailable or 1) <= most:
        return []
    return [
        f"{field}.pod.podDisruptionBudget.maxUnavailable = {desired.max_unavailable} would allow the ensemble of "
        f"{store.replicas} to lose its majority. Lower it to {most}"
    ]


def memory_problems(
    component: Component, field: str, preset: Preset, jvm: Jvm | None, resources: Resources | None
) -> list[str]:
    """Returns a problem if the memory limit is less than the memory of the JVM: such a container would be killed."""
    limit = quantity(str((resources.limits or {}).get("memory", ""))) if resources else None
    if limit is None:
        return []
    heap, direct = heap_mebibytes(component, preset, jvm), direct_mebibytes(component, preset, jvm) or 0
    if limit >= (heap + direct) * MEBI:
        return []
    parts = f"a heap of {heap:.0f} MiB" + (f" and {direct:.0f} MiB of direct memory" if direct else "")
    return [
        f"{field}.resources.limits.memory = {limit / MEBI:.0f} MiB is less than {parts}, so Kubernetes would stop "
        f"the container. Raise the limit to more than {heap + direct:.0f}Mi, or set {field}.jvm.heap and "
        f"{field}.jvm.directMemory"
    ]


def _problems(
    component: Component,
    field: str,
    config: dict[str, str] | None,
    jvm: Jvm | None,
    pod: PodTemplate | None,
    more: Mapping[str, int] | None = None,
) -> list[str]:
    """Returns the problems of a component. ``more`` are further ports of its main container, by name."""
    ports = {**SERVED[component].ports, **(more or {})}
    return [
        *check_config(component, config),
        *check_jvm(f"{field}.jvm", jvm),
        *property_problems(component, field, jvm, pod),
        *pod_problems(f"{field}.pod", pod, ports),
        *written_problems(field, jvm, pod),
    ]


def _listener_problems(listeners: Sequence[Listener], broker: Broker) -> list[str]:
    """Returns the addresses that two brokers would share, and a volume in the way of the addresses."""
    found = [
        f"spec.listeners assigns {address} to two brokers or listeners. Assign another address to each of them"
        for address in dict.fromkeys(same_addresses(listeners, broker.replicas))
    ]
    volumes = (broker.pod.volumes if broker.pod else None) or ()
    if listeners and any(volume.name == ADDRESSES for volume in volumes):
        found.append(
            f'spec.broker.pod.volumes must not have the name "{ADDRESSES}" if spec.listeners is set, because the '
            "operator uses this name for its own volume. Choose another name"
        )
    return found


def _quorum_problems(keeper: BookKeeper, quorum: Quorum | None) -> list[str]:
    try:
        resolve_quorum(keeper.ensemble, keeper.replicas, quorum)
    except QuorumError as error:
        return [str(error)]
    return []


def _message_problems(broker: Broker, preset: Preset) -> list[str]:
    """Returns a problem if one message could fill the direct memory of a broker, which then refuses to start
    (PulsarService of 4.0)."""
    size = broker.max_message_size
    direct = direct_mebibytes(Component.BROKER, preset, broker.jvm)
    if size is None or direct is None or size < direct * 1024 * 1024:
        return []
    return [
        f"spec.broker.maxMessageSize = {size} must be below the broker's direct memory of {direct:.0f} MiB. Raise "
        "spec.broker.jvm.directMemory or lower maxMessageSize"
    ]
