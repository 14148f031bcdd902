"""What runs inside the pods: readiness that depends on real needs, bookies with cookies, stores on their volumes.

A bookie becomes ready only where the metadata store it was given holds the INSTANCEID in the cookie on its volume; a
broker only where its cluster is registered in the configuration store it was given. An ensemble lives on the volume of
its first server: on a new volume it is empty, and so is Pulsar; one that is on record as founded does not start on it.
Bookies and auto-recovery answer HTTP while their pods are ready, and auto-recovery copies when ``copy`` is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from pulsar_start.identity import RECORD_PATH, Names, parse_record

from pulsar_operator.adapters.kazoo_zookeeper import canonical_servers
from pulsar_operator.api.constants import ANNOTATION_RACK, LABEL_COMPONENT, Component
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.domain.render.listeners import bookie_id
from pulsar_operator.domain.render.pod_racks import RACK_VARIABLE
from pulsar_operator.ports import (
    CONFIG_MAPS,
    PODS,
    PVCS,
    STATEFUL_SETS,
    AdminEndpoint,
    Json,
    PulsarAdminPort,
    UnavailableError,
    ZooKeeperPort,
    ZooKeeperSession,
)
from tests.fakes.bookies import FakeBookies
from tests.fakes.pulsar import FakePulsar
from tests.fakes.streams import Streaming
from tests.support.bookkeeper.copying import copy_from, copy_lost
from tests.support.cluster.backstage import Backstage

COOKIE, COOKIE_OF = "tests.example.com/cookie", "tests.example.com/cookie-of"
AVAILABLE = "/ledgers/available"
READONLY = f"{AVAILABLE}/readonly"
AUDITOR = "/ledgers/underreplication/leader"
DELAY = "/ledgers/underreplication/lostBookieRecoveryDelay"
LOOKS = 12
"""How often a bookie looks for its rack before it starts without: a minute."""
STORES = (Component.ZOOKEEPER.value, Component.CONFIGURATION_STORE.value)


class DataPlane:
    """The processes in the pods."""

    def __init__(
        self, backstage: Backstage, zookeeper: ZooKeeperPort, pulsar: FakePulsar, bookies: FakeBookies
    ) -> None:
        """``bookies`` are the HTTP servers, which are started and ended here."""
        self._backstage = backstage
        self._zookeeper = zookeeper
        self._pulsar = pulsar
        self._bookies = bookies
        bookies.changed = self._changed
        self._uris: dict[str, str] = {}
        """Metadata store of each bookie and auto-recovery pod that is ready, by host."""
        self.majority: dict[str, int] = {}
        """Servers an ensemble needs, by StatefulSet."""
        self._volumes: dict[str, str] = {}
        """UID of the claim each ensemble lives on."""
        self.stores: set[str] = set()
        """Client addresses of the ensembles that ever served."""
        self.ids: dict[str, str] = {}
        """Id of each bookie that was up, by UID of its pod."""
        self.knows_incarnations = True
        """Whether the image's start program asks which incarnation a bookie on empty volumes is."""
        self._audited: dict[str, int] = {}
        """Version of the auditor's delay at its last look, by store."""
        self.waited: dict[str, int] = {}
        """By UID of a bookie's pod, how often it looked for its rack in vain."""
        self.unplaced: list[str] = []
        """Bookies that waited for a rack, and started while the metadata store had none for them."""
        self.formatted: list[str] = []
        """Ensembles that started on an empty volume, in order."""

    async def step(self, ready: Mapping[tuple[str, str], int]) -> None:
        """Learn the sizes of ensembles; bookies and auto-recovery register where they run and are gone where not."""
        for sts in await self._backstage.all(STATEFUL_SETS):
            if sts["metadata"]["labels"].get(LABEL_COMPONENT) in STORES:
                self.majority[sts["metadata"]["name"]] = sts["spec"]["replicas"] // 2 + 1
        there: dict[str, set[str]] = {}
        self._uris.clear()
        for pod in await self._backstage.all(PODS):
            component = pod["metadata"]["labels"].get(LABEL_COMPONENT)
            if component not in (Component.BOOKIE, Component.AUTORECOVERY):
                continue
            uri = (await self._config(pod, quiet=True)).get("metadataServiceUri")
            if uri is None:
                continue
            found = there.setdefault(uri, set())
            if _is_ready(pod):
                found.add(self._serve(pod, uri, bookie=component == Component.BOOKIE))
        for host in set(self._bookies.servers) - set(self._uris):
            self._bookies.stop(host)
        for uri, wanted in there.items():
            await self._register(uri, wanted)

    def _serve(self, pod: Json, uri: str, *, bookie: bool) -> str:
        """The HTTP server of a pod that is ready, and the node that its process registers."""
        host = bookie_of(pod).rpartition(":")[0]
        self._uris[host] = uri
        self._bookies.see(host, bookie=bookie, incarnation=pod["metadata"]["uid"])
        if not bookie:
            return AUDITOR
        name = self.ids.get(pod["metadata"]["uid"], bookie_of(pod))
        return f"{READONLY if self._bookies.servers[host].readonly else AVAILABLE}/{name}"

    async def _changed(self, host: str) -> None:
        """A bookie is read-only or writable now, and registered so before it answers."""
        await self.step({})

    async def copy(self, bad: Collection[int] = ()) -> None:
        """Auto-recovery does all it was asked; a copy ends at the first of the ``bad`` ledgers, the next one begins."""
        for host, server in sorted(self._bookies.servers.items()):
            while server.queue:
                session = await self._session(_store_of(self._uris[host]))
                await copy_from(session, server.queue.pop(0), bad)

    async def audit(self, bad: Collection[int] = ()) -> None:
        """Where the auditor was told to look, by a write of its delay, it has each ledger of bookies that are not there
        copied, as far as there is another copy."""
        for uri in sorted(set(self._uris.values())):
            session = await self._session(_store_of(uri))
            node = await session.get(DELAY)
            if node is None or await session.get(AUDITOR) is None or self._audited.get(uri) == node.version:
                continue
            if uri in self._audited:
                await copy_lost(session, bad)
            self._audited[uri] = node.version

    async def _register(self, uri: str, wanted: set[str]) -> None:
        """The ephemeral nodes of one store are those that are wanted."""
        session = await self._session(_store_of(uri))
        if await session.get("/ledgers/INSTANCEID") is None:
            return
        names = await session.children(AVAILABLE) or ()
        have = {f"{AVAILABLE}/{name}" for name in names if name != "readonly"}
        have |= {f"{READONLY}/{name}" for name in await session.children(READONLY) or ()}
        if await session.get(AUDITOR) is not None:
            have.add(AUDITOR)
        for path in sorted(wanted - have):
            await session.create(path, b"" if path != AUDITOR else b'bookieId: "an-auto-recovery-pod:3181"\n')
        for path in sorted(have - wanted):
            node = await session.get(path)
            if node is not None:
                await session.delete(path, version=node.version)
        if AUDITOR in wanted and await session.get(DELAY) is None:
            await session.create(DELAY, b"0")

    async def needs(self, pod: Json) -> bool:
        """Whether the process in a pod would become ready."""
        component = pod["metadata"]["labels"].get(LABEL_COMPONENT)
        if component in STORES:
            return await self._store(pod)
        if component == Component.BOOKIE:
            return await self._bookie(pod)
        if component in (Component.BROKER, Component.STANDALONE):
            return await self._broker(pod, component)
        return True

    async def _store(self, pod: Json) -> bool:
        workload = pod["metadata"]["name"].rpartition("-")[0]
        namespace = pod["metadata"]["namespace"]
        claim = await self._backstage.live(PVCS, namespace, f"{_first_volume(pod)}-{workload}-0")
        if claim is None:
            return False
        uid = claim["metadata"]["uid"]
        self.stores.add(f"{workload}.{namespace}.svc.cluster.local:2181")
        if self._volumes.get(workload) != uid:
            if await self._founded(pod):
                return False
            if workload in self._volumes:
                await self.wipe(f"{workload}.{namespace}.svc.cluster.local:2181")
            self.formatted.append(workload)
            self._volumes[workload] = uid
        return True

    async def _founded(self, pod: Json) -> bool:
        """What the pod's ZOO_FOUNDED says when its container starts."""
        variable = next(e for e in pod["spec"]["containers"][0]["env"] if e["name"] == "ZOO_FOUNDED")
        reference = variable["valueFrom"]["configMapKeyRef"]
        record = await self._backstage.live(CONFIG_MAPS, pod["metadata"]["namespace"], reference["name"])
        return record is not None and (record.get("data") or {}).get(reference["key"]) == "true"

    async def server_state(self, server: str) -> ServerState:
        """What a server of a managed ensemble says: the first that is ready leads, and all others follow it.

        Raises UnavailableError for one that is not ready.
        """
        name, workload = server.partition(".")[0], server.partition(".")[0].rpartition("-")[0]
        ready = sorted(
            pod["metadata"]["name"]
            for pod in await self._backstage.all(PODS)
            if pod["metadata"]["name"].rpartition("-")[0] == workload and _is_ready(pod)
        )
        if name not in ready:
            raise UnavailableError(f"ZooKeeper server {server} does not answer")
        if self.majority.get(workload, 1) == 1:
            return ServerState("standalone", 1)
        leads = name == ready[0]
        return ServerState("leader" if leads else "follower", 1, len(ready) - 1 if leads else None)

    async def tree(self, servers: str) -> dict[str, str]:
        """Content of an ensemble by path."""
        found: dict[str, str] = {}
        await _read_below(await self._zookeeper.session(servers), "/", found)
        return dict(sorted(found.items()))

    async def wipe(self, servers: str) -> None:
        """Lose everything in an ensemble; Pulsar's own view of it goes too."""
        await _remove_below(await self._zookeeper.session(servers), "/")
        fresh = FakePulsar(clusters=[])
        for name in vars(fresh):
            setattr(self._pulsar, name, getattr(fresh, name))

    async def _bookie(self, pod: Json) -> bool:
        if not self._knows_its_rack(pod):
            return False
        config = await self._config(pod)
        session = await self._session(_store_of(config["metadataServiceUri"]))
        found = await session.get("/ledgers/INSTANCEID")
        if found is None:
            return False
        instance_id = found.data.decode()
        meta, names = pod["metadata"], [v["name"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
        claims = [await self._backstage.live(PVCS, meta["namespace"], f"{name}-{meta['name']}") for name in names]
        said = [claim["metadata"].get("annotations") or {} for claim in claims if claim is not None]
        cookies, held = {each.get(COOKIE) for each in said}, {each[COOKIE_OF] for each in said if COOKIE_OF in each}
        bookie = held.pop() if held else await self._next_id(pod, session)
        if held or bookie is None:
            return False  # the start program ends (broker_image/pulsar_start/identity.py)
        there = await session.get(f"/ledgers/cookies/{bookie}")
        if cookies != ({instance_id} if there is not None else {None}):
            return False  # in every folder and in the store, or nowhere (class LegacyCookieValidation)
        if there is None:

            def change(obj: Json) -> None:
                obj["metadata"].setdefault("annotations", {}).update({COOKIE: instance_id, COOKIE_OF: bookie})

            for claim in claims:
                assert claim is not None
                await self._backstage.edit(PVCS, meta["namespace"], claim["metadata"]["name"], change)
            await session.create(f"/ledgers/cookies/{bookie}", f"instanceId: {instance_id}".encode())
        self.ids[pod["metadata"]["uid"]] = bookie
        racks = await session.get("/bookies") if _waits(pod) else None
        if _waits(pod) and (racks is None or bookie.encode() not in racks.data):
            self.unplaced.append(bookie)
        return True

    async def _next_id(self, pod: Json, session: ZooKeeperSession) -> str | None:
        """What the start program finds for empty volumes; None = the id was used, and its cookie is deleted."""
        first, node = bookie_of(pod), await session.get(RECORD_PATH)
        if node is None or not self.knows_incarnations:
            return first
        names = Names.of({"advertisedAddress": first.rpartition(":")[0]})
        assert names is not None
        count = parse_record(node.data, names.ordinal)
        found = names.id(count.number)
        used = count.seen >= count.number and await session.get(f"/ledgers/cookies/{found}") is None
        return None if used else found

    def _knows_its_rack(self, pod: Json) -> bool:
        """Whether the start program goes on: the file has the annotation's value, or the time is over."""
        uid = pod["metadata"]["uid"]
        if not _waits(pod) or (pod["metadata"].get("annotations") or {}).get(ANNOTATION_RACK):
            return True
        self.waited[uid] = self.waited.get(uid, 0) + 1
        return self.waited[uid] > LOOKS

    async def _broker(self, pod: Json, component: str) -> bool:
        if component == Component.STANDALONE:
            return True
        config = await self._config(pod)
        session = await self._session(config["configurationMetadataStoreUrl"])
        name = config["clusterName"]
        if await session.get(f"/admin/clusters/{name}") is None:
            return False
        if name not in self._pulsar.clusters:
            self._pulsar.clusters.append(name)
        return True

    async def _session(self, url: str) -> ZooKeeperSession:
        servers, slash, chroot = url.removeprefix("zk:").partition("/")
        return await self._zookeeper.session(servers, slash + chroot or None)

    async def _config(self, pod: Json, *, quiet: bool = False) -> dict[str, str]:
        """overrides.conf of a pod's ConfigMap; nothing, where that may be and it is gone."""
        name = next(v["configMap"]["name"] for v in pod["spec"]["volumes"] if "configMap" in v)
        found = await self._backstage.live(CONFIG_MAPS, pod["metadata"]["namespace"], name)
        if found is None and quiet:
            return {}
        assert found is not None
        lines = found["data"]["overrides.conf"].splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


def _waits(pod: Json) -> bool:
    """Whether a bookie waits for its rack."""
    env = pod["spec"]["containers"][0]["env"]
    return any(each["name"] == RACK_VARIABLE for each in env)


def bookie_of(pod: Json) -> str:
    """Id of the first incarnation of a bookie's pod; of another pod, its host and a port."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    return bookie_id(name.rpartition("-")[0], int(name.rpartition("-")[2]), namespace, "cluster.local")


def _store_of(uri: str) -> str:
    """A metadata service URI as a store's."""
    return uri.removeprefix("metadata-store:").replace(";", ",")


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _first_volume(pod: Json) -> str:
    return str(next(v["name"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v))


async def _read_below(session: ZooKeeperSession, path: str, found: dict[str, str]) -> None:
    for name in await session.children(path) or ():
        child = f"{path.rstrip('/')}/{name}"
        if child == "/zookeeper":
            continue
        node = await session.get(child)
        if node is not None:
            found[child] = node.data.decode(errors="replace")
        await _read_below(session, child, found)


async def _remove_below(session: ZooKeeperSession, path: str) -> None:
    for name in await session.children(path) or ():
        child = f"{path.rstrip('/')}/{name}"
        if child == "/zookeeper":
            continue
        await _remove_below(session, child)
        node = await session.get(child)
        if node is not None:
            await session.delete(child, version=node.version)


class GatedZooKeeper:
    """Sessions fail while an ensemble does not answer; one ensemble has one name, however it is written."""

    def __init__(
        self,
        inner: ZooKeeperPort,
        answers: Callable[[str], bool],
        states: Callable[[str], Awaitable[ServerState]] | None = None,
    ) -> None:
        """``states`` says what a server is; None = the port inside does."""
        self._inner, self._answers, self._states = inner, answers, states

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        """See ports.ZooKeeperPort."""
        if not self._answers(servers):
            raise UnavailableError(f"no ZooKeeper server of {servers} accepted a session")
        return await self._inner.session(canonical_servers(servers), chroot)

    async def server_state(self, server: str) -> ServerState:
        """See ports.ZooKeeperPort: one server answers for itself, whether or not its ensemble serves."""
        return await (self._states or self._inner.server_state)(server)

    async def close(self) -> None:
        """See ports.ZooKeeperPort."""
        await self._inner.close()


class GatedAdmin(Streaming):
    """Calls fail while no broker is ready."""

    def __init__(self, inner: PulsarAdminPort, answers: Callable[[AdminEndpoint], bool]) -> None:
        self._inner, self._answers = inner, answers

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        if not self._answers(endpoint):
            raise UnavailableError(f"connection refused by {endpoint.url}")
        return await self._inner.call(
            endpoint,
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            deadline=deadline,
            text=text,
        )
