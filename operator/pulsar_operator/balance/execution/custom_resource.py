"""PulsarRebalance in words and values: status summaries, the ConfigMap of a proposal, the planner's options. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_PROPOSAL, API_VERSION, LABEL_MANAGED_BY, MANAGED_BY, Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.rebalance import BalanceStatus, ProposalStatus, PulsarRebalanceSpec
from pulsar_operator.balance.execution.steps import Step, from_json, identify, to_json, words
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.proposal import Balance, Proposal

STEPS_FILE = "steps.json"
WORDS_FILE = "steps.txt"
CHANGED = "the ConfigMap does not hold the steps as they were written"
MAX_STEPS_BYTES = 900_000
"""A ConfigMap holds 1 MiB in all."""


def ratio(value: float) -> str:
    """A ratio as text: Kubernetes' API conventions want no floating point."""
    return f"{value:.2f}"


def balance_status(balance: Balance) -> BalanceStatus:
    """For the status."""
    return BalanceStatus(imbalance=ratio(balance.ratio), bound=ratio(balance.bound_ratio), bundles=balance.bundles)


def proposal_status(
    proposal: Proposal, ident: str, moment: str, total_weight: float, name: str | None
) -> ProposalStatus:
    """Summary of a proposal."""
    share = 100 * proposal.moved_weight / total_weight if total_weight > 0 else 0.0
    return ProposalStatus(
        id=ident,
        computed_time=moment,
        config_map_name=name,
        splits=len(proposal.splits),
        moves=len(proposal.moves),
        traffic_moved_percent=f"{share:.1f}",
        before=balance_status(proposal.before),
        after=balance_status(proposal.after),
        advice=[f"{each.reason}: {each.message}"[:1000] for each in proposal.advice[:50]],
    )


def summary(before: BalanceStatus | None, after: BalanceStatus | None, measured: BalanceStatus | None) -> str | None:
    """Before, after and the best possible for the eye."""
    if before is None:
        return None
    end = measured or after
    if end is None:
        return f"{before.imbalance} (best {before.bound})"
    verb = "measured " if measured is not None else ""
    return f"{before.imbalance} -> {verb}{end.imbalance} (best {end.bound})"


def selected(patterns: Sequence[str], namespaces: Iterable[str]) -> frozenset[str] | None:
    """Namespaces that match a pattern tenant/namespace or tenant/*; None = no restriction."""
    if not patterns:
        return None
    exact = {p for p in patterns if not p.endswith("/*")}
    tenants = {p[:-2] for p in patterns if p.endswith("/*")}
    return frozenset(n for n in namespaces if n in exact or n.split("/", 1)[0] in tenants)


def options_of(
    spec: PulsarRebalanceSpec, namespaces: Iterable[str], cooling: Iterable[BundleId], brokers: Iterable[str]
) -> Options:
    """The question to the planner; ``brokers`` are the ids of those the specification names."""
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
    """All steps in their order: splits, then moves."""
    return [*proposal.splits, *proposal.moves]


def owner_reference(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A custom resource as the controller of something."""
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
    """A PulsarRebalance of the operator's own, which goes with the cluster that it is for."""
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


def standing_manifest(cluster: Mapping[str, Any], name: str, spec: PulsarClusterSpec) -> dict[str, Any]:
    """The PulsarRebalance through which the operator drives a cluster."""
    wanted = spec.load_balancing.rebalance
    standing = {
        "mode": "Full",
        "trafficSource": wanted.traffic_source.value,
        "autoApprove": wanted.auto_approve,
        "repeatSeconds": wanted.repeat_seconds,
        "tolerancePercent": wanted.tolerance_percent,
        "budget": wanted.budget.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    return own_rebalance(cluster, name, standing)


def config_map(obj: Mapping[str, Any], name: str, ident: str, steps: Sequence[Step]) -> dict[str, Any] | None:
    """The ConfigMap that holds the steps, for the operator and for people; None when they do not fit in one."""
    meta = obj["metadata"]
    machine = json.dumps(to_json(steps), indent=1)
    human = "".join(f"{n:4d}  {words(step)}\n      because {step.reason}\n" for n, step in enumerate(steps, 1))
    if len(machine.encode()) + len(human.encode()) > MAX_STEPS_BYTES:
        return None
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
        "data": {STEPS_FILE: machine, WORDS_FILE: human},
    }


def is_proposal(live: Mapping[str, Any], uid: str) -> bool:
    """Whether a ConfigMap was made by `config_map`: for the PulsarRebalance with this UID, or for one of its name that
    is gone, whose ConfigMap Kubernetes has not collected yet."""
    marked = ANNOTATION_PROPOSAL in (live["metadata"].get("annotations") or {})
    return marked or any(each.get("uid") == uid for each in live["metadata"].get("ownerReferences") or ())


def read_steps(live: Mapping[str, Any] | None, proposal: ProposalStatus) -> list[Step]:
    """The steps of a proposal from its ConfigMap. Raises ValueError, in words, when they are not there as written:
    who may write ConfigMaps has not approved anything."""
    if live is None:
        raise ValueError("the ConfigMap with the steps is gone")
    if (live["metadata"].get("annotations") or {}).get(ANNOTATION_PROPOSAL) != proposal.id:
        raise ValueError("the ConfigMap holds the steps of another proposal")
    try:
        found = from_json(json.loads((live.get("data") or {})[STEPS_FILE]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{CHANGED} ({error})") from error
    if identify(found, proposal.computed_time) != proposal.id:
        raise ValueError(f"{CHANGED}: somebody changed them")
    return found
