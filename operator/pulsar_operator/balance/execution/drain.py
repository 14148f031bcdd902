"""Drains and fills when brokers are replaced, removed or added: whether to wait, and the PulsarRebalance for it.

Pure. A drain is a PulsarRebalance in mode RemoveBrokers, a fill one in mode AddBrokers; the executor of all rebalances
does the moves. This module only decides whether the pods may be deleted now. A rollout is never blocked without end: a
broker that is stopped unloads its remaining bundles (Pulsar's class PulsarShutdownHook).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pulsar_operator.api.constants import LABEL_PURPOSE, NO_ANSWER, Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import Drain
from pulsar_operator.balance.execution.custom_resource import own_rebalance
from pulsar_operator.domain.texts import sentence

BLIND_SECONDS: Final = 120.0
"""Seconds to wait for brokers that do not answer, or whose traffic is not known."""
REPEAT_SECONDS: Final = 30
"""A drain or fill that was stopped by an unexpected change plans again after this long."""
MAX_MOVES: Final = 3000
"""Maximum steps of a proposal, which fit in a ConfigMap; the rest is in the next one."""
DRAIN, FILL = "drain", "fill"
_BLIND: Final = frozenset({Reason.NO_DATA.value, Reason.WAITING_FOR_BROKERS.value, *(each.value for each in NO_ANSWER)})


@dataclass(frozen=True)
class DrainFacts:
    """Observed facts of brokers that are to be removed or restarted."""

    pods: tuple[str, ...]
    age: float
    """Seconds since their removal was first requested."""
    bundles: int | None
    """Number of bundles that they own, without those of Pulsar's own namespaces; None if they did not report it."""
    others: int
    """Number of brokers that may take them."""
    mixed_managers: bool = False
    """Whether the brokers run more than one load manager."""
    rebalance: Mapping[str, Any] | None = None
    """The live drain; None if there is none yet."""
    failure: str = ""
    """Why something is not known, as a message."""


@dataclass(frozen=True)
class Decision:
    """The decision on a drain."""

    go: bool
    """Whether the pods may be deleted now."""
    ask: bool = False
    """Whether the drain must exist."""
    recreate: bool = False
    """Whether the drain has done its steps and must be created again for bundles that came after its plan."""
    why: str = ""
    """Why the pods may not be deleted yet, or why they are deleted with bundles left, as a sentence; empty = they have
    none."""


def decide(facts: DrainFacts, drain: Drain) -> Decision:
    """Decides whether brokers may stop now."""
    who, has = _brokers(facts.pods), "has" if len(facts.pods) == 1 else "have"
    left = "bundles" if facts.bundles is None else f"{facts.bundles} bundles"
    if not facts.pods or facts.bundles == 0:
        return Decision(True)
    if facts.mixed_managers:
        # Every broker then sends lookups to a random one of those whose load manager is that of the broker started last
        # (class RedirectManager of Pulsar 4.0.8, findRedirectLookupResultAsync), whatever the destination of an unload.
        why = (
            f"{who} still had {left}, and Pulsar cannot move bundles to a chosen broker while the brokers run two load "
            "managers"
        )
        return Decision(True, why=why)
    if facts.age >= drain.timeout_seconds:
        return Decision(True, why=f"{who} still had {left} after {drain.timeout_seconds} s (spec.broker.drain)")
    if facts.others < 1:
        if facts.age < BLIND_SECONDS:
            return Decision(False, why=f"No other broker can take the bundles of {who} yet")
        return Decision(True, why=f"no other broker can take the {left} of {who}")
    if facts.bundles is None:
        if facts.age < BLIND_SECONDS:
            return Decision(False, why=f"The bundles of {who} are not known yet ({facts.failure})")
        return Decision(True, why=f"the bundles of {who} are not known ({facts.failure})")
    if facts.rebalance is None:
        return Decision(False, ask=True, why=f"{sentence(who)} still {has} {left}")
    return _of_rebalance(facts, who, f"{sentence(who)} still {has} {left}", left)


def _of_rebalance(facts: DrainFacts, who: str, state: str, left: str) -> Decision:
    """Decides by the status of the drain; ``state`` is the sentence on what the brokers still have."""
    assert facts.rebalance is not None
    name = facts.rebalance["metadata"]["name"]
    status = facts.rebalance.get("status") or {}
    if status.get("observedGeneration") != facts.rebalance["metadata"].get("generation"):
        return Decision(False, ask=True, why=f"{state}. PulsarRebalance {name} is not reconciled yet")
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    progress = status.get("progress") or {}

    def true(kind: ConditionType) -> bool:
        return (conditions.get(kind.value) or {}).get("status") == "True"

    if true(ConditionType.EXECUTING):
        done, total = progress.get("done", 0), progress.get("total", 0)
        return Decision(False, ask=True, why=f"{state}. PulsarRebalance {name} has done {done} of {total} steps")
    ended = bool(progress.get("finishedTime"))
    ready = conditions.get(ConditionType.READY.value) or {}
    reports = f"PulsarRebalance {name} reports: {_words(ready)}"
    if ended and not true(ConditionType.STOPPED):
        reason = (conditions.get(ConditionType.COMPLETED.value) or {}).get("reason")
        found_nothing = reason == Reason.ALREADY_DRAINED.value
        if progress.get("total", 0) or found_nothing:
            # Pulsar may give a broker bundles until it is told to stop, and a moving one has no owner for a moment:
            # planned for once more, until a plan says that they must stay.
            why = f"{state}, which were assigned after PulsarRebalance {name} was planned"
            return Decision(False, recreate=True, why=why)
        return Decision(True, why=f"{who} still had {left} after the drain ended. {reports}")
    if ready.get("reason") in _BLIND and facts.age >= BLIND_SECONDS:
        return Decision(True, why=f"no plan was found for the {left} of {who}. {reports}"[:500])
    return Decision(False, ask=True, why=f"{state}. {reports}")


def _words(condition: Mapping[str, Any]) -> str:
    return str(condition.get("message") or "it is not reconciled yet")[:300]


def _brokers(pods: Sequence[str]) -> str:
    shown = ", ".join(pods[:3])
    more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
    return f"{'broker' if len(pods) == 1 else 'brokers'} {shown}{more}"


def broker_id(pod: str, registered: Iterable[str]) -> str | None:
    """Returns the id of a pod's broker among the registered ones; the host of an id begins with the pod's name."""
    return next((each for each in registered if each.startswith(f"{pod}.")), None)


def named_brokers(names: Iterable[str], registered: Collection[str]) -> list[str]:
    """Returns ids of brokers that are named by pod or by id; a name that is not registered is returned unchanged."""
    return [name if ":" in name else broker_id(name, registered) or name for name in names]


def future_ids(pods: Iterable[str], registered: Sequence[str]) -> list[str]:
    """Returns the future ids of brokers whose pods do not exist yet, derived from registered ones; empty without
    one."""
    if not registered:
        return []
    _, dot, rest = registered[0].partition(".")
    return [f"{pod}{dot}{rest}" for pod in pods] if dot else []


def drain_name(cluster: str, pod: Mapping[str, Any]) -> str:
    """Returns the name of the drain of one pod; another pod of the same name gets another drain."""
    meta = pod["metadata"]
    return f"{cluster}-drain-{str(meta['name']).rpartition('-')[2]}-{str(meta['uid'])[-5:]}"


def scale_in_name(cluster: str, replicas: int) -> str:
    """Returns the name of the drain of all brokers beyond a number of replicas."""
    return f"{cluster}-drain-to-{replicas}"


def fill_name(cluster: str, tag: str) -> str:
    """Returns the name of the fill for one occasion, which the tag identifies."""
    return f"{cluster}-fill-{tag}"


def drain_manifest(
    cluster: Mapping[str, Any], name: str, brokers: Iterable[str], avoid: Iterable[str], drain: Drain
) -> dict[str, Any]:
    """Returns the PulsarRebalance that empties brokers; ``avoid`` get nothing, since they are drained next."""
    spec = {
        "mode": "RemoveBrokers",
        "brokers": sorted(brokers),
        "excludedBrokers": sorted(avoid),
    }
    return _manifest(cluster, name, DRAIN, {k: v for k, v in spec.items() if v}, drain)


def fill_manifest(cluster: Mapping[str, Any], name: str, brokers: Iterable[str], drain: Drain) -> dict[str, Any]:
    """Returns the PulsarRebalance that gives new brokers their share."""
    return _manifest(cluster, name, FILL, {"mode": "AddBrokers", "brokers": sorted(brokers)}, drain)


def _manifest(
    cluster: Mapping[str, Any], name: str, purpose: str, spec: Mapping[str, Any], drain: Drain
) -> dict[str, Any]:
    budget = {"maxMoves": MAX_MOVES, "maxTrafficMovedPercent": 100, "movesPerMinute": drain.moves_per_minute}
    errand = {**spec, "autoApprove": True, "repeatSeconds": REPEAT_SECONDS, "budget": budget}
    return own_rebalance(cluster, name, errand, {LABEL_PURPOSE: purpose})


def purpose_of(rebalance: Mapping[str, Any], cluster: Mapping[str, Any]) -> str | None:
    """Returns ``drain`` or ``fill`` for a PulsarRebalance that the operator created for this cluster, else None."""
    meta = rebalance["metadata"]
    owned = any(each.get("uid") == cluster["metadata"]["uid"] for each in meta.get("ownerReferences") or ())
    return (meta.get("labels") or {}).get(LABEL_PURPOSE) if owned else None


def outgrown(rebalance: Mapping[str, Any], pods: Collection[str]) -> bool:
    """Whether it names a broker that is none of the cluster's ``pods``: its plan would wait for that broker without
    end."""
    named = (rebalance.get("spec") or {}).get("brokers") or ()
    return any(str(each).partition(".")[0] not in pods for each in named)


def brokers_change(cluster: Mapping[str, Any]) -> bool:
    """Whether brokers are being replaced or removed, by the cluster's status, so that other plans must wait. A rollout
    that a refused specification suspends replaces no broker.
    """
    status = cluster.get("status") or {}
    rolls = (status.get("rollout") or {}).get("component") == Component.BROKER.value
    refused = any(
        (each.get("type"), each.get("status")) == (ConditionType.PROGRESSING, "False")
        and each.get("reason") in _REFUSALS
        for each in status.get("conditions") or ()
    )
    return bool(status.get("drain")) or (rolls and not refused)


_REFUSALS = frozenset({Reason.INVALID_SPEC, Reason.VERSION_REFUSED})
