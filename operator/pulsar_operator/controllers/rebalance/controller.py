"""PulsarRebalance: compute a proposal, show it, execute it step by step once approved, measure the result.

The state of an object is in its conditions, in the ConfigMap with the steps of its proposal, and in Pulsar. So a pass
can be stopped anywhere, and another process continues. Pulsar's own balancer is off while steps are executed: the
cluster controller disables it (dataplane/balancing/load_balancer.py), and the status of the cluster names the object
for which it is off.
"""

from __future__ import annotations

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.rebalance import PulsarRebalanceStatus
from pulsar_operator.balance.execution.custom_resource import NOT_SHOWN, Command, command_of, is_own, refused_approval
from pulsar_operator.balance.execution.drain import DRAIN, brokers_change, purpose_of
from pulsar_operator.balance.planner import plan as planner
from pulsar_operator.controllers.core.clusters import published_endpoint
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.core.reconcile import ObjectReconciler
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.core.references import resolve
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.controllers.rebalance import execution, proposal
from pulsar_operator.controllers.rebalance.rebalance_pass import FOR_ANOTHER, LIFE, RETRY_SECONDS, RebalancePass, Tools
from pulsar_operator.domain.conditions import UNKNOWN, ConditionSet, parse_time, seconds_since
from pulsar_operator.domain.stored import parsed, unreadable
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import CUSTOM, AccessError, Deps, ForbiddenError, Json, Key, PortError


class RebalanceController(ObjectReconciler[RebalancePass]):
    """Reconciles PulsarRebalances. Proposals: proposal.py; steps: execution.py."""

    kind = Kind.REBALANCE
    known = (ConditionType.READY, ConditionType.ACCEPTED, *LIFE)
    context = RebalancePass

    def __init__(self, deps: Deps, tools: Tools | None = None) -> None:
        """``tools`` defaults to the planner of ``balance``."""
        super().__init__(deps)
        self._tools = tools or Tools(deps, planner.plan, planner.balance_of)

    def forget(self, key: Key) -> None:
        """See ObjectReconciler."""
        self._tools.forget(f"{key.namespace}/{key.name}")

    def begin(self, obj: Json) -> RebalancePass:
        """See ObjectReconciler."""
        stored = obj.get("status") or {}
        if not unreadable(PulsarRebalanceStatus, stored):
            return super().begin(obj)
        # A part of what was under way is no plan to continue with, and what was done once is not done again unasked.
        state = super().begin({**obj, "status": {}})
        state.set(replaced_proposal=NOT_SHOWN)  # one may have been shown before
        if not is_own(obj) or _stopped_by_user(stored):
            state.set(approval_required=True)
        return state

    async def run(self, state: RebalancePass, /) -> Outcome | None:
        """Runs the pass; see ObjectReconciler. For an object that is being deleted, the cluster controller restores
        Pulsar's balancer."""
        return None if state.meta.deleting else await super().run(state)

    async def refuse(self, state: RebalancePass, /) -> Outcome | None:
        """See ObjectReconciler. What was done and what is under way stays in the status, until a version accepts the
        specification or a person edits it. After an edit a new proposal is due, except to an execution."""
        status, executing = state.status, state.was(ConditionType.EXECUTING)
        if executing:
            execution.hold(state)
        if executing or status.observed_generation == state.meta.generation:
            state.carry(*LIFE)
            return await super().refuse(state)
        shown = status.proposal if state.was(ConditionType.PROPOSAL_READY) else None
        replaced = shown.id if shown is not None else status.replaced_proposal
        state.status = PulsarRebalanceStatus(approval_required=status.approval_required, replaced_proposal=replaced)
        return await super().refuse(state)

    async def converge(self, state: RebalancePass, /) -> Outcome:
        """Runs the pass. An error of Pulsar or Kubernetes is reported, and the pass is retried."""
        try:
            obstacle = await self._find_cluster(state)
            if obstacle is not None:
                reason, text = obstacle
                state.conditions.set(ConditionType.ACCEPTED, False, reason, text)
                state.carry(*LIFE)
                _obstructed(state, reason, text)
                outcome = Outcome(requeue_after=RETRY_SECONDS)
            else:
                state.conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is valid")
                outcome = await self._decide(state)
        except PortError as error:
            state.carry(*LIFE)
            state.conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is valid")
            if isinstance(error, ForbiddenError | AccessError):
                state.conditions.set(ConditionType.READY, UNKNOWN, *reason_of(error))
            else:
                state.conditions.set(ConditionType.READY, False, Reason.ADMIN_UNREACHABLE, str(error)[:2000])
            outcome = Outcome(backoff=True)
        if state.conditions.explained(ConditionType.READY) is None:
            _summarize(state.conditions)
        if state.spec.repeat_seconds is not None:
            state.conditions.heals = frozenset({Reason.PLAN_INVALIDATED})  # there will be another proposal
        return outcome

    async def _find_cluster(self, state: RebalancePass) -> tuple[Reason, str] | None:
        """Looks up the cluster. Returns why it cannot be balanced; None if it can."""
        found = await resolve(self.deps, Kind.CLUSTER, state.spec.cluster_ref, from_namespace=state.meta.namespace)
        if not found.found:
            return Reason.REFERENCE_NOT_FOUND, f"{found.text}, which spec.clusterRef names, does not exist. Create it"
        if found.obj is None:
            return (
                Reason.REFERENCE_NOT_ALLOWED,
                f"{found.text} does not allow references from Kubernetes namespace {state.meta.namespace}. Add "
                "the namespace to its spec.allowedKubernetesNamespaces",
            )
        # What the cluster says of its balancer must not be an old copy.
        meta = found.obj["metadata"]
        state.cluster = await self.deps.kube.get(CUSTOM[Kind.CLUSTER], meta["namespace"], meta["name"]) or found.obj
        self._tools.clusters[state.name] = state.cluster_name
        state.of_cluster = parsed(PulsarClusterStatus, state.cluster.get("status"))
        if (state.cluster.get("spec") or {}).get("mode") == "Standalone":
            return Reason.NOT_SUPPORTED, (
                f"{found.text} is in mode Standalone, and the load of a single broker cannot be balanced"
            )
        endpoint = published_endpoint(state.cluster)
        if endpoint is None or state.of_cluster.broker is None or not state.of_cluster.broker.ready:
            return Reason.WAITING_FOR_BROKERS, f"{found.text} has no ready broker. See its condition BrokersReady"
        state.traffic = Traffic(self.deps, endpoint)
        return None

    async def _decide(self, state: RebalancePass) -> Outcome:
        """Continues at the state that the conditions show."""
        try:
            command = command_of(state.command)
        except ValueError as error:
            await state.actor.warn(Reason.INVALID_SPEC, str(error))
            command, state.done_command = None, True
        state.command, state.approves = (command.word, command.proposal) if command is not None else (None, "")
        if state.was(ConditionType.EXECUTING):
            return await execution.continue_execution(self._tools, state)
        if brokers_change(state.cluster) and purpose_of(state.obj, state.cluster) != DRAIN:
            return self._wait_for_brokers(state)
        changed = state.status.observed_generation != state.meta.generation
        if state.command == "refresh" or (changed and state.status.proposal is not None):
            state.done_command = True
            state.set(failed_executions=None)  # any caller that asks has seen to it
            return await proposal.propose(self._tools, state, why=Reason.REFRESHED)
        progress = state.status.progress
        ended = state.was(ConditionType.COMPLETED) or state.was(ConditionType.STOPPED)
        if progress is not None and progress.finished_time and not ended:
            return await execution.measure(self._tools, state)
        if state.was(ConditionType.PROPOSAL_READY) and state.pulsar_balances is None:
            return await self._waiting(state)
        if ended:
            return await self._ended(state)
        if state.command == "approve":
            # Kept until there is a proposal, it would approve one that was not observed.
            await state.actor.warn(
                Reason.NO_DATA, "There is no proposal to approve. Review the next proposal and approve it"
            )
            state.done_command = True
        return await proposal.propose(self._tools, state)

    def _wait_for_brokers(self, state: RebalancePass) -> Outcome:
        """Waits while brokers are replaced or removed, since a plan made now would soon be outdated."""
        text = "The rebalance waits while brokers are being replaced or removed. See status.rollout of the cluster"
        state.carry(*LIFE)
        state.conditions.set(ConditionType.READY, False, Reason.BROKERS_CHANGING, text)
        return Outcome(requeue_after=RETRY_SECONDS)

    async def _waiting(self, state: RebalancePass) -> Outcome:
        """Handles a proposal that waits for approval or for its expiry."""

        computed = parse_time(state.status.proposal.computed_time if state.status.proposal else None)
        left = state.spec.expire_seconds - seconds_since(computed, state.now) if computed else 0.0
        if state.command == "stop":
            state.done_command = True
            return execution.stopped(
                self._tools,
                state,
                Reason.STOPPED_BY_USER,
                f"The proposal was stopped before its execution began. {sentence(FOR_ANOTHER)}",
            )
        if left <= 0:
            if state.command == "approve":
                await state.actor.warn(
                    Reason.EXPIRED, "The approved proposal had expired. Review the new proposal and approve it"
                )
                state.done_command = True
            return await proposal.propose(self._tools, state, why=Reason.EXPIRED)
        if state.command == "approve" and state.status.proposal is not None:
            command, ident = Command("approve", state.approves), state.status.proposal.id
            how = proposal.approval(state)
            if refusal := refused_approval(command, ident, state.status.replaced_proposal, how):
                await state.actor.warn(Reason.APPROVAL_REFUSED, refusal)
                state.command, state.done_command = None, True
        if state.command == "approve" or state.approved_by_spec:
            state.done_command = state.command == "approve"
            if state.actor.act:
                return await execution.begin(self._tools, state)
        state.carry(ConditionType.PROPOSAL_READY)
        proposal.waiting_conditions(state)
        return Outcome(requeue_after=left)

    async def _ended(self, state: RebalancePass) -> Outcome:
        """Handles a completed or stopped object, which waits for a request or for the next evaluation."""

        state.carry(*LIFE)
        if state.command in {"stop", "approve"}:
            state.done_command = True  # there is nothing to approve or stop
        by_user = any(
            c.type == ConditionType.STOPPED and c.reason == Reason.STOPPED_BY_USER for c in state.before.conditions
        )
        over = state.was(ConditionType.COMPLETED) and not proposal.standing(state.spec)
        if state.spec.repeat_seconds is None or by_user or over:
            return DONE
        last = parse_time(
            (state.status.progress.finished_time if state.status.progress else None)
            or (state.status.proposal.computed_time if state.status.proposal else None)
        )
        left = state.spec.repeat_seconds - seconds_since(last, state.now) if last else 0.0
        return Outcome(requeue_after=left) if left > 0 else await proposal.propose(self._tools, state)


def _stopped_by_user(stored: Json) -> bool:
    """Whether a partially readable status says that a person stopped the rebalance."""
    kept = parsed(PulsarRebalanceStatus, stored).condition(ConditionType.STOPPED)
    return kept is not None and (kept.status, kept.reason) == (ConditionStatus.TRUE, Reason.STOPPED_BY_USER)


def _obstructed(state: RebalancePass, reason: Reason, text: str) -> None:
    """Reports that the cluster cannot be balanced now. A completed or stopped object keeps its state. A running
    execution holds the balancer only for a limited time."""
    if state.was(ConditionType.EXECUTING):
        execution.blocked(state)
    over = state.was(ConditionType.COMPLETED) or state.was(ConditionType.STOPPED)
    if not over or proposal.standing(state.spec):
        state.conditions.set(ConditionType.READY, False, reason, text)


def _summarize(conditions: ConditionSet) -> None:
    """Sets Ready from the other conditions."""
    for kind in (ConditionType.COMPLETED, ConditionType.STOPPED, ConditionType.EXECUTING, ConditionType.PROPOSAL_READY):
        found = conditions.explained(kind)
        if found is not None and found[0].value == "True":
            conditions.set(ConditionType.READY, kind is ConditionType.COMPLETED, found[1], found[2])
            return
    conditions.summarize(ConditionType.ACCEPTED, ConditionType.PROPOSAL_READY, ready_message="")
