"""Where pods of a component run, how they stop, how they are probed, how many may be evicted."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.pods import PodTemplate, ProbeTimings
from pulsar_operator.domain.render import render_cluster, spec_problems
from pulsar_operator.domain.render.pod_placement import affinity, zone_spread
from tests.support.cluster.rendering import distributed, inputs, of_kind, overrides, standalone

Json = dict[str, Any]
SELECTOR = {"app": "x"}
TERM = {"labelSelector": {"matchLabels": SELECTOR}, "topologyKey": "kubernetes.io/hostname"}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": TERM}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
NODES = {"nodeAffinity": {"a": "b"}}
THEIRS = {"topologyKey": "rack"}


def template(**pod: Any) -> PodTemplate:
    return PodTemplate.model_validate(pod)


def rendered(component: Component, section: Json) -> Json:
    """The pod of a component with a pod template."""
    sections = {
        Component.ZOOKEEPER: {"metadataStore": {"managed": {"replicas": 1, "pod": section}}},
        Component.BOOKIE: {"bookkeeper": {"replicas": 2, "pod": section}},
        Component.AUTORECOVERY: {"bookkeeper": {"replicas": 2, "autoRecovery": {"pod": section}}},
        Component.BROKER: {"broker": {"pod": section}},
        Component.PROXY: {"proxy": {"pod": section}},
    }
    spec = standalone(pod=section) if component is Component.STANDALONE else distributed(**sections[component])
    assert spec_problems(spec) == []
    manifests = render_cluster(inputs(spec)).of(component)
    return dict(of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"])


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        ({}, {"podAntiAffinity": PREFERRED}),
        ({"podAntiAffinity": "Preferred"}, {"podAntiAffinity": PREFERRED}),
        ({"podAntiAffinity": "Required"}, {"podAntiAffinity": REQUIRED}),
        ({"affinity": NODES}, NODES),
        ({"affinity": {}}, {}),
        ({"affinity": NODES, "podAntiAffinity": "Required"}, {**NODES, "podAntiAffinity": REQUIRED}),
        (
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [THEIRS], **PREFERRED}
                },
                "podAntiAffinity": "Required",
            },
            {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [THEIRS, TERM], **PREFERRED}},
        ),
    ],
)
def test_copies_are_kept_apart_beside_what_a_user_says_of_nodes(pod: Json, wanted: Json) -> None:
    assert affinity(template(**pod), SELECTOR) == wanted


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        ({}, ["ScheduleAnyway"]),
        ({"zoneSpread": "Preferred"}, ["ScheduleAnyway"]),
        ({"zoneSpread": "Required"}, ["DoNotSchedule"]),
        ({"topologySpreadConstraints": []}, []),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "x"}]}, ["x"]),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "x"}], "zoneSpread": "Required"}, ["x", "DoNotSchedule"]),
    ],
)
def test_copies_are_spread_over_zones(pod: Json, wanted: list[str]) -> None:
    assert [each["whenUnsatisfiable"] for each in zone_spread(template(**pod), SELECTOR)] == wanted


DEFAULT_GRACE = {
    Component.ZOOKEEPER: 30,
    Component.BOOKIE: 60,
    Component.AUTORECOVERY: 30,
    Component.BROKER: 90,
    Component.PROXY: 60,
    Component.STANDALONE: 90,
}


@pytest.mark.parametrize(("component", "default"), DEFAULT_GRACE.items())
def test_a_pod_serves_on_while_it_is_taken_out_and_keeps_its_time_to_stop(component: Component, default: int) -> None:
    plain = rendered(component, {})
    assert plain["terminationGracePeriodSeconds"] == default
    assert "lifecycle" not in plain["containers"][0]
    sleeping = rendered(component, {"preStopSleepSeconds": 15})
    assert sleeping["terminationGracePeriodSeconds"] == default + 15
    command = sleeping["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert command == ["python3", "-I", "-c", "import time; time.sleep(15)"]
    assert rendered(component, {"terminationGracePeriodSeconds": 300})["terminationGracePeriodSeconds"] == 300


@pytest.mark.parametrize(
    ("pod", "milliseconds"),
    [
        ({}, 60_000),
        ({"preStopSleepSeconds": 15}, 60_000),
        ({"terminationGracePeriodSeconds": 300}, 200_000),
        ({"terminationGracePeriodSeconds": 300, "preStopSleepSeconds": 30}, 180_000),
    ],
)
def test_brokers_hand_over_within_the_time_they_have(pod: Json, milliseconds: int) -> None:
    for manifests in (
        render_cluster(inputs(distributed(broker={"pod": pod}))).of(Component.BROKER),
        render_cluster(inputs(standalone(pod=pod))).of(Component.STANDALONE),
    ):
        assert overrides(manifests)["brokerShutdownTimeoutMs"] == str(milliseconds)
        spec = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
        assert milliseconds < (spec["terminationGracePeriodSeconds"] - pod.get("preStopSleepSeconds", 0)) * 1000


@pytest.mark.parametrize(("grace", "refused"), [(24, True), (25, False)])
def test_a_process_has_time_to_stop_after_the_hook(grace: int, refused: bool) -> None:
    pod = {"terminationGracePeriodSeconds": grace, "preStopSleepSeconds": 15}
    found = spec_problems(distributed(proxy={"pod": pod}))
    words = (
        f"spec.proxy.pod.terminationGracePeriodSeconds = {grace} leaves less than 10 s after preStopSleepSeconds = 15"
    )
    assert bool(found) is refused
    assert all(
        problem.startswith(words) and "Raise terminationGracePeriodSeconds to 25" in problem for problem in found
    )


def test_timings_of_probes_change_and_what_they_ask_does_not() -> None:
    pod = {
        "readinessProbe": {"periodSeconds": 7, "initialDelaySeconds": 0},
        "livenessProbe": {"failureThreshold": 10},
        "startupProbe": {"failureThreshold": 720, "initialDelaySeconds": 5},
    }
    before, after = (rendered(Component.BOOKIE, each)["containers"][0] for each in ({}, pod))
    assert after["readinessProbe"] == {**before["readinessProbe"], "periodSeconds": 7}
    assert after["livenessProbe"] == {**before["livenessProbe"], "failureThreshold": 10}
    assert after["startupProbe"] == {**before["startupProbe"], "failureThreshold": 720, "initialDelaySeconds": 5}


def described(model: type[BaseModel], field: str) -> str:
    return " ".join(str(model.model_fields[field].description).split())


def test_descriptions_state_the_timings_that_apply() -> None:
    pods = {component: rendered(component, {})["containers"][0] for component in DEFAULT_GRACE}

    def common(field: str, probe: str) -> int:
        """The value that all components have."""
        (value,) = {pod[probe][field] for pod in pods.values()}
        return int(value)

    for name, field in (("period_seconds", "periodSeconds"), ("timeout_seconds", "timeoutSeconds")):
        live, other = common(field, "livenessProbe"), common(field, "readinessProbe")
        assert common(field, "startupProbe") == other
        assert f"Defaults to {live} for livenessProbe and to {other} for the" in described(ProbeTimings, name)
    ready, live = (common("failureThreshold", probe) for probe in ("readinessProbe", "livenessProbe"))
    start = {component: pod["startupProbe"]["failureThreshold"] for component, pod in pods.items()}
    assert start[Component.BROKER] == start[Component.STANDALONE]
    (other,) = {start[each] for each in (Component.ZOOKEEPER, Component.AUTORECOVERY, Component.PROXY)}
    assert described(ProbeTimings, "failure_threshold").endswith(
        f"Defaults to {ready} for readinessProbe, {live} for livenessProbe, and for startupProbe to "
        f"{start[Component.BOOKIE]} (bookies), {start[Component.BROKER]} (brokers, standalone pods) or {other} "
        "(other pods)."
    )
    grace = described(PodTemplate, "termination_grace_period_seconds")
    assert grace.endswith("plus 90 (brokers, standalone pods), 60 (bookies, proxies) or 30 (other pods).")


def test_folders_on_the_node_may_be_limited() -> None:
    volumes = rendered(Component.BROKER, {"tmpDirSizeLimit": "1Gi", "logsDirSizeLimit": 5})["volumes"]
    limits = {volume["name"]: volume["emptyDir"] for volume in volumes if "emptyDir" in volume}
    assert limits == {"tmp": {"sizeLimit": "1Gi"}, "logs": {"sizeLimit": "5"}, "conf-rendered": {}}


@pytest.mark.parametrize(
    ("budget", "bookies", "recoveries"),
    [
        (None, [1], []),
        ({}, [1], [1]),
        ({"maxUnavailable": 2}, [2], [2]),
        ({"enabled": False}, [], []),
        ({"enabled": False, "maxUnavailable": 2}, [], []),
    ],
)
def test_budgets_are_off_or_wider_where_a_user_says_so(
    budget: Json | None, bookies: list[int], recoveries: list[int]
) -> None:
    pod = {"pod": {"podDisruptionBudget": budget}} if budget is not None else {}
    found = render_cluster(inputs(distributed(bookkeeper={"replicas": 2, "autoRecovery": pod, **pod})))
    for component, wanted in ((Component.BOOKIE, bookies), (Component.AUTORECOVERY, recoveries)):
        budgets = [m for m in found.of(component) if m["kind"] == "PodDisruptionBudget"]
        assert [each["spec"]["maxUnavailable"] for each in budgets] == wanted
        assert found.of(component)[-1]["kind"] == "StatefulSet"


@pytest.mark.parametrize(
    ("replicas", "budget", "words"),
    [
        (3, {"maxUnavailable": 1}, None),
        (3, {"maxUnavailable": 2}, "would allow the ensemble of 3 to lose its majority. Lower it to 1"),
        (5, {"maxUnavailable": 2}, None),
        (5, {"maxUnavailable": 3}, "Lower it to 2"),
        (1, {"maxUnavailable": 1}, None),
        (3, {"maxUnavailable": 2, "enabled": False}, None),
    ],
)
def test_evictions_never_take_the_majority_of_an_ensemble(replicas: int, budget: Json, words: str | None) -> None:
    managed = {"replicas": replicas, "pod": {"podDisruptionBudget": budget}}
    found = spec_problems(distributed(metadataStore={"managed": managed}))
    assert len(found) == (0 if words is None else 1)
    assert all(words is not None and words in problem for problem in found)
