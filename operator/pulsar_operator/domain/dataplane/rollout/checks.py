"""When a pod may be replaced: an ordered list of checks, each of which may block it. Pure.

A pod that is ready is only ever replaced while every other pod of its component, and every pod of the components it
depends on, is ready. Each check has the urgency up to which it applies: a pod that was never ready does no work, so
checks that protect the work of other pods do not block it. `decide` selects the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Component, Reason
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmationAction, UsedClusterConfirmation
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.affinity import awaited_in_group, paused_in_group
from pulsar_operator.domain.bookkeeper.bookie_racks import ordinal_of
from pulsar_operator.domain.bookkeeper.storage_facts import not_replicated
from pulsar_operator.domain.consent import Question
from pulsar_operator.domain.dataplane.rollout.facts import BookieFacts, RolloutFacts, and_more, not_ready
from pulsar_operator.domain.dataplane.rollout.order import Candidate, Urgency, next_pods
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import unsynced

NOT_RECORDED: Final = Blocker(
    Reason.PENDING,
    "The pod is not replaced yet: the status does not record the confirmation that allows the replacement. The "
    "operator records it and continues automatically",
)
Find = Callable[[RolloutFacts, Candidate], Blocker | None]


@dataclass(frozen=True)
class Check:
    """One reason for which a pod is not replaced now."""

    find: Find
    """Returns what blocks the pod; None if this check does not."""
    up_to: Urgency = Urgency.ROUTINE
    """Highest urgency to which it applies."""


@dataclass(frozen=True)
class Decision:
    """The next pod, and whether it may be replaced."""

    candidate: Candidate | None = None
    """None if no pod is outdated."""
    blocker: Blocker | None = None
    """None if it may be replaced now."""


def decide(facts: RolloutFacts, checks: Sequence[Check] | None = None) -> Decision:
    """Returns the first pod that no check blocks; else the first pod with its blocker.

    While pods of a component are awaited, components that do not depend on it continue. Any other blocker of a pod also
    keeps all other pods that serve, but no unready pod elsewhere.
    """
    found, unready_only = Decision(), False
    for candidate in next_pods(facts):
        if unready_only and candidate.urgency is Urgency.ROUTINE and not candidate.unready:
            continue
        blocker = blocker_of(facts, candidate, CHECKS if checks is None else checks)
        if blocker is None:
            return Decision(candidate)
        found = found if found.candidate is not None else Decision(candidate, blocker)
        unready_only = unready_only or blocker_of(facts, candidate, READINESS) is None
    return found


def blocker_of(facts: RolloutFacts, candidate: Candidate, checks: Sequence[Check]) -> Blocker | None:
    """Returns the blocker of the first check that blocks a pod; None if none does."""
    found = (check.find(facts, candidate) for check in checks if candidate.urgency <= check.up_to)
    return next((blocker for blocker in found if blocker is not None), None)


# --------------------------------------------------------------------------------------- what holds the whole component


def decommission_in_progress(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """A bookie is being decommissioned: its data is copied by pods that must stay."""
    return facts.decommission or _blocker_with(facts, candidate, Reason.DECOMMISSIONING_BOOKIE)


def rollout_failed(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The rollout of this component, or of one before it, failed. Components that the failed one needs continue."""
    return _blocker_with(facts, candidate, Reason.ROLLOUT_FAILED, Reason.CANARY_FAILED)


def maintenance_window_closed(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The specification has maintenance windows, and none is open."""
    return _blocker_with(facts, candidate, Reason.MAINTENANCE_WINDOW)


def peer_cluster_rolling(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """Another cluster of the instance began to roll out before this one."""
    return _blocker_with(facts, candidate, Reason.WAITING_FOR_CLUSTERS)


def configuration_store_unavailable(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The instance reports that its configuration store is unavailable."""
    return _blocker_with(facts, candidate, Reason.CONFIGURATION_STORE_UNAVAILABLE)


def templates_not_applied(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """This pass did not check the pod templates, so blockers of the cluster are not known. Reports other blockers of
    the cluster too."""
    return facts.blockers.get(candidate.component)


def canary_under_observation(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The first pod of another version is observed before the others follow."""
    return facts.watched.get(candidate.component)


def metadata_store_unavailable(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The pod reads the metadata store to start. A pod that was ready before may have ended because of the outage, and
    recovers."""
    return None if candidate.component is Component.ZOOKEEPER else facts.stores


def configuration_store_needed_to_start(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The pod reads the configuration store to start, whether or not it was ready before."""
    return facts.store_readers.get(candidate.component)


def _blocker_with(facts: RolloutFacts, candidate: Candidate, *reasons: Reason) -> Blocker | None:
    blocker = facts.blockers.get(candidate.component)
    return blocker if blocker is not None and blocker.reason in reasons else None


# ------------------------------------------------------------------------------------------- pods that must serve first


def component_not_settled(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """A pod of the component is missing, terminating or surplus, or its newest spec is not observed."""
    state = facts.of(candidate.component)
    if state.unsettled is None:
        return None
    return facts.unplaced.get(candidate.component) or state.busy


def other_replica_not_ready(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """Another pod of the component is not ready. An outdated one serves if only its sidecar is not ready.

    Outdated pods that ceased to be ready together may recover together, so their quorum is not reduced.
    """
    state = facts.of(candidate.component)
    pods = [each for each in state.unready if each.revision == state.revision or not each.serving]
    pods = [each for each in pods if each.uid != candidate.uid]
    if not pods:
        return None
    return facts.unplaced.get(candidate.component) or state.absent or Blocker(Reason.NOT_READY, not_ready(pods))


def dependency_not_ready(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """A component that goes before this one has pods that are missing, unready or outdated."""
    before = facts.order.before(candidate.component)
    state = next((each for each in facts.components if each.component in before and not each.quiet), None)
    if state is None:
        return None
    outdated = Blocker(Reason.NOT_READY, f"The pods of {state.component.value} are outdated and are replaced first")
    return facts.unplaced.get(state.component) or state.busy or outdated


# ----------------------------------------------------------------------- what ZooKeeper, bookies and brokers report


def ensemble_not_synced(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """A ZooKeeper server is missing or behind, so only a quorum would be left. A server that does not answer serves no
    client and is repaired; the others already work without it."""
    if candidate.component not in (Component.ZOOKEEPER, Component.CONFIGURATION_STORE):
        return None
    total = facts.of(candidate.component).total
    if facts.servers is None:
        return Blocker(Reason.WAITING_FOR_ZOOKEEPER, "The rollout waits until the ZooKeeper servers are checked")
    if facts.servers.get(candidate.name) is not None:
        problem = unsynced(facts.servers, total)
    elif candidate.urgency > Urgency.ROUTINE:
        return None
    else:
        others = {name: each for name, each in facts.servers.items() if name != candidate.name}
        problem = unsynced(others, total - 1) if others else None
    return Blocker(Reason.WAITING_FOR_ZOOKEEPER, problem) if problem is not None else None


def storage_not_read(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The metadata store was not asked about bookies and ledgers."""
    if candidate.component is not Component.BOOKIE or facts.bookies is not None or facts.storage_problem is not None:
        return None
    text = "The rollout waits until the state of bookies and ledgers is read from the metadata store"
    return Blocker(Reason.METADATA_UNREACHABLE, text)


def storage_unknown(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The metadata store does not say which bookies are writable and which ledgers lack copies."""
    if candidate.component is not Component.BOOKIE or facts.storage_problem is None:
        return None
    text = (
        f"The rollout waits, because the state of bookies and ledgers in the metadata store cannot be read: "
        f"{facts.storage_problem}"
    )
    return Blocker(Reason.METADATA_UNREACHABLE, text)


def other_bookie_missing(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """Another bookie of the cluster is not registered. The repair of a bookie that is not registered either reduces
    nothing."""
    found, bookie = _storage(facts, candidate)
    if found is None or (candidate.urgency > Urgency.ROUTINE and bookie not in found.storage.registered):
        return None
    names = sorted(set(found.ids) - {bookie} - found.storage.registered)
    if not names:
        return None
    text = f"Bookie {names[0]}{and_more(names)} is not registered. The rollout continues once it is registered"
    return Blocker(Reason.WAITING_FOR_BOOKIES, text)


def other_bookie_read_only(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """Another bookie of the cluster is read-only. Replacing a read-only bookie does not reduce the writable ones."""
    found, bookie = _storage(facts, candidate)
    if found is None or bookie not in found.storage.writable:
        return None
    names = sorted((set(found.ids) - {bookie}) & found.storage.readonly)
    text = f"Bookie {names[0]} is read-only{and_more(names)}" if names else ""
    return _unless_confirmed(found, Blocker(Reason.BOOKIE_READ_ONLY, text)) if names else None


def storage_under_replicated(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """Ledgers lack copies, or no auditor would notice. A bookie that is not registered serves no client, and its repair
    restores its copies."""
    found, bookie = _storage(facts, candidate)
    if found is None or bookie not in found.storage.registered or (lacking := not_replicated(found.storage)) is None:
        return None
    return _unless_confirmed(found, Blocker(Reason.UNDER_REPLICATED, lacking))


def too_few_bookies(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """Fewer writable bookies would be left than the largest ensemble needs, or than a namespace needs that is bound to
    a group of them.

    If there are never more bookies than that, the rollout continues and reports it (`writes_pause`).
    """
    found, bookie = _storage(facts, candidate)
    if found is None or bookie not in found.storage.writable:
        return None
    left = len(found.storage.writable - {bookie})
    if left < found.ensemble <= len(set(found.ids) - {bookie}):
        text = (
            f"The largest ensemble requires {found.ensemble} writable bookies, and only {left} would be left "
            f"without {bookie}. Make more bookies writable, or add bookies"
        )
        return Blocker(Reason.WAITING_FOR_BOOKIES, text)
    awaited = awaited_in_group(bookie, found.storage.writable, found.bound)
    return Blocker(Reason.WAITING_FOR_BOOKIES, awaited) if awaited else None


def address_not_known(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """A broker could not start, because an address of its external listeners is not known."""
    return facts.addresses if candidate.component is Component.BROKER else None


def surplus_brokers(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """There are more brokers than desired: those are removed first."""
    if facts.surplus_brokers is None or candidate.component is not Component.BROKER or candidate.unready:
        return None
    text = f"There are more than {facts.surplus_brokers} brokers, and the operator removes the surplus brokers first"
    return Blocker(Reason.DRAINING, text)


def bundles_not_drained(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The broker still owns bundles that are being moved away."""
    return facts.handover.get(candidate.uid)


def volume_being_deleted(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """A claim of the pod is being deleted: it exists as long as the pod (finalizer kubernetes.io/pvc-protection)."""
    claim = facts.deleted_claims.get(candidate.uid)
    if claim is None:
        return None
    text = (
        f"PersistentVolumeClaim {claim} is being deleted. Replacing pod {candidate.name} now would delete its "
        f"volume. To replace the volume of a bookie safely, set annotation {ANNOTATION_REPLACE_VOLUME} on its "
        "pod. If the data on the volume is not needed, delete the pod"
    )
    return Blocker(Reason.VOLUME_PENDING, text)


def volume_missing(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """A claim of the pod no longer exists, because its finalizer was removed. The pod has the volume as long as it
    exists, and its successor gets an empty one. A pod that was never ready may be waiting for the claim."""
    claim = facts.missing_claims.get(candidate.uid)
    if claim is None:
        return None
    text = (
        f"PersistentVolumeClaim {claim} does not exist. Replacing pod {candidate.name} now would start the pod "
        "with an empty volume. Copy the data on the volume. If the data is not needed, delete the pod"
    )
    return Blocker(Reason.VOLUME_PENDING, text)


def api_server_refuses(facts: RolloutFacts, candidate: Candidate) -> Blocker | None:
    """The API server refused the eviction of the pod, or would refuse to create it again."""
    return facts.refused.get(candidate.uid)


BLOCKERS: Final = (
    Check(decommission_in_progress),
    Check(rollout_failed),
    Check(maintenance_window_closed),
    Check(peer_cluster_rolling),
    Check(configuration_store_unavailable),
    Check(templates_not_applied),
    Check(canary_under_observation),
    Check(metadata_store_unavailable, Urgency.RESTARTED),
    Check(configuration_store_needed_to_start, Urgency.NEVER_READY),
)
"""Checks by facts of the pass, made before any server is asked."""
READINESS: Final = (
    Check(component_not_settled),
    Check(other_replica_not_ready),
    Check(dependency_not_ready),
)
"""Checks of pods. They block a component, and those that depend on it."""
SERVERS: Final = (
    Check(ensemble_not_synced, Urgency.NEVER_READY),
    Check(storage_not_read, Urgency.NEVER_READY),
    Check(storage_unknown, Urgency.RESTARTED),
    Check(other_bookie_missing, Urgency.NEVER_READY),
    Check(other_bookie_read_only, Urgency.NEVER_READY),
    Check(storage_under_replicated, Urgency.NEVER_READY),
    Check(too_few_bookies, Urgency.NEVER_READY),
    Check(address_not_known),
    Check(surplus_brokers, Urgency.NEVER_READY),
    Check(bundles_not_drained, Urgency.NEVER_READY),
    Check(volume_being_deleted, Urgency.NEVER_READY),
    Check(volume_missing, Urgency.RESTARTED),
    Check(api_server_refuses, Urgency.NEVER_READY),
)
"""Checks by what ZooKeeper, the metadata store, the brokers and the API server report about the pod."""
CHECKS: Final = BLOCKERS + READINESS + SERVERS
"""All checks, in order."""
ROLLOUT_IN_PROGRESS: Final = frozenset(
    {
        Reason.NOT_READY,
        Reason.PENDING,
        Reason.CANARY_UNDER_OBSERVATION,
        Reason.DISRUPTION_BUDGET,
        Reason.ROLLOUT_IN_PROGRESS,
        Reason.WAITING_FOR_ZOOKEEPER,
        Reason.WAITING_FOR_BOOKIES,
        Reason.METADATA_UNREACHABLE,
        Reason.BOOKIE_READ_ONLY,
        Reason.UNDER_REPLICATED,
        Reason.DRAINING,
        Reason.VOLUME_PENDING,
    }
)
"""Blockers that are part of a normal rollout: condition Progressing keeps reason RolloutInProgress, and its message
names the blocker."""


def decommissioning(bookie: object) -> Blocker:
    """Returns the blocker of a bookie that is being decommissioned."""
    text = f"Bookie {bookie} is being decommissioned. The rollout continues after the decommission"
    return Blocker(Reason.DECOMMISSIONING_BOOKIE, text)


def _storage(facts: RolloutFacts, candidate: Candidate) -> tuple[BookieFacts | None, str]:
    """Returns the facts about bookies, and the pod's bookie id; None if the pod is no bookie, or they are not known."""
    if candidate.component is not Component.BOOKIE or facts.bookies is None:
        return None, ""
    return facts.bookies, facts.bookies.own.id(ordinal_of(candidate.name))


def _unless_confirmed(found: BookieFacts, blocker: Blocker) -> Blocker | None:
    if found.confirmation is None:
        return Blocker(blocker.reason, f"{blocker.message}. To replace bookies anyway, {found.remedy}")
    return None if found.recorded else NOT_RECORDED


def used_confirmation(facts: RolloutFacts, decision: Decision) -> UsedClusterConfirmation | None:
    """Returns the confirmation by which a bookie is replaced, or will be once the status has it; None if it needs
    none."""
    candidate = decision.candidate
    if candidate is None or decision.blocker not in (None, NOT_RECORDED) or facts.bookies is None:
        return None
    without = replace(facts, bookies=replace(facts.bookies, confirmation=None))
    needed = other_bookie_read_only(without, candidate) or storage_under_replicated(without, candidate)
    return facts.bookies.confirmation if needed is not None else None


def writes_pause(facts: RolloutFacts, candidate: Candidate) -> str | None:
    """Returns why writes pause while a bookie is replaced, as a message. None if they do not pause."""
    found, bookie = _storage(facts, candidate)
    if found is None or bookie not in found.storage.writable:
        return None
    left = len(found.storage.writable - {bookie})
    if left < found.ensemble:
        return (
            f"{left} writable bookies are left and the largest ensemble requires {found.ensemble}, so topics that "
            "need a new ledger wait until the bookie is back"
        )
    if found.groups_unknown is not None:
        return (
            "topics of namespaces that are bound to affinity groups may get no new ledger until the bookie is "
            f"back ({found.groups_unknown})"
        )
    return paused_in_group(bookie, found.storage.writable, found.bound)


def question_of(template: str, workload: Mapping[str, Any] | None) -> Question:
    """Returns the question of the confirmation that bookies are replaced although copies are missing, for one rollout
    of a template.

    ``workload`` is the StatefulSet of the bookies. Its generation distinguishes the rollout from an earlier one to the
    same template, its UID from one of a deleted StatefulSet.
    """
    meta = (workload or {}).get("metadata") or {}
    subject = f"{template}/{meta.get('generation', 0)}/{str(meta.get('uid', ''))[:8]}"
    return Question(ClusterConfirmationAction.ROLL_UNDER_REPLICATED, subject)
