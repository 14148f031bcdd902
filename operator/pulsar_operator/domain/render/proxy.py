"""Renders the proxies."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import Proxy
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.common import (
    RENDERED_FOLDER,
    Manifest,
    Probes,
)
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.lifetime import LEAST_SECONDS
from pulsar_operator.domain.render.listeners import http_probe
from pulsar_operator.domain.render.security import proxy_security
from pulsar_operator.domain.render.workloads import component_workload, manifests


def proxy_pod(proxy: Proxy) -> PodTemplate | None:
    """Returns the pod settings, with the time that a proxy needs to leave its Service before it stops, since
    autoscaling removes proxies while clients are connected."""
    wait = proxy.autoscaling.drain_seconds if proxy.autoscaling is not None else 0
    pod = proxy.pod or PodTemplate()
    if not wait or pod.pre_stop_sleep_seconds is not None:
        return proxy.pod
    return pod.model_copy(update={"pre_stop_sleep_seconds": wait})


def drain_problems(proxy: Proxy) -> list[str]:
    """Returns a problem if a removed proxy has too little time to stop after it has left its Service."""
    grace, wait = (proxy.pod or PodTemplate()).termination_grace_period_seconds, proxy.autoscaling
    if grace is None or wait is None or proxy_pod(proxy) is proxy.pod or grace - wait.drain_seconds >= LEAST_SECONDS:
        return []
    return [
        f"spec.proxy.pod.terminationGracePeriodSeconds = {grace} leaves less than {LEAST_SECONDS} s after "
        f"spec.proxy.autoscaling.drainSeconds = {wait.drain_seconds}. Raise terminationGracePeriodSeconds to "
        f"{wait.drain_seconds + LEAST_SECONDS} or more, remove the field, or lower drainSeconds"
    ]


def render_proxy(
    inputs: ClusterInputs, proxy: Proxy, *, store: StoreAddress, configuration: StoreAddress
) -> list[Manifest]:
    """Returns the ConfigMap, Services, PodDisruptionBudget and StatefulSet of the proxies.

    Probes request /status.html, which answers 200 if a configured file exists (and no thread is deadlocked), and
    depends on neither brokers nor authentication. The file is the rendered configuration, which every running pod has.
    """
    owned = {
        # Not in the stock file, but the proxy's metrics refuse to start without it (OpenTelemetryService of 4.0).
        "clusterName": inputs.cluster_name,
        "metadataStoreUrl": store.url,
        "configurationMetadataStoreUrl": configuration.url,
        "statusFilePath": f"{RENDERED_FOLDER}/proxy.conf",
        **proxy_security(inputs.security),
    }
    plan = inputs.listeners(Component.PROXY)
    if plan.tls:
        # The provider of Java. The default of Pulsar has no library for processors other than x86-64.
        owned["webServiceTlsProvider"] = "SunJSSE"
    status = http_probe("/status.html", plan)
    workload = component_workload(
        inputs,
        Component.PROXY,
        proxy,
        # Without it a client may name any host on a broker port, and the proxy connects it there.
        {"brokerProxyAllowedHostNames": f"*.{inputs.listeners(Component.BROKER).headless_host}"},
        proxy.config,
        owned,
        replicas=proxy.replicas,
        probes=Probes(readiness=status, liveness=status, startup=status),
        pod=proxy_pod(proxy),
        token_audience=inputs.token_audience,
    )
    return manifests(workload, exposed=proxy.service)
