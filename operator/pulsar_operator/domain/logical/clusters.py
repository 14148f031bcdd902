"""The clusters of a namespace: which replicate it, which may hold it, and how a cluster leaves without data loss.

The brokers of a cluster that is in neither allowed_clusters nor, if that is empty, replication_clusters immediately
delete all data of the namespace there (seen on Pulsar 4.0.8: within a second). So replication_clusters shrinks only
after allowed_clusters was observed to contain the old list, and a cluster leaves allowed_clusters only with a
confirmation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.confirmations import (
    MAX_CONFIRMATIONS,
    Confirmation,
    ConfirmationAction,
    UsedConfirmation,
)
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.logical.plan import Action, Draft, Memory, Problem, Verb
from pulsar_operator.domain.policies import Call, describe

CLUSTERS = "replicationClusters"
ALLOWED = "allowedClusters"


def clusters_of(live: Mapping[str, Any]) -> list[str]:
    """Returns the clusters that hold the namespace or may hold it: replication_clusters and allowed_clusters."""
    return sorted({*replication_of(live), *allowed_of(live)})


def replication_of(live: Mapping[str, Any]) -> list[str]:
    """Returns the namespace's replication_clusters."""
    return sorted(live.get("replication_clusters") or ())


def allowed_of(live: Mapping[str, Any]) -> list[str]:
    """Returns the namespace's allowed_clusters. If empty, replication_clusters take their role."""
    return sorted(live.get("allowed_clusters") or ())


# ------------------------------------------------------------------------------------------------------- confirmations


def _key(confirmation: Confirmation) -> tuple[str, str, str]:
    return confirmation.action.value, confirmation.cluster, confirmation.expires_time


def confirmed(
    given: Iterable[Confirmation],
    used: Iterable[UsedConfirmation],
    now: datetime,
    action: ConfirmationAction = ConfirmationAction.REMOVE_CLUSTER,
) -> frozenset[str]:
    """Returns the clusters for which an action is confirmed by a confirmation that is neither used nor expired."""
    gone = {_key(each) for each in used}
    return frozenset(
        each.cluster for each in given if each.action is action and _key(each) not in gone and _until(each) > now
    )


def _until(confirmation: Confirmation) -> datetime:
    until = parse_time(confirmation.expires_time)
    assert until is not None
    return until


def used_confirmations(
    spec: PulsarNamespaceSpec,
    before: Iterable[UsedConfirmation],
    live: Mapping[str, Any],
    now: datetime,
    *,
    taken_over: bool = False,
) -> list[UsedConfirmation]:
    """Returns status.usedConfirmations after a pass that observed the namespace: used confirmations that are declared,
    or would be valid if they were declared again.

    A confirmation is used once its cluster was observed outside of the list it applies to, or is declared to stay: it
    does not apply to a cluster that joins later. This is derived from the observed state, not from performed actions,
    so that a lost status write leaves no confirmation open. With ``taken_over`` the namespace is observed for the first
    time, by an object that is new or whose status was lost. It is then unknown which confirmations were used, so all
    count as used.
    """
    known = {_key(each): each for each in before}
    replicates = {*(spec.replication_clusters or ())}
    lists = {
        ConfirmationAction.REMOVE_CLUSTER: ({*(spec.allowed_clusters or ()), *replicates}, clusters_of(live)),
        ConfirmationAction.ABANDON_BACKLOG: (replicates, replication_of(live)),
    }
    out = []
    for confirmation in spec.confirmations:
        stays, there = lists[confirmation.action]
        if _key(confirmation) in known:
            out.append(known[_key(confirmation)])
        elif taken_over or confirmation.cluster in stays or confirmation.cluster not in there:
            out.append(UsedConfirmation(**confirmation.model_dump(), used_time=timestamp(now)))
    keys = {_key(each) for each in out}
    gone = [each for key, each in known.items() if key not in keys and _until(each) > now]
    # Where there are too many, those are forgotten that would not count for long.
    return (out + sorted(gone, key=_until, reverse=True))[:MAX_CONFIRMATIONS]


# ------------------------------------------------------------------------------------------------------- the plan


@dataclass(frozen=True)
class Clusters:
    """The live lists of clusters of a namespace, with what is permitted to leave them."""

    replicating: frozenset[str]
    """The live replication_clusters."""
    allowed: frozenset[str]
    """The live allowed_clusters."""
    of_the_instance: frozenset[str]
    confirmations: frozenset[str]
    """Clusters whose data may be deleted when they leave."""
    abandoned: frozenset[str] = frozenset()
    """Clusters that may leave the replication with a replication backlog from or to other clusters."""
    undelivered: str | None = None
    """Replication backlog of the clusters that leave the replication, and are not abandoned, as a message; None if
    there is none."""

    @property
    def holding(self) -> frozenset[str]:
        """Returns the clusters that hold the namespace or may hold it."""
        return self.replicating | self.allowed


def refuses(draft: Draft, field: str, given: Collection[str] | None, of_the_instance: frozenset[str]) -> bool:
    """Whether a declared list names a cluster that no PulsarCluster of the instance has. The problem is added to the
    draft.

    The caller then leaves the whole list unchanged in Pulsar, since the unknown name may be meant for an existing
    cluster.
    """
    unknown = sorted(set(given or ()) - of_the_instance)
    if not unknown:
        return False
    known, path = ", ".join(sorted(of_the_instance)) or "none", field.partition("@")[0]
    named = ", ".join(repr(each) for each in unknown)
    which, remedy = (
        ("which is no cluster of the instance", "the name, or create a PulsarCluster with that clusterName")
        if len(unknown) == 1
        else ("which are no clusters of the instance", "the names, or create PulsarClusters with those clusterNames")
    )
    text = (
        f"spec.{path} names {named}, {which} (the instance has: {known}). The operator refuses the complete list, "
        f"and Pulsar keeps the last valid list. Correct {remedy}"
    )
    draft.problems.append(Problem(field, Reason.INVALID_SPEC, text))
    return True


def keep_refused(draft: Draft, field: str, memory: Memory) -> None:
    """Keeps a refused list managed if it was managed before. Applying it later, once every name is known, is not a
    repair of drift."""
    draft.declared |= {field} & memory.managed
    draft.postponed.add(field)


def refused_lists(draft: Draft, spec: PulsarNamespaceSpec, of_the_instance: frozenset[str]) -> frozenset[str]:
    """Returns the fields of a namespace's two lists that name an unknown cluster, and adds the problems to the
    draft."""
    given = {CLUSTERS: spec.replication_clusters, ALLOWED: spec.allowed_clusters}
    return frozenset(name for name, names in given.items() if refuses(draft, name, names, of_the_instance))


def removed_clusters(spec: PulsarNamespaceSpec, live: Clusters, *, memory: Memory, repair: bool) -> frozenset[str]:
    """Returns the clusters that are to leave the replication without a confirmation to abandon their backlog."""
    if spec.replication_clusters is None or memory.leaves(CLUSTERS, repair=repair):
        return frozenset()
    declared = frozenset(spec.replication_clusters)
    return live.replicating - declared - live.abandoned if declared <= live.of_the_instance else frozenset()


def plan_clusters(
    draft: Draft,
    spec: PulsarNamespaceSpec,
    live: Clusters,
    *,
    base: tuple[str, ...],
    memory: Memory,
    repair: bool,
) -> dict[str, list[str] | None] | None:
    """Returns the values that may be written to the two lists now, by field, without a refused list.

    None if nothing may be written yet: allowed_clusters must be widened first, which is in the draft. Each step waits
    until Pulsar was observed to have applied the previous one.
    """
    refused = refused_lists(draft, spec, live.of_the_instance)
    for name in refused:
        keep_refused(draft, name, memory)
    desired: dict[str, list[str] | None] = {}
    for name, names in ((CLUSTERS, spec.replication_clusters), (ALLOWED, spec.allowed_clusters)):
        if name not in refused:
            desired[name] = sorted(names) if names is not None else None
    replicating, allowed = desired.get(CLUSTERS), desired.get(ALLOWED)
    if replicating is not None and not memory.leaves(CLUSTERS, repair=repair):
        wider = _widened(live, replicating, allowed or ())
        if wider is not None:
            draft.declared |= {name for name, value in desired.items() if value is not None}
            draft.actions.append(_widen(live, replicating, wider, base))
            return None
    if allowed is not None:
        desired[ALLOWED] = _shrunk(draft, live, replicating, allowed)
    waits = removed_clusters(spec, live, memory=memory, repair=repair)
    if waits and live.undelivered is not None and replicating is not None:
        desired[CLUSTERS] = sorted({*replicating, *waits})
        draft.postponed.add(CLUSTERS)  # not applied yet: done later it repairs no drift
        draft.problems.append(Problem(CLUSTERS, Reason.WAITING_FOR_REPLICATION, _waits(waits, live.undelivered)))
    return desired


def drops_cluster(action: Action, live: Clusters) -> bool:
    """Whether an action takes a cluster out of a namespace: out of its replication, or with all of its data there."""
    before = {"replication": live.replicating, "allowedClusters": live.holding}.get(action.call.path[-1])
    return before is not None and not before <= set(action.call.body)


def _waits(waits: Collection[str], undelivered: str) -> str:
    names = ", ".join(sorted(waits))
    return (
        f"spec.{CLUSTERS} no longer contains {names}. The operator does not remove {names} from the replication "
        f"yet, because messages that are not replicated yet would be lost: {undelivered}. Wait until they are "
        "replicated, or confirm the loss with a new entry of spec.confirmations that has action AbandonBacklog, "
        "the cluster, and a future expiresTime"
    )


def _widened(live: Clusters, replicating: Sequence[str], allowed: Sequence[str]) -> list[str] | None:
    """Returns the allowed_clusters that are required before replication_clusters may become ``replicating``; None if
    the live ones suffice."""
    leaves_data = bool(live.replicating - set(replicating)) and not live.replicating <= live.allowed
    refused = bool(live.allowed) and not set(replicating) <= live.allowed
    return sorted(live.holding | set(replicating) | set(allowed)) if leaves_data or refused else None


def _widen(live: Clusters, replicating: Sequence[str], wider: list[str], base: tuple[str, ...]) -> Action:
    removed = sorted(live.replicating - set(replicating))
    was = describe(sorted(live.allowed)) if live.allowed else "empty"
    why = (
        f"so that {', '.join(removed)} can leave spec.{CLUSTERS} and the data in that cluster stays"
        if removed
        else f"because Pulsar requires allowed_clusters to contain all of spec.{CLUSTERS}"
    )
    reason = f"Widen allowed_clusters to {describe(wider)} (was {was}), {why}"
    return Action(Verb.SET, CLUSTERS, Call("POST", (*base, "allowedClusters"), body=wider), reason)


def _shrunk(draft: Draft, live: Clusters, replicating: Sequence[str] | None, allowed: Sequence[str]) -> list[str]:
    """Returns the allowed_clusters that may be written now: the declared ones, and those that may not leave yet."""
    removed = live.holding - set(allowed)
    kept = removed & live.replicating
    bound = sorted(kept if replicating is None else kept & set(replicating))
    if bound:
        names = ", ".join(bound)
        text = (
            f"spec.{ALLOWED} does not contain {names}, but replication_clusters of the namespace does. Remove "
            f"{names} from spec.{CLUSTERS}, or add {names} to spec.{ALLOWED}"
        )
        draft.problems.append(Problem(ALLOWED, Reason.INVALID_SPEC, text))
    unasked = sorted(removed - live.confirmations - set(bound))
    if unasked:
        names = ", ".join(unasked)
        text = (
            f"spec.{ALLOWED} no longer contains {names}, where the namespace may have data. The operator keeps "
            f"{names} in allowed_clusters, because Pulsar would immediately delete all topics and messages of the "
            f"namespace in {names}. Add {names} to spec.{ALLOWED}, or confirm the deletion with a new entry of "
            "spec.confirmations that has action RemoveCluster, the cluster, and a future expiresTime"
        )
        draft.problems.append(Problem(ALLOWED, Reason.CONFIRMATION_REQUIRED, text))
    return sorted({*allowed, *kept, *unasked, *(replicating or ())})
