"""The skewed start evened out, by a PulsarRebalance or by Pulsar's own load manager, and measured from outside."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition
from e2e.support.skew import NAMESPACE, Attempt, Brokers, Start, loaded, skewed_start
from pulsar_conformance.counting.report import Report

STATS_SECONDS = 10
ANNOTATION = "pulsaroperator.io/rebalance"


def rebalance(kubectl: Kubectl, namespace: str, name: str, **spec: Any) -> None:
    """Apply a PulsarRebalance of the skewed namespace."""
    body = {"clusterRef": {"name": "east"}, "namespaces": [NAMESPACE], **spec}
    meta = {"name": name, "namespace": namespace}
    kubectl.apply(
        json.dumps(
            {"apiVersion": "pulsaroperator.io/v1alpha1", "kind": "PulsarRebalance", "metadata": meta, "spec": body}
        )
    )


def wait_for(kubectl: Kubectl, namespace: str, name: str, kind: str, *, within: float) -> dict[str, Any]:
    """The object once a condition is True."""

    def there() -> dict[str, Any]:
        found = kubectl.get("pulsarrebalance", namespace, name)
        assert found is not None and condition(found, kind).get("status") == "True", (found or {}).get("status")
        return found

    return eventually(there, within=within, what=f"{kind} of PulsarRebalance {name}")


def annotate(kubectl: Kubectl, namespace: str, name: str, word: str) -> None:
    """Tell a PulsarRebalance what to do."""
    kubectl.run(*("annotate", "prb", name, "-n", namespace, f"{ANNOTATION}={word}", "--overwrite"))


def refreshed(kubectl: Kubectl, namespace: str, name: str, *, within: float) -> dict[str, Any]:
    """The object with a proposal that was computed after this call."""
    annotate(kubectl, namespace, name, "refresh")

    def carried_out() -> bool:
        # The operator takes the annotation off once the status has what came of it.
        found = kubectl.get("pulsarrebalance", namespace, name)
        return found is not None and ANNOTATION not in (found["metadata"].get("annotations") or {})

    eventually(carried_out, within=within, what=f"a refresh of PulsarRebalance {name}")
    return wait_for(kubectl, namespace, name, "ProposalReady", within=within)


def approve(kubectl: Kubectl, namespace: str, name: str, proposal: dict[str, Any]) -> None:
    """Approve a proposal, and no other."""
    annotate(kubectl, namespace, name, f"approve-{proposal['id']}")


@dataclass(frozen=True)
class Evened:
    """What the operator did to the skewed start."""

    attempt: Attempt
    proposal: dict[str, Any]
    status: dict[str, Any]
    report: Report
    columns: str
    dynamic: dict[str, str]
    """The brokers' dynamic configuration afterwards."""


def even_out(brokers: Brokers, service_url: str, start: Start | None = None) -> Evened:
    """By a PulsarRebalance named even: proposed, approved, carried out and measured under traffic."""
    kubectl, namespace = brokers.kubectl, brokers.kubernetes_namespace
    start = start or skewed_start()
    with loaded(service_url, brokers, start) as (run, before):

        def proposed() -> dict[str, Any]:
            rebalance(kubectl, namespace, "even")
            found = refreshed(kubectl, namespace, "even", within=15)
            assert float(found["status"]["proposal"]["before"]["imbalance"]) > start.least, found["status"]["proposal"]
            return found

        proposal = eventually(proposed, within=120, what="a proposal that sees the hot broker")["status"]["proposal"]
        with run.operation("rebalance"):
            begin = time.monotonic()
            approve(kubectl, namespace, "even", proposal)
            status = wait_for(kubectl, namespace, "even", "Completed", within=240)["status"]
            seconds = time.monotonic() - begin
        measured = brokers.unevenness(start.published)
        report = run.finish()
        attempt = Attempt(
            name="operator (PulsarRebalance)",
            seconds=seconds,
            before=before,
            measured=measured,
            moves=proposal["moves"],
            splits=proposal["splits"],
            publish_pause=report.publish_pause.seconds,
            lost=report.lost,
            promised=proposal["after"]["imbalance"],
        )
        columns = kubectl.run("get", "prb", "-n", namespace)
        dynamic = brokers.admin("GET", "brokers/configuration/values")
    return Evened(attempt, proposal, status, report, columns, dynamic)


def left_to_pulsar(
    brokers: Brokers,
    service_url: str,
    name: str,
    settings: Mapping[str, str],
    seconds: float,
    start: Start | None = None,
) -> tuple[Attempt, Report]:
    """Put the start under traffic, and let Pulsar's load manager alone balance it for so many seconds."""
    return left_to(brokers, service_url, name, brokers.dynamic(settings), seconds, start or skewed_start())


def left_to(
    brokers: Brokers, service_url: str, name: str, balancing: AbstractContextManager[None], seconds: float, start: Start
) -> tuple[Attempt, Report]:
    """Put the start under traffic, and let ``balancing`` work on it for so many seconds."""
    with loaded(service_url, brokers, start) as (run, before):
        owners = eventually(brokers.owners, within=30, what="owners of the bundles")
        moves = 0
        with run.operation(name), balancing:
            begin = moved = time.monotonic()
            while (now := time.monotonic()) < max(begin + seconds, moved + 2 * STATS_SECONDS + 5):
                found = brokers.owners_now()
                changed = [bundle for bundle, owner in found.items() if owners.get(bundle, owner) != owner]
                if changed:
                    moves, moved = moves + len(changed), now
                owners |= found
                time.sleep(2)
        measured = brokers.unevenness(start.published)
        bounds = brokers.admin("GET", f"namespaces/{NAMESPACE}/bundles")["boundaries"]
        report = run.finish()
    splits = len(bounds) - len(start.bounds)
    pause = report.publish_pause.seconds
    return Attempt(
        name, moved - begin if moves else seconds, before, measured, moves, splits, pause, report.lost
    ), report
