"""External listeners: the Services of each listener, the address of each broker, and the ConfigMap from which a broker
reads its addresses. Pure.

A node port is known once the Service exists, and the address of a load balancer later still. So addresses are no part
of the pod template: a broker reads the addresses of its pod from the ConfigMap when it starts, and waits until they are
there. So a changed address restarts one broker only, and an added broker restarts no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.v1alpha1.listeners import INTERNAL, ORDINAL, Listener, ListenerType
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.domain.render.child_names import selector_labels, service_host
from pulsar_operator.domain.render.common import Manifest, metadata
from pulsar_operator.domain.render.listeners import PULSAR, ListenerPlan, pulsar_url
from pulsar_operator.domain.render.services import ip_versions

POD_LABEL = "statefulset.kubernetes.io/pod-name"
"""Label with which the StatefulSet controller names each pod (Kubernetes, StatefulSet, "Pod Name Label")."""
MOST_BOOTSTRAP = 3
"""Number of addresses in the bootstrap URL of a listener without a bootstrap address: clients try them in turn."""

Services = Mapping[str, Mapping[str, Any]]
"""Live Services by name."""


@dataclass(frozen=True)
class KnownAddresses:
    """The addresses of the external listeners."""

    entries: Mapping[str, str] = field(default_factory=dict)
    """Value of advertisedListeners by pod name, of the brokers whose addresses are all known."""
    missing: tuple[str, ...] = ()
    """A message for each address that is not known, with cause and remedy."""
    lost: tuple[str, ...] = ()
    """A message for each address that brokers keep although its Service has none any more."""
    bootstrap: Mapping[str, str] = field(default_factory=dict)
    """URL for clients by name of the listener, of the listeners whose URL is known."""


def listener_services(plan: ListenerPlan, platform: Platform, brokers: int) -> list[Manifest]:
    """Returns the bootstrap Service of each listener, and a Service for each of ``brokers`` brokers."""
    return [
        _service(plan, platform, listener, ordinal) for listener in plan.external for ordinal in (None, *range(brokers))
    ]


def service_name(plan: ListenerPlan, listener: Listener, ordinal: int | None) -> str:
    """Returns the name of the Service of one broker, or of the bootstrap Service if the ordinal is None."""
    return f"{plan.workload if ordinal is None else plan.pod(ordinal)}-{listener.name}"


def known_addresses(
    plan: ListenerPlan, brokers: int, services: Services, before: Mapping[str, str] | None = None
) -> KnownAddresses:
    """Returns the addresses of the brokers with the lowest ordinals, from the live Services and the specification.

    ``before`` are the entries that brokers read now. The address of a load balancer or a node port in them stays until
    another one is known, and while the load balancer has it among others. An entry stays until all addresses of its
    broker are known: a broker that starts again with the earlier pod template needs it.
    """
    before = before or {}
    entries, missing, lost = {}, [], []
    for ordinal in range(brokers):
        pod = plan.pod(ordinal)
        urls = {INTERNAL: pulsar_url(f"{plan.pod_host(ordinal)}:{plan.ports[PULSAR]}")}
        last = _addresses_in(before.get(pod, ""))
        for each in plan.external:
            if (address := _address(plan, each, ordinal, services, last.get(each.name))) is None:
                missing.append(_why(plan, each, ordinal, services))
                continue
            urls[each.name] = pulsar_url(address, tls=each.tls)
            if _address(plan, each, ordinal, services) is None:
                lost.append(_why(plan, each, ordinal, services))
        if len(urls) > len(plan.external):
            entries[pod] = ",".join(f"{name}:{url}" for name, url in urls.items())
        elif pod in before:
            entries[pod] = before[pod]
    begin = {each.name: _bootstrap(plan, each, brokers, services) for each in plan.external}
    urls_of_clients = {name: url for name, url in begin.items() if url is not None}
    return KnownAddresses(entries, tuple(missing), tuple(lost), urls_of_clients)


def tls_hosts(plan: ListenerPlan, known: KnownAddresses) -> list[str]:
    """Returns the hosts of the listeners with TLS, as far as they are known: those of the bootstrap Services, and of
    each broker. Each host is there once."""
    names = [each.name for each in plan.external if each.tls]
    addresses = [known.bootstrap[name].partition("://")[2] for name in names if name in known.bootstrap]
    brokers = [_addresses_in(entry) for entry in known.entries.values()]
    addresses += [found[name] for name in names for found in brokers if name in found]
    hosts = (each.rpartition(":")[0].strip("[]") for some in addresses for each in some.split(","))
    return list(dict.fromkeys(hosts))


def addresses_manifest(plan: ListenerPlan, known: KnownAddresses) -> Manifest:
    """Returns the ConfigMap that brokers read at their start: the value of advertisedListeners by pod name."""
    meta = metadata(plan.owner, plan.addresses, plan.component)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(known.entries)}


def same_addresses(listeners: Sequence[Listener], brokers: int) -> Iterator[str]:
    """Returns the addresses that two brokers or listeners would share, as far as the specification names them. Pulsar
    refuses to start with one of its listeners' addresses twice (class MultipleListenerValidator)."""
    taken: set[str] = set()
    for listener in listeners:
        for ordinal in range(brokers):
            address = _given(listener, ordinal)
            if address in taken:
                yield address
            taken |= {address} if address is not None else set()


def _service(plan: ListenerPlan, platform: Platform, listener: Listener, ordinal: int | None) -> Manifest:
    given = listener.type is ListenerType.GIVEN
    kind = ListenerType.CLUSTER_IP if given else listener.type
    selector = selector_labels(plan.owner, plan.component)
    spec: Manifest = {
        "type": kind.value,
        "selector": selector if ordinal is None else {**selector, POD_LABEL: plan.pod(ordinal)},
        "ports": [
            {"name": listener.name, "port": listener.port, "targetPort": listener.name, "protocol": "TCP"},
        ],
        **ip_versions(platform),
    }
    if listener.external_traffic_policy:
        spec["externalTrafficPolicy"] = listener.external_traffic_policy.value
    if listener.load_balancer_class:
        spec["loadBalancerClass"] = listener.load_balancer_class
    if listener.load_balancer_source_ranges:
        spec["loadBalancerSourceRanges"] = list(listener.load_balancer_source_ranges)
    name, annotations = service_name(plan, listener, ordinal), dict(listener.annotations or {})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(plan.owner, name, plan.component, annotations),
        "spec": spec,
    }


def _given(listener: Listener, ordinal: int) -> str | None:
    if listener.address_template is not None:
        return listener.address_template.replace(ORDINAL, str(ordinal))
    addresses = listener.addresses or ()
    return addresses[ordinal] if ordinal < len(addresses) else None


def _addresses_in(entry: str) -> dict[str, str]:
    """Returns host:port by name of the listener from a value of advertisedListeners."""
    parts = (each.partition(":") for each in entry.split(",") if each)
    return {name: url.partition("://")[2] for name, _, url in parts}


def _address(
    plan: ListenerPlan, listener: Listener, ordinal: int | None, services: Services, last: str | None = None
) -> str | None:
    """Returns host:port of a broker, or of the bootstrap Service if the ordinal is None; None if it is not known.
    ``last`` is the address that the broker reads now."""
    if listener.type is ListenerType.GIVEN:
        return None if ordinal is None else _given(listener, ordinal)
    name = service_name(plan, listener, ordinal)
    if listener.type is ListenerType.CLUSTER_IP:
        return f"{service_host(name, plan.owner.namespace, plan.cluster_domain)}:{listener.port}"
    service = services.get(name) or {}
    if listener.type is ListenerType.NODE_PORT:
        ports = (service.get("spec") or {}).get("ports") or ()
        port = next((each.get("nodePort") for each in ports if each.get("name") == listener.name), None)
        if port:
            return f"{listener.host}:{port}"
        return last if last is not None and last.rpartition(":")[0] == listener.host else None
    points = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    # In the order of their names: a cloud may list them in another order each time.
    hosts = sorted(host for point in points if (host := point.get("hostname") or _bracketed(point.get("ip"))))
    host, _, port = (last or "").rpartition(":")
    if last is not None and port == str(listener.port) and (not hosts or host in hosts):
        return last
    return f"{hosts[0]}:{listener.port}" if hosts else None


def _bracketed(ip: str | None) -> str | None:
    return f"[{ip}]" if ip and ":" in ip else ip


def _why(plan: ListenerPlan, listener: Listener, ordinal: int, services: Services) -> str:
    name = service_name(plan, listener, ordinal)
    if listener.type is ListenerType.GIVEN:
        return (
            f"Listener {listener.name} has no address for pod {plan.pod(ordinal)}. Add an address to addresses in "
            "spec.listeners, or set addressTemplate instead"
        )
    if name not in services:
        return f"Service {name} of listener {listener.name} does not exist yet"
    what = "node port" if listener.type is ListenerType.NODE_PORT else "address from its load balancer"
    return (
        f"Service {name} of listener {listener.name} has no {what} yet. See the events of the Service, and check that "
        f"this Kubernetes cluster supports Services of type {listener.type.value}"
    )


def _bootstrap(plan: ListenerPlan, listener: Listener, brokers: int, services: Services) -> str | None:
    if listener.type is ListenerType.GIVEN:
        given = [each for ordinal in range(min(brokers, MOST_BOOTSTRAP)) if (each := _given(listener, ordinal))]
        return pulsar_url(",".join(given), tls=listener.tls) if given else None
    address = _address(plan, listener, None, services)
    return pulsar_url(address, tls=listener.tls) if address else None
