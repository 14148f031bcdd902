"""The operator's process between a proxy before a real API server and one before an admin REST, and what must hold.

A case is a tenant with a namespace with a topic, all of one name, made and removed while one request that names it, or
one that names nobody, is disturbed. Cases of their own names run beside each other.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from pulsar_operator.ports import Json
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.support.cluster.end_state import differences
from tests.support.faults.http import CASE, AdminProxy, KubeProxy, Request, Wire, serving
from tests.support.faults.wire_cases import ADMIN, CREATE, DELETE, FAULTS, KUBERNETES, Case, common
from tests.support.faults.wire_chains import EVENTUALLY_SECONDS, Chains
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.operator import OperatorProcess

MODULE = "tests.support.processes.logical_operator"
RESYNC_SECONDS = 3
REACHED_SECONDS = 4.0
"""How long a fault may wait for a request once the operator is done: a little more than a resync."""
CALM = 4
"""Undisturbed runs; what only some of them asked is no place."""
BYSTANDER = "case0"


@dataclass
class Site(Chains):
    """The operator and everything around it."""

    wires: dict[str, Wire] = field(default_factory=dict)
    numbers: int = 0
    calm: Json = field(default_factory=dict)
    own: dict[tuple[str, str], list[Request]] = field(default_factory=dict)
    """Requests of the undisturbed run that name its case, by side and phase."""
    shared: dict[tuple[str, str], list[Request]] = field(default_factory=dict)
    """Different requests of it that name nobody."""

    def cases(self) -> list[Case]:
        """Every fault at every request the undisturbed run made."""
        out = []
        for (side, phase), own in self.own.items():
            for fault in FAULTS[side]:
                seen: Counter[str] = Counter()
                for request in own:
                    if request.fits(fault):
                        out.append(Case(side, phase, fault, seen[request.words], request.words))
                        seen[request.words] += 1
                out += [
                    Case(side, phase, fault, 0, request.words, shared=True)
                    for request in self.shared[(side, phase)]
                    if request.fits(fault)
                ]
        return out

    def _name(self) -> str:
        self.numbers += 1
        return f"case{self.numbers:05}"

    async def undisturbed(self) -> None:
        """Make and remove some chains beside each other, and note what the operator asks on the way for each."""
        names = [self._name() for _ in range(CALM)]
        for phase in (CREATE, DELETE):
            begun = {side: {key: len(seen) for key, seen in wire.seen.items()} for side, wire in self.wires.items()}
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self._phase(phase, name))
            for side, wire in self.wires.items():
                self.own[(side, phase)] = common([wire.seen[name][begun[side].get(name, 0) :] for name in names])
            await asyncio.sleep(REACHED_SECONDS)  # for what a resync asks
            if phase == CREATE:
                await self.fresh()
                self.calm = self.state(names[0])
            for side, wire in self.wires.items():
                keys = [key for key, seen in wire.seen.items() if len(seen) > begun[side].get(key, 0)]
                firsts = [wire.seen[key][0] for key in sorted(keys)]
                self.shared[(side, phase)] = [request for request in firsts if request.words == request.key]

    async def play(self, case: Case) -> tuple[list[str], bool]:
        """Make and remove a chain with one fault; what is otherwise than undisturbed, and whether the fault came."""
        name, wire = self._name(), self.wires[case.side]
        key = case.words if case.shared else name
        wrong: list[str] = []
        came = False
        try:
            for phase in (CREATE, DELETE):
                begun, marks = time.monotonic(), {side: len(each.seen[name]) for side, each in self.wires.items()}
                words = case.words if case.shared else CASE.sub(name, case.words)
                armed = wire.arm(key, case.fault, words, case.after) if case.phase == phase else None
                await self._phase(phase, name)
                if armed is not None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(armed.came.wait(), REACHED_SECONDS)
                    wire.calm(key)
                    came = armed.came.is_set()
                    # What was given up still arrives, and before the user goes on: what somebody asks of Pulsar after
                    # the deletion is nothing the operator could know of.
                    await self.until(lambda: not self._busy(name), f"requests of {name} to end")
                    await self._phase_again(phase, name)
                wrong += await self._settled(name) if phase == CREATE else self._left(name)
                wrong += self._hot(phase, name, marks, time.monotonic() - begun)
        except AssertionError as error:
            wrong.append(str(error))
            self.operator.assert_runs()
        finally:
            wire.calm(key)
        if not self.ready(BYSTANDER) or BYSTANDER not in self.pulsar.tenants:
            wrong.append("another object was harmed")
        return wrong, came

    def _busy(self, name: str) -> bool:
        return any(wire.busy[name] for wire in self.wires.values())

    async def _phase(self, phase: str, name: str) -> None:
        if phase == CREATE:
            await self.declare(name)
        else:
            await self.delete(name)
        await self._phase_again(phase, name)

    async def _phase_again(self, phase: str, name: str) -> None:
        """What came at a resync may have changed what was seen before."""
        check = self.ready if phase == CREATE else self.gone
        await self.until(lambda: check(name), f"{name} after {phase}")

    async def _settled(self, name: str) -> list[str]:
        """Differences that do not go away by themselves. No eventually: a case that differs is told of, not raised."""
        deadline = time.monotonic() + 3 * RESYNC_SECONDS
        while (found := differences(self.calm, self.state(name))) and time.monotonic() < deadline:
            await self.fresh()
        return found

    def _left(self, name: str) -> list[str]:
        left = self.in_pulsar(name)
        return [f"left in Pulsar: {left}"] if left else []

    def _hot(self, phase: str, name: str, marks: dict[str, int], seconds: float) -> list[str]:
        """More requests than a loop that backs off can make: some a second for the resyncs, and a few passes more."""
        out = []
        for side, wire in self.wires.items():
            asked = len(wire.seen[name]) - marks[side]
            if asked > 4 * len(self.own[(side, phase)]) + 60 + 40 * seconds:
                out.append(f"hot loop: {asked} requests to {side} in {seconds:.1f} s of {phase}")
        return out


@asynccontextmanager
async def operating(apiserver: ApiServer, namespace: str, folder: Path) -> AsyncIterator[Site]:
    """The operator between its proxies, a bystander that must stay, and the undisturbed run played."""
    pulsar = FakePulsar(clusters=["a"])
    kube = KubeProxy(apiserver.url, ssl.create_default_context(cafile=str(apiserver.ca_file)))
    async with serve(pulsar, "a") as (upstream, _):
        admin = AdminProxy(upstream)
        async with serving(kube.handle) as kube_url, serving(admin.handle) as admin_url:
            config = yaml.safe_load(apiserver.kubeconfig.read_text(encoding="utf-8"))
            config["clusters"][0]["cluster"] = {"server": kube_url}
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
            operator = OperatorProcess(
                folder / "operator.log", kubeconfig, namespace, module=MODULE, resync_seconds=RESYNC_SECONDS
            )
            wires = {KUBERNETES: kube.wire, ADMIN: admin.wire}
            site = Site(apiserver, namespace, pulsar, operator, wires=wires)
            looking = asyncio.create_task(site.look())
            try:
                await site.surroundings(admin_url)
                await asyncio.to_thread(operator.ready, within=EVENTUALLY_SECONDS)
                await site.declare(BYSTANDER)
                await site.until(lambda: site.ready(BYSTANDER), "the bystander")
                await site.undisturbed()
                yield site
            finally:
                looking.cancel()
                await asyncio.to_thread(operator.kill)
                await kube.client.close()
                await admin.client.close()
