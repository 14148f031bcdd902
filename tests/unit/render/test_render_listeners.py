"""External listeners rendered: settings, ports, Services and addresses by type, refusals, and nothing without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.listeners import Listener
from pulsar_operator.domain.apply import manifest_hash
from pulsar_operator.domain.dataplane.observed.advertised import advertised_urls, declared_urls, outdated_address
from pulsar_operator.domain.render import ListenerPlan, render_cluster, spec_problems
from pulsar_operator.domain.render.external_listeners import (
    addresses_manifest,
    known_addresses,
    listener_services,
    service_name,
)
from tests.support.cluster.rendering import DISTRIBUTED_SPECS, container, distributed, inputs, of_kind, overrides, owner

Json = dict[str, Any]
NODE_PORT = {"name": "external", "type": "NodePort", "port": 6660, "host": "nodes.example.com"}
BALANCER = {
    "name": "public",
    "type": "LoadBalancer",
    "port": 6661,
    "annotations": {"lb": "internal"},
    "loadBalancerClass": "example.com/one",
    "loadBalancerSourceRanges": ["10.0.0.0/8"],
    "externalTrafficPolicy": "Local",
}
INSIDE = {"name": "mesh", "type": "ClusterIP", "port": 6662}
TEMPLATE = {"name": "gateway", "type": "Given", "port": 6663, "addressTemplate": "b{ordinal}.example.com:90"}
LISTED = {"name": "listed", "type": "Given", "port": 6664, "addresses": ["a.example.com:1", "[fd00::1]:2"]}
EVERY = (NODE_PORT, BALANCER, INSIDE, {**TEMPLATE, "addressTemplate": "b{ordinal}.example.com:9000"}, LISTED)


def plan(*listeners: Json) -> ListenerPlan:
    external = tuple(Listener.model_validate(each) for each in listeners)
    return ListenerPlan(owner(), Component.BROKER, "cluster.local", external=external)


def broker(*listeners: Json, **more: Any) -> list[Json]:
    return list(render_cluster(inputs(distributed(listeners=list(listeners), **more))).of(Component.BROKER))


def services(manifests: list[Json]) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Service"}


def test_a_broker_binds_each_listener_to_its_port_and_keeps_the_others() -> None:
    manifests = broker(*EVERY)
    conf = overrides([each for each in manifests if "config" in each["metadata"]["name"]])
    assert conf["internalListenerName"] == "internal"
    assert conf["bindAddresses"] == (
        "external:pulsar://0.0.0.0:6660,public:pulsar://0.0.0.0:6661,mesh:pulsar://0.0.0.0:6662,"
        "gateway:pulsar://0.0.0.0:6663,listed:pulsar://0.0.0.0:6664"
    )
    assert (conf["brokerServicePort"], conf["webServicePort"]) == ("6650", "8080")
    assert "advertisedListeners" not in conf, "another address would be another revision of every broker"
    main = container(manifests)
    assert {each["name"]: each["containerPort"] for each in main["ports"]} == {
        "pulsar": 6650,
        "http": 8080,
        **{each["name"]: each["port"] for each in EVERY},
    }
    env = {each["name"]: each.get("value") for each in main["env"]}
    assert env["PULSAR_OPERATOR_LISTENERS"] == "/etc/pulsar-operator/listeners/$(POD_NAME)"
    assert env["PULSAR_CONF_advertisedAddress"] == "$(POD_NAME).my-broker-headless.ns.svc.cluster.local"
    template = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    assert {"name": "listeners", "configMap": {"name": "my-broker-listeners"}} in template["volumes"]
    assert {"name": "listeners", "mountPath": "/etc/pulsar-operator/listeners", "readOnly": True} in main[
        "volumeMounts"
    ]


def test_each_broker_has_a_service_and_all_have_one() -> None:
    found = services(broker(NODE_PORT, BALANCER))
    assert found.keys() == {
        "my-broker",
        "my-broker-headless",
        *("my-broker-external", "my-broker-0-external", "my-broker-1-external"),
        *("my-broker-public", "my-broker-0-public", "my-broker-1-public"),
    }
    one, every = found["my-broker-1-public"], found["my-broker-public"]
    pod = {"statefulset.kubernetes.io/pod-name": "my-broker-1"}
    assert one["spec"] == {
        "type": "LoadBalancer",
        "selector": {**every["spec"]["selector"], **pod},
        "ports": [{"name": "public", "port": 6661, "targetPort": "public", "protocol": "TCP"}],
        "externalTrafficPolicy": "Local",
        "loadBalancerClass": "example.com/one",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
    }
    assert one["metadata"]["annotations"] == {"lb": "internal"}
    assert "annotations" not in found["my-broker-0-external"]["metadata"]
    assert every["spec"]["selector"] == found["my-broker"]["spec"]["selector"]
    assert {each["port"] for each in found["my-broker"]["spec"]["ports"]} == {6650, 8080}, "of clients inside"


def node_port(name: str, port: int, number: int) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": [{"name": "external", "port": port, "nodePort": number}]}}


def balanced(name: str, **point: str) -> Json:
    return {"metadata": {"name": name}, "status": {"loadBalancer": {"ingress": [point] if point else []}}}


ADDRESSES = [
    pytest.param(
        NODE_PORT, [node_port("my-broker-0-external", 6660, 30001)], "nodes.example.com:30001", id="node port"
    ),
    pytest.param(BALANCER, [balanced("my-broker-0-public", ip="192.0.2.1")], "192.0.2.1:6661", id="address"),
    pytest.param(BALANCER, [balanced("my-broker-0-public", ip="2001:db8::1")], "[2001:db8::1]:6661", id="IPv6"),
    pytest.param(
        BALANCER, [balanced("my-broker-0-public", hostname="lb.example", ip="192.0.2.1")], "lb.example:6661", id="name"
    ),
    pytest.param(INSIDE, [], "my-broker-0-mesh.ns.svc.cluster.local:6662", id="inside"),
    pytest.param(TEMPLATE, [], "b0.example.com:90", id="template"),
    pytest.param(LISTED, [], "a.example.com:1", id="list"),
]


@pytest.mark.parametrize(("listener", "live", "address"), ADDRESSES)
def test_the_address_of_a_broker(listener: Json, live: list[Json], address: str) -> None:
    known = known_addresses(plan(listener), 1, {each["metadata"]["name"]: each for each in live})
    internal = "internal:pulsar://my-broker-0.my-broker-headless.ns.svc.cluster.local:6650"
    assert known.entries == {"my-broker-0": f"{internal},{listener['name']}:pulsar://{address}"}
    assert known.missing == ()


MISSING = [
    pytest.param(
        NODE_PORT, [], "Service my-broker-0-external of listener external does not exist yet", id="no Service"
    ),
    pytest.param(
        NODE_PORT,
        [balanced("my-broker-0-external")],
        "has no node port yet. See the events of the Service",
        id="no port",
    ),
    pytest.param(BALANCER, [balanced("my-broker-0-public")], "has no address from its load balancer yet", id="pending"),
    pytest.param(
        BALANCER,
        [{"metadata": {"name": "my-broker-0-public"}}],
        "supports Services of type LoadBalancer",
        id="no status",
    ),
    pytest.param(
        {**LISTED, "addresses": []}, [], "Listener listed has no address for pod my-broker-0", id="too short a list"
    ),
]


@pytest.mark.parametrize(("listener", "live", "text"), MISSING)
def test_an_address_that_is_not_known_says_what_it_waits_for(listener: Json, live: list[Json], text: str) -> None:
    external = (Listener.model_construct(**Listener.model_validate({**listener, "addresses": None}).__dict__),)
    if "addresses" in listener:
        external = (external[0].model_copy(update={"addresses": []}),)
    one = ListenerPlan(owner(), Component.BROKER, "cluster.local", external=external)
    known = known_addresses(one, 1, {each["metadata"]["name"]: each for each in live})
    assert known.entries == {} and len(known.missing) == 1 and text in known.missing[0]


def test_a_broker_needs_all_of_its_addresses() -> None:
    live = {"my-broker-0-external": node_port("my-broker-0-external", 6660, 30001)}
    known = known_addresses(plan(NODE_PORT, BALANCER), 1, live)
    assert known.entries == {} and "my-broker-0-public" in known.missing[0]


BOOTSTRAP = [
    (NODE_PORT, [node_port("my-broker-external", 6660, 30009)], "pulsar://nodes.example.com:30009"),
    (BALANCER, [balanced("my-broker-public", hostname="lb")], "pulsar://lb:6661"),
    (INSIDE, [], "pulsar://my-broker-mesh.ns.svc.cluster.local:6662"),
    (TEMPLATE, [], "pulsar://b0.example.com:90,b1.example.com:90,b2.example.com:90"),
]


@pytest.mark.parametrize(("listener", "live", "url"), BOOTSTRAP)
def test_the_url_for_clients(listener: Json, live: list[Json], url: str) -> None:
    known = known_addresses(plan(listener), 5, {each["metadata"]["name"]: each for each in live})
    assert known.bootstrap == {listener["name"]: url}


REFUSED = [
    pytest.param(
        {"listeners": [{**LISTED, "addresses": ["a:1", "b:1"]}, {**TEMPLATE, "addressTemplate": "b{ordinal}:1"}]},
        None,
        id="two listeners, other addresses",
    ),
    pytest.param(
        {"listeners": [LISTED, {**LISTED, "name": "other", "port": 7000}]},
        "spec.listeners assigns a.example.com:1 to two brokers or listeners. Assign another address to each of them",
        id="two listeners, one address",
    ),
    pytest.param(
        {"listeners": [NODE_PORT], "broker": {"pod": {"volumes": [{"name": "listeners", "emptyDir": {}}]}}},
        'spec.broker.pod.volumes must not have the name "listeners" if spec.listeners is set',
        id="a volume in the way",
    ),
    pytest.param(
        {
            "listeners": [NODE_PORT],
            "broker": {"pod": {"sidecars": [{"name": "s", "image": "i", "ports": [{"containerPort": 6660}]}]}},
        },
        'port "6660" is used by the main container. Choose another port',
        id="a sidecar on its port",
    ),
    pytest.param(
        {"broker": {"config": {"advertisedListeners": "x:pulsar://y:1"}}},
        'spec.broker.config key "advertisedListeners" is reserved, because spec.listeners sets it',
        id="by hand",
    ),
    pytest.param(
        {"broker": {"config": {"PULSAR_PREFIX_bindAddresses": "x:pulsar://y:1"}}},
        "is reserved, because spec.listeners sets it",
        id="by hand, unchecked",
    ),
]


@pytest.mark.parametrize(("changes", "text"), REFUSED)
def test_what_is_refused(changes: Json, text: str | None) -> None:
    found = spec_problems(distributed(**changes))
    assert found == [] if text is None else any(text in each for each in found), found


def test_brokers_that_are_not_removed_yet_keep_their_services() -> None:
    spec = distributed(listeners=[NODE_PORT])
    found = services(list(render_cluster(replace(inputs(spec), brokers=4)).of(Component.BROKER)))
    assert {name for name in found if name.endswith("-external")} == {
        "my-broker-external",
        *(f"my-broker-{n}-external" for n in range(4)),
    }


@given(spec=DISTRIBUTED_SPECS)
def test_listeners_change_the_brokers_alone(spec: PulsarClusterSpec) -> None:
    """No pod of another component rolls, and no broker is known by another id."""
    listener = Listener.model_validate(NODE_PORT)
    plain, listening = (
        render_cluster(inputs(each)) for each in (spec, spec.model_copy(update={"listeners": [listener]}))
    )
    assert plain.endpoints == listening.endpoints and plain.bookie_ids == listening.bookie_ids
    for component, manifests in plain.ordered():
        if component is not Component.BROKER:
            assert [manifest_hash(each) for each in manifests] == [
                manifest_hash(each) for each in listening.of(component)
            ]


TYPES = st.sampled_from([NODE_PORT, BALANCER, INSIDE, TEMPLATE])


@given(
    chosen=st.lists(
        st.tuples(st.from_regex(r"[a-z][a-z0-9]{0,9}", fullmatch=True), TYPES), max_size=4, unique_by=lambda x: x[0]
    ),
    brokers=st.integers(0, 6),
    known=st.booleans(),
)
def test_all_names_and_addresses_differ(chosen: list[tuple[str, Json]], brokers: int, known: bool) -> None:
    listeners = [{**each, "name": name, "port": 7000 + n} for n, (name, each) in enumerate(chosen)]
    for each in listeners:
        if "addressTemplate" in each:
            each["addressTemplate"] = f"b{{ordinal}}.{each['name']}.example.com:1"
    one = plan(*listeners)
    made = listener_services(one, distributed().platform, brokers)
    names = [each["metadata"]["name"] for each in made]
    assert len(set(names)) == len(names) == len(listeners) * (brokers + 1)
    assert all(len(name) <= 63 for name in names)
    live = {}
    for n, each in enumerate(made if known else ()):
        ports = [{**port, "nodePort": 30000 + n} for port in each["spec"]["ports"]]
        status = {"loadBalancer": {"ingress": [{"ip": f"192.0.2.{n}"}]}}
        live[each["metadata"]["name"]] = {**each, "spec": {**each["spec"], "ports": ports}, "status": status}
    found = known_addresses(one, brokers, live)
    needs = {each["type"] for each in listeners} & {"NodePort", "LoadBalancer"}
    complete = known or not needs
    assert len(found.entries) == (brokers if complete else 0)
    assert (found.missing == ()) == (complete or brokers == 0)
    urls = [url for entry in found.entries.values() for url in declared_urls(entry).values()]
    assert len(set(urls)) == len(urls), "Pulsar refuses an address twice"
    assert addresses_manifest(one, found)["data"] == found.entries


ENTRY = b'{"advertisedListeners":{"internal":{"brokerServiceUrl":"pulsar://a:6650"},"x":{"brokerServiceUrl":"pulsar://b:1"}}}'
OUTDATED = [
    (ENTRY, "internal:pulsar://a:6650,x:pulsar://b:1", False),
    (ENTRY, "internal:pulsar://a:6650,x:pulsar://b:2", True),
    (ENTRY, "internal:pulsar://a:6650,x:pulsar://b:1,y:pulsar://c:1", False),
    (ENTRY, "internal:pulsar://a:6650", False),
    (b"", "internal:pulsar://a:6650,x:pulsar://b:1", False),
    (b"[]", "internal:pulsar://a:6650,x:pulsar://b:1", False),
    (b'{"advertisedListeners":null}', "x:pulsar://b:1", False),
    (b'{"advertisedListeners":{"x":{}}}', "x:pulsar://b:1", False),
]


@pytest.mark.parametrize(("node", "entry", "outdated"), OUTDATED)
def test_a_broker_is_outdated_by_another_address_alone(node: bytes, entry: str, outdated: bool) -> None:
    found = outdated_address(advertised_urls(node), declared_urls(entry))
    assert (found is not None) == outdated
    if found is not None:
        assert found == "listener x has address pulsar://b:2, but the broker advertises pulsar://b:1"


def test_a_listener_with_tls_advertises_that_url_alone() -> None:
    """As a broker of 4.0.8 wrote it."""
    node = b'{"advertisedListeners":{"x":{"brokerServiceUrlTls":"pulsar+ssl://b:1"}}}'
    assert outdated_address(advertised_urls(node), declared_urls("x:pulsar+ssl://b:1")) is None
    assert outdated_address(advertised_urls(node), declared_urls("x:pulsar+ssl://b:2")) is not None


def test_the_longest_names_fit() -> None:
    long = owner("a" * 40)
    one = ListenerPlan(
        long, Component.BROKER, "cluster.local", external=(Listener.model_validate({**INSIDE, "name": "m" * 10}),)
    )
    assert len(service_name(one, one.external[0], 1023)) <= 63
