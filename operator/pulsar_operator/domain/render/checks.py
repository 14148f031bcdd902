"""What is wrong with a spec that neither the CRD nor CEL can say, one sentence each with field, value and remedy."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm, PodTemplate, Preset
from pulsar_operator.api.v1alpha1.cluster import (
    BookKeeper,
    Broker,
    ClusterMode,
    PulsarClusterSpec,
    Standalone,
)
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.domain.render.config import check_config, check_env, check_jvm
from pulsar_operator.domain.render.presets import direct_mebibytes
from pulsar_operator.domain.render.quorum import QuorumError, resolve_quorum
from pulsar_operator.domain.render.volumes import volume_problems
from pulsar_operator.domain.render.writecache import write_cache_problems


def spec_problems(spec: PulsarClusterSpec) -> list[str]:
    """Everything wrong with a spec that only the operator can see; empty means that render_cluster succeeds."""
    if spec.mode is ClusterMode.STANDALONE:
        one = spec.standalone or Standalone()
        return _problems(Component.STANDALONE, "spec.standalone", one.config, one.jvm, one.pod)
    found = []
    if not spec.metadata_store or not (spec.metadata_store.managed or spec.metadata_store.external):
        found.append("spec.metadataStore is absent: set spec.metadataStore.managed or spec.metadataStore.external")
    elif managed := spec.metadata_store.managed:
        found += store_problems(managed, Component.ZOOKEEPER, "spec.metadataStore.managed")
    keeper, broker, proxy = spec.bookkeeper or BookKeeper(), spec.broker or Broker(), spec.proxy
    recovery = keeper.auto_recovery
    found += _problems(Component.BOOKIE, "spec.bookkeeper", keeper.config, keeper.jvm, keeper.pod)
    found += _problems(Component.AUTORECOVERY, "spec.bookkeeper.autoRecovery", None, recovery.jvm, recovery.pod)
    found += _problems(Component.BROKER, "spec.broker", broker.config, broker.jvm, broker.pod)
    if proxy:
        found += _problems(Component.PROXY, "spec.proxy", proxy.config, proxy.jvm, proxy.pod)
    found += write_cache_problems(keeper, spec.preset, broker.max_message_size)
    found += volume_problems(keeper, spec.preset)
    return [*found, *_quorum_problems(keeper), *_message_problems(broker, spec.preset)]


def store_problems(store: ManagedZooKeeper, component: Component, field: str) -> list[str]:
    """The same for a managed ZooKeeper; ``field`` is where it stands in the spec."""
    return _problems(component, field, store.config, store.jvm, store.pod)


def _problems(
    component: Component, field: str, config: dict[str, str] | None, jvm: Jvm | None, pod: PodTemplate | None
) -> list[str]:
    return [
        *check_config(component, config),
        *check_jvm(f"{field}.jvm", jvm),
        *check_env(f"{field}.pod.env", pod.env if pod else None),
    ]


def _quorum_problems(keeper: BookKeeper) -> list[str]:
    try:
        resolve_quorum(keeper.ensemble, keeper.replicas)
    except QuorumError as error:
        return [str(error)]
    return []


def _message_problems(broker: Broker, preset: Preset) -> list[str]:
    """A broker refuses to start when one message could fill its direct memory (PulsarService of 4.0)."""
    size = broker.max_message_size
    direct = direct_mebibytes(Component.BROKER, preset, broker.jvm)
    if size is None or direct is None or size < direct * 1024 * 1024:
        return []
    return [
        f"spec.broker.maxMessageSize = {size} is not below the broker's direct memory of {direct:.0f} MiB: "
        "raise spec.broker.jvm.directMemory or lower maxMessageSize"
    ]
