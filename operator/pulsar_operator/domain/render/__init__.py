"""Pure rendering of the data plane: a spec in, Kubernetes manifests out. Nothing here reads or writes anything.

Stable interface for the controllers: Owner, ImageTemplates and StoreAddress are parts of ClusterInputs. spec_problems
is called first, then render_cluster. The result has RenderedCluster.of(component), .all(), .metadata_store, .endpoints.
render_configuration_store and store_problems do the same for a configuration store.
"""

from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.checks import spec_problems, store_problems
from pulsar_operator.domain.render.child_names import Owner, headless_name, selector_text, workload_name
from pulsar_operator.domain.render.cluster import local_store, render_cluster, render_configuration_store
from pulsar_operator.domain.render.config import check_config
from pulsar_operator.domain.render.inputs import (
    BRING_UP_ORDER,
    ClusterEndpoints,
    ClusterInputs,
    ImageTemplates,
    RenderedCluster,
    RenderedStore,
)
from pulsar_operator.domain.render.listeners import ListenerPlan
from pulsar_operator.domain.render.quorum import Quorum, QuorumError, resolve_quorum
from pulsar_operator.domain.render.security import Security, account_role, security_of
from pulsar_operator.domain.render.zookeeper import FOUNDED_KEY, SUPER_DIGEST_KEY, founded_name

__all__ = [
    "BRING_UP_ORDER",
    "FOUNDED_KEY",
    "SUPER_DIGEST_KEY",
    "ClusterEndpoints",
    "ClusterInputs",
    "ImageTemplates",
    "ListenerPlan",
    "Owner",
    "Quorum",
    "QuorumError",
    "RenderedCluster",
    "RenderedStore",
    "Security",
    "StoreAddress",
    "account_role",
    "check_config",
    "founded_name",
    "headless_name",
    "local_store",
    "render_cluster",
    "render_configuration_store",
    "resolve_quorum",
    "security_of",
    "selector_text",
    "spec_problems",
    "store_problems",
    "workload_name",
]
