"""External listeners in memory: what Kubernetes, a load balancer and the brokers themselves do with them."""

from __future__ import annotations

import itertools
import json

from pulsar_operator.api.constants import LABEL_COMPONENT, Component, Kind
from pulsar_operator.domain.dataplane.observed.advertised import BROKERS_PATH, declared_urls
from pulsar_operator.domain.render.listeners import ListenerPlan
from pulsar_operator.ports import CONFIG_MAPS, PODS, SERVICES, Json
from tests.support.cluster.rendering import owner
from tests.support.cluster.world import NS, ClusterWorld, quickstart


def plan_in(namespace: str) -> ListenerPlan:
    """The plan of the brokers of cluster east."""
    return ListenerPlan(owner("east", namespace=namespace), Component.BROKER, "cluster.local")


BROKERS = plan_in(NS)
NODE_PORT = {"name": "external", "type": "NodePort", "port": 6660, "host": "nodes.example.com"}
LOAD_BALANCER = {"name": "public", "type": "LoadBalancer", "port": 6661}


class Outside:
    """A world with external listeners: Services get node ports and addresses, and brokers wait for their addresses."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world, self.plan = world, plan_in(world.namespace)
        self.balancers = True
        """Whether load balancers get addresses."""
        self._ports = itertools.count(30000)
        self._addresses = itertools.count(1)
        self.started: dict[str, str] = {}
        """What each broker read at its start, by UID of its pod."""
        self.waited: set[str] = set()
        """Names of pods that waited for their addresses."""
        needs = world.workloads.needs

        async def may_start(pod: Json) -> bool:
            return await needs(pod) and await self._has_its_addresses(pod)

        world.workloads.needs = may_start

    async def run(self) -> None:
        """Rounds until nothing changes any more."""
        await self.world.run(each=self.step)
        await self.world.run(each=self.step)  # for brokers that registered after the last pass

    async def applied(self, *listeners: Json, brokers: int = 2) -> None:
        """A user applies the quickstart with so many brokers, without proxies, and with these listeners."""
        manifests = quickstart(self.world.namespace)[:2]
        spec = manifests[1]["spec"]
        spec.pop("proxy", None)
        spec["broker"] |= {"replicas": brokers, "drain": {"enabled": False}}
        if listeners:
            spec["listeners"] = [dict(each) for each in listeners]
        await self.world.apply(*manifests)

    async def step(self) -> None:
        """Kubernetes chooses node ports, load balancers get addresses, and brokers register and are gone."""
        for service in await self.world.backstage.all(SERVICES):
            await self._allocate(service)
        pods = await self.world.backstage.all(PODS)
        brokers = [p for p in pods if p["metadata"]["labels"].get(LABEL_COMPONENT) == Component.BROKER]
        for pod in brokers:
            conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions") or ()}
            if conditions.get("Ready") == "True":
                await self._register(pod["metadata"])

    async def _register(self, meta: Json) -> None:
        urls = declared_urls(self.started.get(meta["uid"], ""))
        keys = {name: f"brokerServiceUrl{'Tls' if url.startswith('pulsar+ssl') else ''}" for name, url in urls.items()}
        entry = {"advertisedListeners": {name: {keys[name]: url} for name, url in urls.items()}}
        session = await self.world.deps.zookeeper.session(
            f"east-zookeeper.{self.world.namespace}.svc.cluster.local:2181"
        )
        path = f"{BROKERS_PATH}/{self.plan.broker_id(int(meta['name'].rpartition('-')[2]))}"
        node, data = await session.get(path), json.dumps(entry).encode()
        if node is None:
            await session.create(path, data)
        elif node.data != data:
            await session.set(path, data, version=node.version)

    async def _allocate(self, service: Json) -> None:
        meta, spec = service["metadata"], service["spec"]
        if spec["type"] in ("NodePort", "LoadBalancer") and not all(p.get("nodePort") for p in spec["ports"]):

            def change(obj: Json) -> None:
                for port in obj["spec"]["ports"]:
                    port.setdefault("nodePort", next(self._ports))

            await self.world.backstage.edit(SERVICES, self.world.namespace, meta["name"], change)
        pending = not ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress")
        if spec["type"] == "LoadBalancer" and self.balancers and pending:
            await self.address(meta["name"], f"192.0.2.{next(self._addresses)}")

    async def address(self, service: str, ip: str) -> None:
        """A load balancer gets an address."""
        await self.world.backstage.set_status(
            SERVICES, self.world.namespace, service, {"loadBalancer": {"ingress": [{"ip": ip}]}}
        )

    async def _has_its_addresses(self, pod: Json) -> bool:
        meta = pod["metadata"]
        volumes = [v["configMap"]["name"] for v in pod["spec"]["volumes"] if "configMap" in v]
        if meta["labels"].get(LABEL_COMPONENT) != Component.BROKER or self.plan.addresses not in volumes:
            return True
        if meta["uid"] in self.started:
            return True
        found = await self.world.live(CONFIG_MAPS, self.plan.addresses)
        entry = ((found or {}).get("data") or {}).get(meta["name"])
        if entry is None:
            self.waited.add(meta["name"])
            return False
        self.started[meta["uid"]] = entry
        return True

    async def advertised(self) -> dict[str, dict[str, str]]:
        """What the brokers that are there advertise, by pod name."""
        pods = await self.world.backstage.all(PODS)
        return {
            pod["metadata"]["name"]: declared_urls(self.started[pod["metadata"]["uid"]])
            for pod in pods
            if pod["metadata"]["uid"] in self.started
        }

    async def told(self) -> tuple[str, str, str]:
        """Condition ListenersReady."""
        return await self.world.condition(Kind.CLUSTER, "east", "ListenersReady")

    async def services(self) -> set[str]:
        """Names of the Services of external listeners."""
        names = await self.world.names(SERVICES)
        return {name for name in names if name.startswith("east-broker-")} - {self.plan.headless}


async def outside(*listeners: Json, brokers: int = 2, balancers: bool = True) -> Outside:
    """The quickstart with so many brokers and these listeners, applied and not looked at yet."""
    found = Outside(ClusterWorld.fakes())
    found.balancers = balancers
    await found.applied(*listeners, brokers=brokers)
    return found
