"""Connects the components of the operator process and controls its life cycle. Called by main.py."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import signal
import time
import tomllib
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

import aiohttp

from pulsar_operator import __version__
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.bookie import HttpBookies
from pulsar_operator.adapters.clock import SystemClock, SystemEntropy
from pulsar_operator.adapters.counters import HttpCounters
from pulsar_operator.adapters.fence import fence_of
from pulsar_operator.adapters.health import Check, HealthServer
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.adapters.lease import KubeLeaseStore, Lease
from pulsar_operator.adapters.metrics import PrometheusMetrics
from pulsar_operator.adapters.reflector import Reflector, follow
from pulsar_operator.adapters.service_account_tokens import ServiceAccountTokens
from pulsar_operator.adapters.sizing import HttpSizing
from pulsar_operator.adapters.watch_monitor import WatchMonitor
from pulsar_operator.adapters.watch_requests import WatchClient, new_session
from pulsar_operator.api.constants import LEASE_NAME, Kind
from pulsar_operator.controllers.core.engine import Engine
from pulsar_operator.controllers.core.reconciler import Reconciler
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.dataplane.cluster.cluster_controller import ClusterController
from pulsar_operator.controllers.dataplane.instance.instance_controller import InstanceController
from pulsar_operator.controllers.logical.isolation_policy import IsolationPolicyController
from pulsar_operator.controllers.logical.namespace import NamespaceController
from pulsar_operator.controllers.logical.policy_changes import PolicyWatch
from pulsar_operator.controllers.logical.resource_group import ResourceGroupController
from pulsar_operator.controllers.logical.tenant import TenantController
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.controllers.rebalance.controller import RebalanceController
from pulsar_operator.controllers.topicset.controller import TopicSetController
from pulsar_operator.domain.dataplane.rollout.versions import Jumps
from pulsar_operator.domain.render import account_role
from pulsar_operator.domain.render.settings import KnownSettings
from pulsar_operator.domain.texts import quoted
from pulsar_operator.handlers import lifecycle
from pulsar_operator.handlers.streams import streams
from pulsar_operator.ports import CUSTOM, Deps, PortError
from pulsar_operator.release import release_balancers, release_finalizers, release_storage
from pulsar_operator.settings import Settings

log = logging.getLogger(__name__)

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
GRACE_SECONDS = 10.0
"""Seconds that running reconcile passes have to end when the process stops."""
UNWATCH_SECONDS = 10.0
"""Seconds that the watch streams have to end."""

GARBAGE_OBJECTS = 10_000
"""Number of new objects after which Python's garbage collector searches them for cycles. With the default of 700, and
without freezing the imported modules, the search takes 5 % of the CPU time of a bulk creation and finds almost
nothing."""

MakeReconcilers = Callable[[Deps], Mapping[Kind, Reconciler]]


def controllers(deps: Deps) -> Mapping[Kind, Reconciler]:
    """Returns the reconciler of every kind."""
    return {
        Kind.INSTANCE: InstanceController(deps),
        Kind.CLUSTER: ClusterController(deps),
        Kind.TENANT: TenantController(deps),
        Kind.NAMESPACE: NamespaceController(deps),
        Kind.TOPIC: TopicController(deps),
        Kind.RESOURCE_GROUP: ResourceGroupController(deps),
        Kind.ISOLATION_POLICY: IsolationPolicyController(deps),
        Kind.REBALANCE: RebalanceController(deps),
        Kind.TOPIC_SET: TopicSetController(deps),
    }


class Operator:
    """All components of one process, built with :meth:`build` inside the event loop and run once with :meth:`run`."""

    def __init__(self, settings: Settings, client: KubeClient, make_reconcilers: MakeReconcilers) -> None:
        """Connects the ports and the engine to each other. Opens no network connection."""
        self._settings = settings
        self._client = client
        clock = SystemClock()
        self.metrics = PrometheusMetrics(time.monotonic)
        self.lease = lease_of(settings, client)
        fence = fence_of(lambda: self.lease.is_leader)
        behind = client.fenced(fence)
        self._recorder = EventRecorder(behind, self.metrics, clock, reporter=settings.pod_name)
        self._kube = KubeAdapter(behind, self.metrics, self._recorder, namespaces=settings.watch_namespaces)
        self._zookeeper = KazooZooKeeper(fence=fence)
        self._admin = AiohttpAdmin(self.metrics, fence=fence, tokens=tokens_of(settings, client))
        deps = Deps(
            kube=self._kube,
            zookeeper=self._zookeeper,
            admin=self._admin,
            clock=clock,
            entropy=SystemEntropy(),
            metrics=self.metrics,
            bookies=HttpBookies(fence=fence),
            images=settings.images,
            sizing=HttpSizing(),
            counters=HttpCounters(clock),
            jumps=known_jumps(settings),
            settings=known_settings(),
            operator_role=account_role(settings.namespace, settings.service_account)
            if settings.service_account
            else "",
        )
        cache = WatchCache(DirectReader(deps))
        self.deps = replace(deps, reader=cache)
        self.engine = Engine(
            self.deps,
            make_reconcilers(self.deps),
            namespaces=settings.watch_namespaces,
            workers=settings.workers,
            resync_seconds=settings.resync_seconds,
            cache=cache,
            hints=PolicyWatch(self.deps),
        )
        self.metrics.count_objects(self.engine.tally)
        self.monitor = WatchMonitor(time.monotonic, self.metrics.event_received, self.metrics.watch_restarted)
        self.metrics.count_streams(self.monitor.states)
        self._phase: str | None = "starting"
        self.health = HealthServer(
            health_port=settings.health_port,
            metrics_port=settings.metrics_port,
            alive=[Check("watch", lambda: self.monitor.blind(settings.watch_silence_seconds))],
            ready=[
                Check("operator", lambda: self._phase),
                Check("first pass", self.engine.not_ready),
                Check("watch", self.monitor.problem),
            ],
            metrics=self.metrics.render,
        )

    @classmethod
    async def build(cls, settings: Settings, make_reconcilers: MakeReconcilers = controllers) -> Operator:
        """Returns an operator for the API server in the settings. Raises RuntimeError if there are no credentials."""
        operator = cls(settings, KubeClient(await load_configuration(settings.kubeconfig)), make_reconcilers)
        return operator

    async def run(self, stop: asyncio.Event) -> int:
        """Runs until ``stop`` is set (returns exit code 0), or until the Lease or a watch is lost (returns 1)."""
        log.info(
            "pulsar-operator %s is starting",
            __version__,
            extra={"namespaces": self._settings.watch_namespaces or "all"},
        )
        await self.health.start()
        self._recorder.start()
        try:
            if not await _unless(stop, self._lead()):
                return EXIT_OK
            try:
                return await self._work(stop)
            finally:
                await self.lease.release()
        finally:
            await self._close()

    async def _lead(self) -> None:
        """Acquires the Lease, then waits for the custom resource definitions."""

        def waiting(holder: str) -> None:
            self._phase = f"waiting for the Lease held by {holder}"

        self._phase = "waiting for the Lease"
        await self.lease.acquire(on_wait=waiting)
        log.info("became leader", extra={"holder": self.lease.holder})

    async def _definitions(self) -> None:
        """Waits until every custom resource definition is served. Before that, nothing can be listed or watched.

        Whether the objects can be listed is checked separately by the engine, for each kind and namespace.
        """
        for resource in CUSTOM.values():
            while True:
                try:
                    if await self._kube.installed(resource):
                        break
                    self._phase = (
                        f"waiting until the definition {resource.plural}.{resource.group} exists: install the CRDs"
                    )
                except PortError as error:
                    self._phase = f"the API server does not return which resources it serves: {quoted(str(error))}"
                log.warning("%s", self._phase)
                await asyncio.sleep(2.0)
        self._phase = None

    async def _work(self, stop: asyncio.Event) -> int:
        kept = asyncio.create_task(self.lease.keep(), name="lease")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        ready = asyncio.create_task(self._definitions(), name="definitions")
        working: list[asyncio.Task[None]] = []
        engine_stop, watch_stop = asyncio.Event(), asyncio.Event()
        try:
            await asyncio.wait([kept, stopped, ready], return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not kept.done() and not stopped.done():
                ready.result()
                working.append(asyncio.create_task(self.engine.run(engine_stop, grace=GRACE_SECONDS), name="engine"))
                # The engine's tasks exist before kopf starts: kopf cancels every later task of the loop when it ends.
                await asyncio.sleep(0)
                working.append(asyncio.create_task(self._watch(stop, watch_stop), name="watch"))
                await asyncio.wait([kept, stopped, *working], return_when=asyncio.FIRST_COMPLETED)
            return await self._finish(kept, stopped, working, engine_stop, watch_stop)
        finally:
            await _cancel(kept, stopped, ready, *working)

    async def _finish(
        self,
        kept: asyncio.Task[None],
        stopped: asyncio.Task[bool],
        working: list[asyncio.Task[None]],
        engine_stop: asyncio.Event,
        watch_stop: asyncio.Event,
    ) -> int:
        """Stops the engine, releases the Lease and ends the watches, in this order. Without the Lease, the engine ends
        immediately, even within a pass."""
        self._phase = "stopping"
        code = EXIT_OK
        # Neither the engine nor the watches end unasked: one that did may have left the process blind.
        failed = [task for task in working if task.done() and (not stopped.done() or _exception(task) is not None)]
        if kept.done():
            code = EXIT_FAILED
            for task in working[:1]:
                task.cancel()
        elif failed:
            code = EXIT_FAILED
            for task in failed:
                log.error("%s ended, so the operator stops", task.get_name(), exc_info=_exception(task))
        else:
            log.info("The operator is stopping. Running passes may end within %g s", GRACE_SECONDS)
        engine_stop.set()
        for task in working[:1]:
            await asyncio.wait([task])
        await self._recorder.close()  # nothing is written without the Lease
        # kept would take the release for a loss.
        await _cancel(kept)
        await self.lease.release()
        # kopf waits for every task that was created after it started, such as open connections to the probes.
        await self.health.close()
        watch_stop.set()
        for task in working[1:]:
            await asyncio.wait([task], timeout=UNWATCH_SECONDS)
        return code

    async def _watch(self, stop: asyncio.Event, watch_stop: asyncio.Event) -> None:
        configuration, silence = self._client.configuration, self._settings.watch_silence_seconds / 3
        namespaces = self._settings.watch_namespaces
        requests = WatchClient(configuration)
        reflectors = [
            Reflector(requests, each.resource, each.receiver, health, silence=silence, selector=each.selector)
            for each in streams(self.engine)
            for health in self.monitor.expect(each.resource, namespaces)
        ]

        async def session() -> tuple[str, aiohttp.ClientSession]:
            return str(configuration.host), await new_session(configuration)

        started = asyncio.Event()
        watching = asyncio.create_task(
            lifecycle.run(lambda: follow(reflectors), session, stop=watch_stop, started=started), name="life cycle"
        )
        starting = asyncio.create_task(started.wait(), name="start")
        try:
            await asyncio.wait([watching, starting], return_when=asyncio.FIRST_COMPLETED)
            # kopf takes the signals over when it starts; they are for the whole process.
            on_signals(stop)
            await watching
        finally:
            await _cancel(starting, watching)
            await requests.close()

    async def _close(self) -> None:
        await self.health.close()
        await self._recorder.close()
        await self._admin.close()
        await self._zookeeper.close()
        await self._client.close()


def known_jumps(settings: Settings) -> Jumps:
    """Returns the upgrade paths between versions of Pulsar: those tested with this operator, and those added by the
    settings."""
    matrix = resources.files("pulsar_operator") / "data" / "version_jumps.toml"
    return Jumps.parse(*tomllib.loads(matrix.read_text(encoding="utf-8"))["jumps"]) | settings.upgrade_paths


def known_settings() -> KnownSettings:
    """Returns the names of settings of the versions of Pulsar that this operator was tested with."""
    folder = resources.files("pulsar_operator") / "data" / "settings"
    files = {each.name.removesuffix(".json"): each for each in folder.iterdir() if each.name.endswith(".json")}
    return KnownSettings.parse({name: json.loads(each.read_text(encoding="utf-8")) for name, each in files.items()})


def tokens_of(settings: Settings, client: KubeClient) -> ServiceAccountTokens | None:
    """Returns the tokens of the operator's ServiceAccount; None if the settings name none."""
    if settings.service_account is None:
        return None
    return ServiceAccountTokens(client, SystemClock(), namespace=settings.namespace, name=settings.service_account)


def lease_of(settings: Settings, client: KubeClient) -> Lease:
    """Returns the Lease of this process. A random part distinguishes two processes in one pod or on one machine."""
    return Lease(
        KubeLeaseStore(client, settings.namespace, LEASE_NAME),
        SystemClock(),
        identity=f"{settings.pod_name}_{uuid.uuid4().hex[:8]}",
        seconds=settings.lease_seconds,
    )


def on_signals(stop: asyncio.Event) -> None:
    """Sets ``stop`` on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    # Only the main thread may; elsewhere (tests) the caller sets the event itself.
    with contextlib.suppress(ValueError, RuntimeError):
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)


async def operate(settings: Settings, *, make_reconcilers: MakeReconcilers = controllers) -> int:
    """Runs the operator until a signal and returns the exit code."""
    stop = asyncio.Event()
    on_signals(stop)
    operator = await Operator.build(settings, make_reconcilers)
    gc.collect()
    gc.freeze()  # what exists by now, a hundred thousand objects of modules, stays to the end
    gc.set_threshold(GARBAGE_OBJECTS)
    return await operator.run(stop)


async def release(settings: Settings, *, wait: float) -> int:
    """Acquires the Lease within ``wait`` seconds, restores what the operator changed and removes its finalizers.
    Returns the exit code."""
    client = KubeClient(await load_configuration(settings.kubeconfig))
    lease = lease_of(settings, client)
    metrics = PrometheusMetrics(time.monotonic)
    fence = fence_of(lambda: lease.is_leader)
    behind = client.fenced(fence)
    recorder = EventRecorder(behind, metrics, SystemClock(), reporter=settings.pod_name)
    kube = KubeAdapter(behind, metrics, recorder, namespaces=settings.watch_namespaces)
    admin = AiohttpAdmin(metrics, fence=fence, tokens=tokens_of(settings, client))
    zookeeper = KazooZooKeeper(fence=fence)
    kept: asyncio.Task[None] | None = None
    try:
        try:
            await lease.acquire(
                on_wait=lambda holder: print(f"waiting for the Lease held by {holder}", flush=True), deadline=wait
            )
        except TimeoutError:
            raise RuntimeError(
                f"The Lease {settings.namespace}/{LEASE_NAME} has been held by "
                f"{lease.holder or 'an unknown process'} for more than {wait:g} s. Stop that operator first "
                "(scale its Deployment to 0)"
            ) from None
        kept = asyncio.create_task(lease.keep(), name="lease")
        await release_balancers(kube, admin, lambda line: print(line, flush=True))
        await release_storage(kube, zookeeper, HttpBookies(fence=fence), lambda line: print(line, flush=True))
        failed = await release_finalizers(kube, lambda line: print(line, flush=True))
        return EXIT_FAILED if failed else EXIT_OK
    finally:
        await admin.close()
        await zookeeper.close()
        if kept is not None:
            await _cancel(kept)  # it would take the release for a loss
        await lease.release()
        await client.close()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Runs the work unless ``stop`` is set first. Returns whether the work completed."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return task.done()
    finally:
        await _cancel(task, stopped)


def _exception(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancels the tasks and waits for them. Their exceptions are ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
