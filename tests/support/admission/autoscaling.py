"""Cases for the admission rules of autoscaling, for the structs that own one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.v1alpha1.base import ApiModel
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, Broker, Proxy
from tests.support.admission.rules import PC, Create, Update

Json = dict[str, Any]


OWNERS: dict[str, type[ApiModel]] = {"broker": Broker, "proxy": Proxy, "bookkeeper": BookKeeper}
"""Structs with autoscaling, by their names in the specification."""


@dataclass(frozen=True)
class Case:
    """A struct that is created, or changed from another."""

    owner: str
    id: str
    after: Json
    refused: str | None = None
    """Fragment of the message; None = accepted."""
    before: Json | None = None


def _limits(least: int = 2, most: int = 5, **fields: Any) -> Json:
    return {"autoscaling": {"minReplicas": least, "maxReplicas": most} | fields}


def _behavior(tolerance: int, up: int, down: int) -> Json:
    return _limits(
        behavior={
            "tolerancePercent": tolerance,
            "scaleUp": {"stabilizationWindowSeconds": up},
            "scaleDown": {"stabilizationWindowSeconds": down},
        }
    )


LIMITS = "autoscaling.minReplicas must not exceed autoscaling.maxReplicas"
STILL = "behavior.tolerancePercent must be above 0, or both stabilizationWindowSeconds"
BANDWIDTH = "targets.bandwidthPercent is a percentage of targets.bandwidthLimit"
NO_CPU = "autoscaling.targets.cpuPercent is a percentage of the CPU limit or request"
FROZEN = "replicas is then only the initial number"
MARKS = "targets.lowDiskPercent must be below targets.diskPercent"
NONE = "targets must contain at least one of"
ENSEMBLE = "autoscaling.minReplicas must not be below ensemble.ensembleSize"
SPLICED = "autoscaling.targets.bandwidthPercent requires config.proxyZeroCopyModeEnabled 'false'"
BANDWIDTH_60 = {"bandwidthPercent": 60, "bandwidthLimit": "100Mi"}
RECORDED = {"trafficSource": "Recorded"}
COUNTED = {"config": {"proxyZeroCopyModeEnabled": "false"}}
MEMORY_ONLY = {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}}

CASES: tuple[Case, ...] = (
    *(Case(owner, "defaults", _limits()) for owner in OWNERS),
    *(Case(owner, "absent", {}) for owner in OWNERS),
    *(Case(owner, "equal", _limits(5, 5)) for owner in OWNERS),
    *(Case(owner, "min-over-max", _limits(6, 5), LIMITS) for owner in OWNERS),
    *(Case(owner, "no-max", {"autoscaling": {"minReplicas": 2}}, "maxReplicas: Required") for owner in OWNERS),
    *(Case(owner, "min-0", _limits(0), "greater than or equal to 1") for owner in OWNERS),
    *(Case(owner, "still-none", _behavior(0, 0, 0), STILL) for owner in OWNERS),
    *(Case(owner, "still-up", _behavior(0, 0, 600), STILL) for owner in OWNERS),
    *(Case(owner, "still-down", _behavior(0, 60, 0), STILL) for owner in OWNERS),
    *(Case(owner, "no-tolerance", _behavior(0, 60, 600)) for owner in OWNERS),
    *(Case(owner, "no-windows", _behavior(1, 0, 0)) for owner in OWNERS),
    *(Case(owner, "frozen", _limits() | {"replicas": 4}, FROZEN, _limits() | {"replicas": 3}) for owner in OWNERS),
    *(Case(owner, "begins", _limits() | {"replicas": 4}, None, {"replicas": 3}) for owner in OWNERS),
    *(Case(owner, "ends", {"replicas": 4}, None, _limits() | {"replicas": 3}) for owner in OWNERS),
    *(
        case
        for owner in ("broker", "proxy")
        for case in (
            Case(owner, "bandwidth", _limits(targets=BANDWIDTH_60) | COUNTED),
            Case(owner, "bandwidth-of-nothing", _limits(targets={"bandwidthPercent": 60}), BANDWIDTH),
            Case(owner, "bandwidth-0", _limits(targets={"bandwidthPercent": 60, "bandwidthLimit": 0}), "of at least 1"),
            Case(owner, "no-target", _limits(targets={}), NONE),
        )
    ),
    Case("broker", "cpu-101", _limits(targets={"cpuPercent": 101}), "less than or equal to 100"),
    Case("broker", "cpu-of-the-preset", _limits(targets={"cpuPercent": 60})),
    Case("broker", "cpu-of-a-request", _limits() | {"resources": {"requests": {"cpu": "2"}}}),
    Case("broker", "cpu-of-a-limit", _limits() | {"resources": {"limits": {"cpu": "2"}}}),
    Case("broker", "cpu-of-nothing", _limits(targets={"cpuPercent": 60}) | MEMORY_ONLY, NO_CPU),
    Case("broker", "cpu-of-nothing-by-default", _limits() | MEMORY_ONLY, NO_CPU),
    Case("broker", "cpu-not-asked-for", _limits(targets={"topics": 500}) | MEMORY_ONLY),
    Case("broker", "forecast", _limits(forecast=RECORDED)),
    Case("broker", "forecast-of-nothing", _limits(forecast={}), "trafficSource: Required"),
    Case("broker", "forecast-live", _limits(forecast={"trafficSource": "Live"}), "Unsupported value"),
    Case("broker", "forecast-elsewhere", _limits(forecast=RECORDED | {"sizing": {"url": "https://there/x"}})),
    Case("broker", "forecast-nowhere", _limits(forecast=RECORDED | {"sizing": {"url": "ftp://there"}}), "url"),
    Case("broker", "forecast-old", _limits(forecast=RECORDED | {"sizing": {"maxAgeSeconds": 604800}})),
    Case("broker", "forecast-of-now", _limits(forecast=RECORDED | {"sizing": {"maxAgeSeconds": 59}}), "equal to 60"),
    Case("broker", "forecast-begins", _limits(forecast=RECORDED), None, _limits()),
    Case("proxy", "drain", _limits(drainSeconds=0)),
    Case("proxy", "bandwidth-spliced", _limits(targets=BANDWIDTH_60), SPLICED),
    Case("proxy", "bandwidth-spliced-in-words", _limits(targets=BANDWIDTH_60) | {"config": {"a": "b"}}, SPLICED),
    Case("bookkeeper", "low-over-disk", _limits(targets={"lowDiskPercent": 75}), MARKS),
    Case("bookkeeper", "disk-over-full", _limits(targets={"fullDiskPercent": 75}), MARKS),
    Case("bookkeeper", "full-95", _limits(targets={"fullDiskPercent": 95}), "less than or equal to 94"),
    Case("bookkeeper", "marks", _limits(targets={"lowDiskPercent": 40, "diskPercent": 60, "fullDiskPercent": 80})),
    Case("bookkeeper", "ensemble", _limits(3) | {"ensemble": {"ensembleSize": 3}}),
    Case("bookkeeper", "ensemble-over-min", _limits(2) | {"ensemble": {"ensembleSize": 3}}, ENSEMBLE),
)


def _with_all(case: Case) -> Json:
    """What comes after, as a merge patch: what is not in it goes."""
    return dict.fromkeys(case.before or {}) | case.after


SCALING_CREATES = tuple(
    Create(PC, f"autoscaling-{case.owner}-{case.id}", {case.owner: case.after}, case.refused)
    for case in CASES
    if case.before is None
)
SCALING_UPDATES = tuple(
    Update(
        PC,
        f"autoscaling-{case.owner}-{case.id}",
        {case.owner: case.before},
        {case.owner: _with_all(case)},
        case.refused,
    )
    for case in CASES
    if case.before is not None
)
"""The same on PulsarCluster."""
