"""TLS at the edge in memory: the copy of the Secret, what a bad or lost one does, and the steps between the modes."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta

import pytest

from pulsar_operator.api.constants import LABEL_COMPONENT, Component, Kind
from pulsar_operator.ports import PODS, SECRETS, SERVICES, STATEFUL_SETS, ForbiddenError, Json, ResourceType
from tests.support.canary.places import CANARY
from tests.support.canary.watching import CanaryWorld, watched
from tests.support.certificates import Issued, authority, contents, issue, secret
from tests.support.cluster.world import NS, ClusterWorld, quickstart

HOST = f"east-proxy.{NS}.svc.cluster.local"
COPY = "east-edge-tls"
DAY = timedelta(days=1)
LISTENER = {"name": "tls", "type": "Given", "port": 6660, "addressTemplate": "b{ordinal}.example.com:443", "tls": True}


class Edge:
    """A world with an authority, and a cluster with two proxies that a user gives TLS."""

    def __init__(self) -> None:
        self.world = ClusterWorld.fakes()
        self.root = authority(begin=self.now - DAY)
        needs = self.world.workloads.needs

        async def may_start(pod: Json) -> bool:
            """The kubelet does not start a container whose Secret does not exist."""
            names = [v["secret"]["secretName"] for v in pod["spec"]["volumes"] if "secret" in v]
            mine = [name for name in names if name == COPY]
            return await needs(pod) and all([await self.world.live(SECRETS, name) for name in mine])

        self.world.workloads.needs = may_start

    @property
    def now(self) -> datetime:
        return self.world.clock.now()

    def leaf(self, *names: str, days: int = 90) -> Issued:
        return issue("east", issuer=self.root, names=names or (HOST,), begin=self.now - DAY, end=self.now + days * DAY)

    async def applied(self, mode: str | None = None, *listeners: Json, secret_name: str = "edge") -> None:
        manifests = quickstart(self.world.namespace)[:2]
        spec = manifests[1]["spec"]
        spec["proxy"] = {"replicas": 2}
        spec["broker"] = {"replicas": 1, "drain": {"enabled": False}}
        if mode is not None:
            spec["tls"] = {"edge": {"mode": mode, "secretName": secret_name}}
        if listeners:
            spec["listeners"] = [dict(each) for each in listeners]
        await self.world.apply(*manifests)

    async def given(self, data: dict[str, bytes], name: str = "edge") -> None:
        await self.world.apply(secret(name, NS, data))

    async def good(self, *names: str) -> Issued:
        leaf = self.leaf(*names)
        await self.given(contents(leaf, self.root))
        return leaf

    async def to(self, mode: str | None) -> None:
        def change(spec: Json) -> None:
            spec.pop("tls", None)
            if mode is not None:
                spec["tls"] = {"edge": {"mode": mode, "secretName": "edge"}}

        await self.world.change(Kind.CLUSTER, "east", change)

    async def told(self, kind: str = "TLSReady") -> tuple[str, str, str]:
        return await self.world.condition(Kind.CLUSTER, "east", kind)

    async def copy(self) -> dict[str, bytes]:
        found = await self.world.get(SECRETS, COPY)
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    async def ports(self, service: str = "east-proxy") -> set[str]:
        return {each["name"] for each in (await self.world.get(SERVICES, service))["spec"]["ports"]}

    async def open_ports(self) -> dict[str, set[str]]:
        """Names of the ports of each proxy."""
        pods = await self.world.backstage.all(PODS)
        return {
            pod["metadata"]["name"]: {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
            for pod in pods
            if pod["metadata"]["labels"].get(LABEL_COMPONENT) == Component.PROXY
        }


PLAIN, TLS = {"pulsar", "http"}, {"tls-pulsar", "https"}


async def test_without_it_nothing_is_written_read_or_said() -> None:
    found = Edge()
    await found.applied()
    asked: list[str] = []
    get = found.world.deps.kube.get

    async def seen(kind: ResourceType, namespace: str, name: str) -> Json | None:
        asked.extend([name] if kind == SECRETS else [])
        return await get(kind, namespace, name)

    found.world.deps.kube.get = seen  # type: ignore[method-assign]
    await found.world.run()
    assert await found.world.all_ready() == {}
    assert (await found.told())[0] == (await found.told("CertificatesValid"))[0] == "absent"
    assert "certificates" not in await found.world.status(Kind.CLUSTER, "east")
    assert set(asked) <= {"east-zookeeper-super"}


@pytest.mark.parametrize(("mode", "ports"), [("PlainAndTLS", PLAIN | TLS), ("Required", TLS)])
async def test_a_cluster_that_begins_with_it(mode: str, ports: set[str]) -> None:
    found = Edge()
    leaf = await found.good()
    await found.applied(mode)
    await found.world.run()
    assert await found.world.all_ready() == {}
    assert await found.copy() == contents(leaf, found.root)
    assert await found.open_ports() == {"east-proxy-0": ports, "east-proxy-1": ports}
    assert await found.ports() == ports
    assert (await found.told())[:2] == ("True", "Ready")
    assert (await found.told("CertificatesValid"))[:2] == ("True", "Valid")
    status = await found.world.status(Kind.CLUSTER, "east")
    (row,) = status["certificates"]
    assert (row["secret"], row["names"]) == ("edge", [HOST])
    assert status["endpoints"]["serviceUrlTls"] == f"pulsar+ssl://{HOST}:6651"
    quiet = len(found.world.journal.attempts)
    await found.world.round()
    assert len(found.world.journal.attempts) == quiet, "nothing is written at rest"


async def test_a_secret_that_is_missing_and_then_bad_holds_proxies_back_until_it_is_good() -> None:
    found = Edge()
    await found.applied("PlainAndTLS")
    await found.world.run()
    assert await found.world.live(STATEFUL_SETS, "east-proxy") is None
    assert await found.world.live(STATEFUL_SETS, "east-broker") is not None
    status, reason, text = await found.told()
    assert (status, reason) == ("False", "ReferenceNotFound")
    assert "Secret pulsar/edge, which spec.tls.edge.secretName names, does not exist. Create it" in text
    assert (await found.world.condition(Kind.CLUSTER, "east", "ProxiesReady"))[1] == "ReferenceNotFound"
    await found.good("elsewhere.example.com")
    await found.world.run()
    assert (await found.told())[1] == "CertificateInvalid" and f"is not valid for {HOST}" in (await found.told())[2]
    assert (await found.world.condition(Kind.CLUSTER, "east", "CertificatesValid"))[0] != "True"
    assert await found.world.live(SECRETS, COPY) is None, "the copy is written with good contents alone"
    await found.good()
    await found.world.run()
    assert await found.world.all_ready() == {}


async def test_a_cluster_that_serves_keeps_its_pods_until_the_secret_is_good_and_then_rolls() -> None:
    found = Edge()
    await found.applied()
    await found.world.run()
    before = await found.world.uids(PODS)
    other = found.leaf()
    await found.given({**contents(found.leaf(), found.root), "tls.key": other.key_pem()})
    await found.to("PlainAndTLS")
    await found.world.run()
    assert await found.world.uids(PODS) == before
    template = (await found.world.get(STATEFUL_SETS, "east-proxy"))["spec"]["template"]
    assert COPY not in str(template), "a pod that ends is created from the template that works"
    status, reason, text = await found.told()
    assert (status, reason) == ("False", "CertificateInvalid") and "does not belong to the first certificate" in text
    assert "Pods that run keep what they have" in text
    await found.good()
    await found.world.run()
    assert await found.world.all_ready() == {}
    after = await found.world.uids(PODS)
    assert {name for name in before if before[name] != after[name]} == {"east-proxy-0", "east-proxy-1"}


async def test_a_secret_that_becomes_bad_or_is_lost_changes_no_pod_and_no_file() -> None:
    found = Edge()
    leaf = await found.good()
    await found.applied("PlainAndTLS")
    await found.world.run()
    before = await found.world.uids(PODS)
    await found.given({"tls.crt": b"x", "tls.key": b"y"})
    await found.world.run()
    assert (await found.told())[1] == "CertificateInvalid"
    assert (await found.told())[2].endswith("Pods keep the certificate that they have")
    await found.world.backstage.remove(SECRETS, NS, "edge")
    await found.world.run()
    assert (await found.told())[:2] == ("False", "ReferenceNotFound")
    assert await found.world.uids(PODS) == before and await found.copy() == contents(leaf, found.root)
    (row,) = (await found.world.status(Kind.CLUSTER, "east"))["certificates"]
    assert row["secret"] == "edge"
    await found.world.backstage.remove(PODS, NS, "east-proxy-0")
    await found.world.change(Kind.CLUSTER, "east", lambda spec: spec["proxy"].update(config={"httpNumThreads": "9"}))
    await found.world.run()
    assert set(await found.open_ports()) == {"east-proxy-0", "east-proxy-1"}
    assert found.world.workloads.ready[(NS, "east-proxy")] == 2, "pods start with the copy, and other changes roll"


async def test_a_renewed_certificate_reaches_the_copy_and_restarts_nothing() -> None:
    found = Edge()
    await found.good()
    await found.applied("Required")
    await found.world.run()
    before = await found.world.uids(PODS)
    renewed = await found.good(HOST, "pulsar.example.com")
    await found.world.run()
    assert await found.copy() == contents(renewed, found.root)
    assert await found.world.uids(PODS) == before
    (row,) = (await found.world.status(Kind.CLUSTER, "east"))["certificates"]
    assert row["names"] == [HOST, "pulsar.example.com"]


async def test_from_plain_to_required_and_back_no_pod_is_left_without_what_clients_use() -> None:
    found = Edge()
    await found.good()
    await found.applied()
    await found.world.run()
    seen: set[tuple[str, frozenset[str]]] = set()

    async def look() -> None:
        service = await found.ports()
        for ports in (await found.open_ports()).values():
            assert ports & service, "a pod behind the Service serves none of its ports"
            if service == TLS:
                assert ports >= TLS
            if service == PLAIN:
                assert ports >= PLAIN

    # Faster than the pods follow: the API server refuses one step, and not two steps soon after each other.
    for mode in ("PlainAndTLS", "Required"):
        await found.to(mode)
        for key in await found.world.keys():
            await found.world.reconcile(key)
        seen.add((mode, frozenset(await found.ports())))
    assert seen == {("PlainAndTLS", frozenset(PLAIN | TLS)), ("Required", frozenset(PLAIN | TLS))}
    status, reason, text = await found.told()
    assert (status, reason) == ("False", "RolloutInProgress")
    assert "Proxies accept connections with TLS and without until every proxy is able to serve mode Required" in text
    await found.world.run(each=look)
    assert await found.ports() == TLS and await found.world.all_ready() == {}
    for mode in ("PlainAndTLS", None):
        await found.to(mode)
        for key in await found.world.keys():
            await found.world.reconcile(key)
    assert await found.ports() == PLAIN | TLS
    await found.world.run(each=look)
    assert await found.ports() == PLAIN and await found.world.all_ready() == {}
    assert await found.world.live(SECRETS, COPY) is None, "no pod uses it any longer"
    assert "certificates" not in await found.world.status(Kind.CLUSTER, "east")
    assert await found.world.live(SECRETS, "edge") is not None, "the Secret of the user stays"


async def test_brokers_with_a_listener_wait_for_a_certificate_of_all_their_names() -> None:
    found = Edge()
    await found.good("b0.example.com")
    await found.applied("Plain", LISTENER)
    await found.world.run()
    assert await found.world.all_ready() == {}
    assert "External listeners with TLS: tls" in (await found.told())[2]
    await found.world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await found.world.run()
    assert (await found.world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 1
    assert "is not valid for b1.example.com" in (await found.told())[2]
    progressing = await found.world.condition(Kind.CLUSTER, "east", "Progressing")
    assert "The operator does not add brokers yet" in progressing[2]
    await found.good("*.example.com")
    await found.world.run()
    assert (await found.world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2
    assert await found.world.all_ready() == {}
    status = await found.world.status(Kind.CLUSTER, "east")
    assert status["listeners"][0]["serviceUrl"].startswith("pulsar+ssl://b0.example.com:443")


async def test_a_certificate_of_a_public_authority_needs_the_name_that_clients_use_alone() -> None:
    found = Edge()
    await found.good("pulsar.example.com")
    await found.applied("Required")

    def named(spec: Json) -> None:
        spec["tls"]["edge"]["host"] = "pulsar.example.com"

    await found.world.change(Kind.CLUSTER, "east", named)
    await found.world.run()
    assert await found.world.all_ready() == {}
    endpoints = (await found.world.status(Kind.CLUSTER, "east"))["endpoints"]
    assert endpoints["serviceUrl"] == endpoints["serviceUrlTls"] == "pulsar+ssl://pulsar.example.com:6651"


async def test_it_warns_before_the_end() -> None:
    found = Edge()
    leaf = found.leaf(days=13)
    await found.given(contents(leaf, found.root))
    await found.applied("Required")
    await found.world.run()
    status, reason, text = await found.told("CertificatesValid")
    assert (status, reason) == ("False", "CertificateExpiring") and "Renew the certificate" in text
    assert await found.world.all_ready() == {}, "Ready does not depend on it"


async def test_a_secret_of_the_name_of_the_copy_is_nobody_elses_to_overwrite() -> None:
    found = Edge()
    await found.given({"tls.crt": b"mine"}, COPY)
    await found.good()
    await found.applied("Required")
    await found.world.run()
    assert await found.copy() == {"tls.crt": b"mine"}
    assert (await found.world.condition(Kind.CLUSTER, "east", "Accepted"))[1] == "NameConflict"
    assert await found.world.live(STATEFUL_SETS, "east-proxy") is None


async def test_without_the_right_to_read_secrets_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Edge()
    await found.good()
    await found.applied("Required")
    kube = found.world.deps.kube
    get = kube.get

    async def refused(kind: ResourceType, namespace: str, name: str) -> Json | None:
        if kind == SECRETS and name == "edge":
            raise ForbiddenError("secrets is forbidden")
        return await get(kind, namespace, name)

    monkeypatch.setattr(kube, "get", refused)
    await found.world.run()
    assert (await found.told())[:2] == ("False", "Forbidden")
    assert await found.world.live(STATEFUL_SETS, "east-broker") is not None
    assert await found.world.live(STATEFUL_SETS, "east-proxy") is None


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt", "other"])
@pytest.mark.parametrize("text", ["{word}", "-----BEGIN PRIVATE KEY-----\n{word}\n-----END PRIVATE KEY-----\n"])
async def test_what_a_secret_contains_is_in_no_log_event_or_status(key: str, text: str) -> None:
    found = Edge()
    await found.good()
    await found.applied("PlainAndTLS")
    await found.world.run()
    found.world.__class__ = CanaryWorld
    with watched() as seen:
        await found.given({**contents(found.leaf(), found.root), key: text.format(word=CANARY).encode()})
        for _ in range(3):
            await found.world.round()
            await seen.look(found.world)
    assert seen.texts and seen.leaks() == []
    assert CANARY.encode() not in b"".join((await found.copy()).values())


async def test_nobody_is_told_a_key() -> None:
    found = Edge()
    leaf = await found.good()
    await found.applied("Required")
    await found.world.run()
    await found.given({**contents(leaf, found.root), "tls.crt": b"x"})
    await found.world.run()
    lines = [line for line in leaf.key_pem().decode().splitlines() if not line.startswith("-----")]
    encoded = base64.b64encode(leaf.key_pem()).decode()
    told = f"{await found.world.get(Kind.CLUSTER, 'east')}{found.world.journal.events}"
    for kind in (STATEFUL_SETS, PODS, SERVICES):
        told += str(await found.world.backstage.all(kind))
    assert not any(each in told for each in (*lines, encoded))
