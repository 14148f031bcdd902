"""The parts of a PulsarRebalance: status summaries, the ConfigMap of a proposal, the planner's options. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pulsar_operator.api.constants import (
    ANNOTATION_PROPOSAL,
    ANNOTATION_REBALANCE,
    API_VERSION,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    Kind,
)
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.rebalance import BalanceStatus, ProposalStatus, PulsarRebalanceSpec
from pulsar_operator.balance.execution.pace import about
from pulsar_operator.balance.execution.steps import Step, brokers_of, from_json, identify, short_step_text, to_json
from pulsar_operator.balance.execution.table import load_table
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.names import short_brokers, shortened
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.proposal import Balance, BrokerLoad, Move, Proposal

STEPS_FILE = "steps.json"
WORDS_FILE = "steps.txt"
BROKERS_FILE = "brokers.txt"
APPROVE = "approve"
NOT_SHOWN = "none"
"""In place of the id of a replaced proposal: an approval without an id may have been given before the proposal."""
COMMANDS = (APPROVE, "refresh", "stop")
CHANGED = "the ConfigMap no longer contains the steps as the operator wrote them"
MAX_STEPS_BYTES = 900_000
"""Maximum bytes of the steps: a ConfigMap holds 1 MiB in all."""
STEP_BYTES = 330
"""Bytes of a move in the file for the operator, without the names in it."""
MAX_TEXT_BYTES = 100_000
"""Maximum bytes of the files for people if the steps leave less room; the file for the operator has all steps."""


@dataclass(frozen=True)
class Command:
    """The command of an annotation."""

    word: str
    """approve, refresh or stop."""
    proposal: str = ""
    """Id of the approved proposal; empty if none was named."""


def command_of(text: str | None) -> Command | None:
    """Parses the command of an annotation; None if there is none. Raises ValueError, with a message for users, for
    another text."""
    if text is None:
        return None
    word, dash, ident = text.partition("-")
    if word == APPROVE and ident.isalnum() and len(ident) <= 32:
        return Command(APPROVE, ident)
    if word in COMMANDS and not dash:
        return Command(word)
    raise ValueError(
        f"annotation {ANNOTATION_REBALANCE} is {text[:50]!r}, but must be approve-ID (with the id in "
        "status.proposal), refresh or stop"
    )


def refused_approval(command: Command, ident: str, replaced: str | None, how: str) -> str:
    """Returns why an approval does not approve the proposal with this id; empty if it does.

    ``replaced`` is the proposal that waited for approval before this one replaced it: an approval without an id may
    mean that one. It is NOT_SHOWN if that one is not known, or there was none. ``how`` is the command that approves the
    current one.
    """
    if command.proposal == ident or (not command.proposal and replaced is None):
        return ""
    if command.proposal:
        cause = f"The approval of proposal {command.proposal} is refused, because the current proposal is {ident}."
    elif replaced == NOT_SHOWN:
        cause = f"An approval without an id is refused, because it may be older than proposal {ident}."
    else:
        cause = f"An approval without an id is refused, because proposal {ident} replaced proposal {replaced}."
    return f"{cause} Review the current proposal, then {how}"


def how_to_approve(namespace: str, name: str, ident: str) -> str:
    """Returns the command that approves a proposal and no other."""
    return f"run kubectl -n {namespace} annotate prb {name} {ANNOTATION_REBALANCE}={APPROVE}-{ident}"


def ratio(value: float) -> str:
    """Returns a ratio as text: Kubernetes' API conventions want no floating point."""
    return f"{value:.2f}"


def balance_status(balance: Balance) -> BalanceStatus:
    """Returns the status of a balance."""
    return BalanceStatus(imbalance=ratio(balance.ratio), bound=ratio(balance.bound_ratio), bundles=balance.bundles)


def proposal_status(
    proposal: Proposal,
    ident: str,
    moment: str,
    total_weight: float,
    name: str | None,
    expected: float | None = None,
) -> ProposalStatus:
    """Returns the summary of a proposal, as `presented`. ``expected`` is the seconds that its steps will take."""
    share = 100 * proposal.moved_weight / total_weight if total_weight > 0 else 0.0
    splits, moves = len(proposal.splits), len(proposal.moves)
    return ProposalStatus(
        id=ident,
        computed_time=moment,
        config_map_name=name,
        splits=splits,
        moves=moves,
        traffic_moved_percent=f"{share:.1f}",
        topics=proposal.topics,
        clients=proposal.clients,
        expected_duration=None if expected is None or proposal.empty else about(expected),
        before=balance_status(proposal.before),
        after=balance_status(proposal.after),
        brokers=load_table(proposal.brokers, clients=proposal.clients is not None),
        advice=[f"{each.reason}: {shortened(each.message)}"[:1000] for each in proposal.advice[:50]],
    )


def presented(proposal: Proposal, *, counted: bool) -> Proposal:
    """Returns the proposal as it is shown: reasons with short names of brokers, and no clients if they are not
    counted."""
    names = {each.broker for each in proposal.brokers} | brokers_of(proposal.moves)
    splits = tuple(replace(each, reason=shortened(each.reason, names)) for each in proposal.splits)
    moves = [replace(each, reason=shortened(each.reason, names)) for each in proposal.moves]
    if not counted:
        moves = [replace(each, clients=None) for each in moves]
    return replace(proposal, splits=splits, moves=tuple(moves))


def describe_costs(status: ProposalStatus) -> str:
    """Returns the sentence on what a proposal costs clients."""
    clients = "" if status.clients is None else f" and {status.clients} producers and consumers reconnect"
    topics = "" if status.topics is None else f"{status.topics} topics move{clients}. "
    return f"{topics}The execution takes {status.expected_duration}"


def summary(before: BalanceStatus | None, after: BalanceStatus | None, measured: BalanceStatus | None) -> str | None:
    """Returns the ratios before, after and at best, for the printed column."""
    if before is None:
        return None
    end = measured or after
    if end is None:
        return f"{before.imbalance} (best {before.bound})"
    verb = "measured " if measured is not None else ""
    return f"{before.imbalance} -> {verb}{end.imbalance} (best {end.bound})"


def selected(patterns: Sequence[str], namespaces: Iterable[str]) -> frozenset[str] | None:
    """Returns namespaces that match a pattern tenant/namespace or tenant/*; None if there is no restriction."""
    if not patterns:
        return None
    exact = {pattern for pattern in patterns if not pattern.endswith("/*")}
    tenants = {pattern[:-2] for pattern in patterns if pattern.endswith("/*")}
    return frozenset(n for n in namespaces if n in exact or n.split("/", 1)[0] in tenants)


def options_of(
    spec: PulsarRebalanceSpec, namespaces: Iterable[str], cooling: Iterable[BundleId], brokers: Iterable[str]
) -> Options:
    """Returns the planner's options; ``brokers`` are the ids of those that the specification names."""
    budget = spec.budget
    return Options(
        mode=Mode(spec.mode.value),
        budget=Budget(
            max_moves=budget.max_moves,
            max_moved_percent=float(budget.max_traffic_moved_percent),
            max_splits=budget.max_splits,
            max_bundles=budget.max_bundles_per_namespace,
        ),
        namespaces=selected(spec.namespaces, namespaces),
        brokers=frozenset(brokers),
        tolerance=spec.tolerance_percent / 100,
        cooling=frozenset(cooling),
    )


def steps_of(proposal: Proposal) -> list[Step]:
    """Returns all steps in their order: splits, then moves."""
    return [*proposal.splits, *proposal.moves]


def owner_reference(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an owner reference that makes a custom resource the controller of an object."""
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def own_rebalance(
    cluster: Mapping[str, Any], name: str, spec: Mapping[str, Any], labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns a PulsarRebalance that the operator creates, which is deleted with its cluster."""
    meta = cluster["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.REBALANCE.value,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {LABEL_MANAGED_BY: MANAGED_BY, **(labels or {})},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": {"clusterRef": {"name": meta["name"]}, **spec},
    }


def is_own(rebalance: Mapping[str, Any]) -> bool:
    """Whether the operator made it for a cluster and approved it with that: a drain, a fill, or the standing one."""
    meta = rebalance["metadata"]
    owners = meta.get("ownerReferences") or ()
    owned = any(each.get("kind") == Kind.CLUSTER and each.get("controller") for each in owners)
    return owned and (meta.get("labels") or {}).get(LABEL_MANAGED_BY) == MANAGED_BY


def standing_name(cluster: Mapping[str, Any]) -> str:
    """Returns the name of the PulsarRebalance with which the operator balances a cluster continuously."""
    return f"{cluster['metadata']['name']}-balancer"


def is_standing(rebalance: Mapping[str, Any], cluster: Mapping[str, Any]) -> bool:
    """Whether it is the standing rebalance of this cluster."""
    meta, uid = rebalance["metadata"], cluster["metadata"]["uid"]
    owned = any(each.get("uid") == uid for each in meta.get("ownerReferences") or ())
    place = (meta.get("namespace"), meta["name"])
    return owned and place == (cluster["metadata"].get("namespace"), standing_name(cluster))


def standing_manifest(cluster: Mapping[str, Any], name: str, spec: PulsarClusterSpec) -> dict[str, Any]:
    """Returns the PulsarRebalance with which the operator balances a cluster continuously."""
    desired = spec.load_balancing.rebalance
    standing = {
        "mode": "Full",
        "trafficSource": desired.traffic_source.value,
        "autoApprove": desired.auto_approve,
        "repeatSeconds": desired.repeat_seconds,
        "tolerancePercent": desired.tolerance_percent,
        "budget": desired.budget.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    return own_rebalance(cluster, name, standing)


def steps_that_fit(brokers: Iterable[str], namespaces: Iterable[str]) -> int:
    """Returns the number of moves that always fit in a ConfigMap."""
    ids = set(brokers)
    longest, name = max(map(len, ids), default=0), max(map(len, namespaces), default=0)
    short = max(map(len, short_brokers(ids).values()), default=0)
    return max(MAX_STEPS_BYTES // (STEP_BYTES + name + 2 * longest + 4 * short), 1)


def config_map(
    obj: Mapping[str, Any], name: str, ident: str, steps: Sequence[Step], brokers: Sequence[BrokerLoad] = ()
) -> dict[str, Any] | None:
    """Returns the ConfigMap with the steps, for the operator and for people; None if they do not fit."""
    meta = obj["metadata"]
    machine = "[\n" + ",\n".join(json.dumps(each) for each in to_json(steps)) + "\n]\n"
    names = {each.broker for each in brokers} | brokers_of(steps)
    human = [
        f"{n:4d}  {short_step_text(step, names)}\n      because {step.reason}\n" for n, step in enumerate(steps, 1)
    ]
    counted = all(each.clients is not None for each in steps if isinstance(each, Move))
    table = [f"{line}\n" for line in load_table(brokers, most=None, clients=counted)]
    left = MAX_STEPS_BYTES - len(machine.encode())
    if left < 0:
        return None
    most = max(left, 0) // 2 + MAX_TEXT_BYTES // 2
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {LABEL_MANAGED_BY: MANAGED_BY},
            "annotations": {ANNOTATION_PROPOSAL: ident},
            "ownerReferences": [owner_reference(obj)],
        },
        "data": {STEPS_FILE: machine, WORDS_FILE: _within(human, most), BROKERS_FILE: _within(table, most)},
    }


def _within(lines: Sequence[str], most: int) -> str:
    """Returns the lines that fit in a number of bytes."""
    for number, line in enumerate(lines):
        most -= len(line.encode())
        if most < 0:
            return "".join(lines[:number]) + f"(and {len(lines) - number} more)\n"
    return "".join(lines)


def is_proposal(live: Mapping[str, Any], uid: str) -> bool:
    """Whether a ConfigMap was created by `config_map`: for the PulsarRebalance with this UID, or for a deleted one of
    its name, whose ConfigMap Kubernetes has not collected yet."""
    marked = ANNOTATION_PROPOSAL in (live["metadata"].get("annotations") or {})
    return marked or any(each.get("uid") == uid for each in live["metadata"].get("ownerReferences") or ())


def read_steps(live: Mapping[str, Any] | None, proposal: ProposalStatus) -> list[Step]:
    """Returns the steps of a proposal from its ConfigMap. Raises ValueError, with a message for users, if they were
    changed: a user who may write ConfigMaps need not be allowed to approve."""
    if live is None:
        raise ValueError("the ConfigMap with the steps no longer exists")
    if (live["metadata"].get("annotations") or {}).get(ANNOTATION_PROPOSAL) != proposal.id:
        raise ValueError("the ConfigMap contains the steps of another proposal")
    try:
        found = from_json(json.loads((live.get("data") or {})[STEPS_FILE]))
        ident = identify(found, proposal.computed_time)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{CHANGED} ({error})") from error
    if ident != proposal.id:
        raise ValueError(f"{CHANGED}, because another client changed them")
    return found
