"""One pass over a PulsarRebalance: its facts and decisions. Shared by the modules of this package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pulsar_operator.api.constants import ANNOTATION_REBALANCE, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.rebalance import ProgressStatus, PulsarRebalanceSpec, PulsarRebalanceStatus
from pulsar_operator.balance.execution.custom_resource import APPROVE, NOT_SHOWN, is_standing, summary
from pulsar_operator.balance.execution.driver import Decision, Memory, believed, decide
from pulsar_operator.balance.execution.partial import Silence
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.model.names import shortened
from pulsar_operator.balance.model.observation import Usage
from pulsar_operator.balance.planner.brokers import broker_loads, sums_of
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.proposal import Balance, BrokerLoad, Proposal
from pulsar_operator.controllers.core.reconcile import Context
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.domain.conditions import UNKNOWN, reason_named, seconds_since
from pulsar_operator.ports import CUSTOM, Deps, Json

LIFE = (
    ConditionType.PROPOSAL_READY,
    ConditionType.APPROVED,
    ConditionType.EXECUTING,
    ConditionType.COMPLETED,
    ConditionType.STOPPED,
)
"""Conditions that show the progress of a proposal."""
FOR_ANOTHER = f"for a new proposal, set {ANNOTATION_REBALANCE}=refresh"
WEIGHTS_SECONDS = 86400.0
"""Maximum seconds for which the weight of a moved bundle is kept. Tools.carried discards it earlier if this process
plans for the cluster."""
RETRY_SECONDS = 15.0
"""Seconds until missing facts are requested again."""


class Planner(Protocol):
    """The function balance.planner.plan, or a stand-in for a test of the controller alone."""

    def __call__(self, model: ClusterModel, options: Options) -> Proposal:
        """Returns a proposal for one observed state."""


@dataclass(frozen=True)
class Tools:
    """The planner, and the in-memory state that passes share."""

    deps: Deps
    plan: Planner
    balance_of: Callable[[ClusterModel], Balance]
    memories: dict[str, Memory] = field(default_factory=dict)
    """What standing rebalances observed and did, by their UID. It is lost with the process, which slows them down
    once."""

    uids: dict[str, str] = field(default_factory=dict)
    """UIDs of the rebalances with a memory, by namespace/name."""

    silences: dict[str, Silence] = field(default_factory=dict)
    """What is known of brokers that do not answer, by UID of the standing rebalance."""

    weights: dict[str, dict[BundleId, tuple[datetime, float]]] = field(default_factory=dict)
    """Moved bundles by cluster, with the time and their weight. Lost with the process: the next plan is then based on
    what the brokers count by then."""

    unloads: dict[str, float] = field(default_factory=dict)
    """Average seconds that the last moves took, by cluster. Lost with the process, but a status has it too."""

    clusters: dict[str, str] = field(default_factory=dict)
    """The cluster of each existing rebalance, by namespace/name."""

    asked: dict[str, datetime] = field(default_factory=dict)
    """When Pulsar was last asked for the current step, by namespace/name. Lost with the process: the step is then
    requested once more than necessary."""

    def remember(self, name: str, uid: str, memory: Memory) -> None:
        """Stores the memory of a standing rebalance, and forgets a deleted one of the same name."""
        if self.uids.get(name, uid) != uid:
            self.forget(name)
        self.uids[name] = uid
        self.memories[uid] = memory

    def forget(self, name: str) -> None:
        """Forgets a deleted rebalance. The duration of moves is forgotten with the last rebalance of its cluster.
        Recently moved bundles still count for the next plan."""
        self.asked.pop(name, None)
        cluster = self.clusters.pop(name, None)
        if cluster is not None and cluster not in self.clusters.values():
            self.unloads.pop(cluster, None)
        self._forget_weights(self.deps.clock.now())
        if (uid := self.uids.pop(name, None)) is not None:
            self.memories.pop(uid, None)
            self.silences.pop(uid, None)

    def moved(self, cluster: str, bundle: BundleId, weight: float, now: datetime) -> None:
        """Records the weight of a moved bundle: its new broker counts no traffic until its next statistics."""
        self._forget_weights(now)
        self.weights.setdefault(cluster, {})[bundle] = (now, weight)

    def _forget_weights(self, now: datetime) -> None:
        """Forgets the weights of old moves, in clusters that may no longer exist."""
        for cluster, known in list(self.weights.items()):
            for bundle in [each for each, (when, _) in known.items() if seconds_since(when, now) > WEIGHTS_SECONDS]:
                del known[bundle]
            if not known:
                del self.weights[cluster]

    def carried(self, cluster: str, now: datetime, period: float) -> dict[BundleId, float]:
        """Returns the weights of bundles that moved too recently to be in the statistics, which are updated every
        ``period`` s."""
        known, late = self.weights.get(cluster, {}), 2 * period + 30
        for bundle in [each for each, (when, _) in known.items() if seconds_since(when, now) > late]:
            del known[bundle]
        return {bundle: weight for bundle, (_, weight) in known.items()}

    async def propose(self, model: ClusterModel, options: Options) -> Proposal:
        """Runs the planner in a thread, since it may take seconds. Returns its proposal."""
        return await asyncio.to_thread(self.plan, model, options)

    async def measured(self, model: ClusterModel, memory: Memory | None) -> tuple[Balance, tuple[BrokerLoad, ...]]:
        """Returns the balance of a placement, and the load of each broker, with what a standing rebalance learned. It
        is computed in a thread."""

        def measure() -> tuple[Balance, tuple[BrokerLoad, ...]]:
            known = model if memory is None else believed(model, {}, memory.learned)
            balance = self.balance_of(known)
            sums = sums_of(known)
            return balance, broker_loads(known, sums, sums, balance.mean)

        return await asyncio.to_thread(measure)

    async def decide(
        self,
        memory: Memory,
        now: float,
        model: ClusterModel,
        question: Options,
        options: SteadyOptions,
        usages: Mapping[str, Usage],
    ) -> tuple[Decision, Memory]:
        """Returns the decision of the standing balancer and its new memory. It is computed in a thread."""
        return await asyncio.to_thread(decide, memory, now, model, question, options, self.plan, usages)


@dataclass
class RebalancePass(Context[PulsarRebalanceSpec, PulsarRebalanceStatus]):
    """The state of one pass."""

    status: PulsarRebalanceStatus = field(init=False)
    """The stored status, updated during the pass."""
    command: str | None = field(init=False)
    """approve, refresh or stop."""
    approves: str = ""
    """Id of the proposal that the command approves; empty if it names none."""
    cluster: Json = field(default_factory=dict)
    of_cluster: PulsarClusterStatus = field(default_factory=PulsarClusterStatus)
    """The status of the cluster."""
    traffic: Traffic | None = None
    done_command: bool = False
    undecided: str = ""
    """Message about namespaces that the planner left unchanged because too little is known of them; empty if there are
    none."""

    def __post_init__(self) -> None:
        self.status, self.command = self.before, self.meta.annotations.get(ANNOTATION_REBALANCE)

    @property
    def now(self) -> datetime:
        """Returns when the pass began."""
        return self.conditions.now

    def was(self, kind: ConditionType) -> bool:
        """Whether a condition was True when the pass began."""
        found = self.before.condition(kind)
        return found is not None and found.status is ConditionStatus.TRUE

    @property
    def cluster_name(self) -> str:
        """Returns the key of the cluster for the in-memory state. It contains the UID, since a new cluster may have the
        same name."""
        meta = self.cluster["metadata"]
        return f"{meta['namespace']}/{meta['name']}/{meta['uid']}"

    @property
    def name(self) -> str:
        """Returns namespace/name. The status of the cluster names the object that may execute in this form."""
        return f"{self.meta.namespace}/{self.meta.name}"

    @property
    def pulsar_balances(self) -> str | None:
        """Returns the time at which Pulsar began to balance instead of this standing object; None if it does not, or if
        this object is not the standing one."""
        handover = self.of_cluster.handover
        return handover.restored_time if handover is not None and is_standing(self.obj, self.cluster) else None

    @property
    def approved_by_spec(self) -> bool:
        """Whether a proposal is executed without the approval of a person."""
        return self.spec.auto_approve and not self.status.approval_required

    def set(self, **fields: Any) -> None:
        """Changes fields of the status."""
        self.status = self.status.model_copy(update=fields)

    def progress(self, **fields: Any) -> None:
        """Changes fields of the progress."""
        progress = (self.status.progress or ProgressStatus()).model_copy(update=fields)
        self.set(progress=progress.model_copy(update={"summary": f"{progress.done}/{progress.total}"}))

    def carry(self, *kinds: ConditionType) -> None:
        """Keeps conditions as they are stored."""
        for each in self.before.conditions:
            if each.type in kinds:
                known = each.status is not ConditionStatus.UNKNOWN
                status = each.status is ConditionStatus.TRUE if known else UNKNOWN
                self.conditions.set(ConditionType(each.type), status, reason_named(each.reason), each.message)

    def flags(
        self, *, approved: bool, executing: bool, completed: bool, stopped: bool, reason: Reason, text: str
    ) -> None:
        """Sets the four conditions of the life of a proposal, all with the same reason and message."""
        values = {
            ConditionType.APPROVED: approved,
            ConditionType.EXECUTING: executing,
            ConditionType.COMPLETED: completed,
            ConditionType.STOPPED: stopped,
        }
        for kind, value in values.items():
            self.conditions.set(kind, value, reason, text)

    def new_status(self) -> PulsarRebalanceStatus:
        """See Context."""
        proposal = self.status.proposal
        before, after = (proposal.before, proposal.after) if proposal is not None else (None, None)
        return self.status.model_copy(
            update={
                "observed_generation": self.meta.generation,
                "conditions": [
                    each.model_copy(update={"message": shortened(each.message)}) for each in self.conditions.result()
                ],
                "pending_actions": self.actor.pending or None,
                "summary": summary(before, after, self.status.measured),
            }
        )

    async def write(self) -> None:
        """Writes the status, then removes a completed command from the object; see Context.

        An approval without an id that is there before the first status with a proposal is not for that proposal, which
        the status says: the pass may end before the command is removed.
        """
        new = self.conditions.is_true(ConditionType.PROPOSAL_READY) and self.status.proposal != self.before.proposal
        if new and self.status.replaced_proposal is None and _command_in(await self._read_again()) == APPROVE:
            self.set(replaced_proposal=NOT_SHOWN)
        await super().write()
        if not self.done_command or not self.actor.act:
            return
        fresh = await self._read_again()
        if fresh is None or (asked := _command_in(fresh)) is None:
            return
        if asked == self.meta.annotations.get(ANNOTATION_REBALANCE):  # else another one came
            pointer = ANNOTATION_REBALANCE.replace("~", "~0").replace("/", "~1")
            await self.deps.kube.remove_entries(fresh, [f"/metadata/annotations/{pointer}"])

    async def _read_again(self) -> Json | None:
        """Returns the object as it is now; None if it does not exist any more."""
        fresh = await self.deps.kube.get(CUSTOM[Kind.REBALANCE], self.meta.namespace, self.meta.name)
        return fresh if fresh is not None and fresh["metadata"]["uid"] == self.meta.uid else None


def _command_in(obj: Json | None) -> str | None:
    """Returns the text of the annotation with the command; None if there is none."""
    return ((obj or {}).get("metadata", {}).get("annotations") or {}).get(ANNOTATION_REBALANCE)
