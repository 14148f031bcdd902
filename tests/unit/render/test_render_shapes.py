"""Whatever stands where a definition leaves the shape open, it is told in words and rendering goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.domain.render import render_cluster, spec_problems
from pulsar_operator.domain.render.shapes import AFFINITY, SOURCES, SPREAD, TOLERATIONS, Shape
from tests.support.cluster.rendering import distributed, inputs

Json = dict[str, Any]
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
ZONE = "topology.kubernetes.io/zone"
POD = "spec.broker.pod"


def problems(**pod: Any) -> list[str]:
    """Of a whole specification, with rendering where there are none."""
    return of(distributed(broker={"replicas": 2, "pod": pod}))


def of(spec: PulsarClusterSpec) -> list[str]:
    found = spec_problems(spec)
    if not found:
        render_cluster(inputs(spec))
    return found


def in_volume(*sources: Json) -> Json:
    return {"volumes": [{"name": "p", "projected": {"sources": list(sources)}}]}


WRONG: list[tuple[Json, str]] = [
    ({"affinity": {"podAntiAffinity": ["x"]}}, "affinity.podAntiAffinity is a list. Write a map"),
    ({"affinity": {"podAntiAffinity": "hush"}}, "affinity.podAntiAffinity is text. Write a map"),
    ({"affinity": {"podAntiAffinity": False}}, "affinity.podAntiAffinity is true or false. Write a map"),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: 5}}},
        f"affinity.podAntiAffinity.{REQUIRED} is a number. Write a list",
    ),
    (
        {"affinity": {"podAntiAffinity": {PREFERRED: {}}}},
        f"affinity.podAntiAffinity.{PREFERRED} is a map. Write a list",
    ),
    (
        {"affinity": {"podAffinity": {REQUIRED: [None]}}},
        f"affinity.podAffinity.{REQUIRED}[0] is null. Write a map",
    ),
    ({"affinity": {"nodeAffinity": []}}, "affinity.nodeAffinity is a list. Write a map"),
    (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"values": "a"}]}]}}}},
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values is text. Write a list",
    ),
    (
        {"tolerations": [{"key": "k", "tolerationSeconds": "hush"}]},
        "tolerations[0].tolerationSeconds is text. Write a num",
    ),
    ({"tolerations": [{"value": True}]}, "tolerations[0].value is true or false. Write text"),
    (
        {"topologySpreadConstraints": [{"maxSkew": 1}, {"maxSkew": True}]},
        "topologySpreadConstraints[1].maxSkew is true or false. Write a number",
    ),
    (
        {"topologySpreadConstraints": [{"topologyKey": ["a"], "whenUnsatisfiable": {}}]},
        "topologySpreadConstraints[0].topologyKey is a list. Write text",
    ),
    (
        {"topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"a": 1}}}]},
        "topologySpreadConstraints[0].labelSelector.matchLabels.a is a number. Write text",
    ),
    (in_volume({"secret": "hush"}), "volumes[0].projected.sources[0].secret is text. Write a map"),
    (in_volume({"secret": {}}, {"configMap": {"items": {}}}), "sources[1].configMap.items is a map. Write a list"),
    (
        in_volume({"serviceAccountToken": {"expirationSeconds": 1.5}}),
        "expirationSeconds is a fraction. Write a number",
    ),
]


@pytest.mark.parametrize(("pod", "words"), WRONG)
@pytest.mark.parametrize("together", [{}, {"podAntiAffinity": "Required", "zoneSpread": "Required"}])
def test_what_is_of_another_type_is_told_with_its_place(together: Json, pod: Json, words: str) -> None:
    """Without affinity of its own, a list where a map belongs stopped the whole cluster's reconcile."""
    found = problems(**pod, **together)
    assert any(problem.startswith(f"{POD}.{words}") or words in problem for problem in found), found
    assert all(problem.startswith(f"{POD}.") and problem.endswith(", as in a PodSpec") for problem in found)
    assert "hush" not in "".join(found)


RIGHT: list[Json] = [
    {"affinity": {}},
    {"affinity": {"podAntiAffinity": None, "nodeAffinity": {REQUIRED: None}}},
    {"affinity": {"inAnotherVersion": ["x"], "podAffinity": {"alsoThere": 1}}},
    {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1.0, "podAffinityTerm": {"topologyKey": "a"}}]}}},
    {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}, {}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]},
    in_volume({"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
]


@pytest.mark.parametrize("pod", RIGHT)
@pytest.mark.parametrize("together", [{}, {"podAntiAffinity": "Required", "zoneSpread": "Required"}])
def test_what_kubernetes_takes_is_passed_on(together: Json, pod: Json) -> None:
    """Members that another version of Kubernetes has are Kubernetes' to judge."""
    assert problems(**pod, **together) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**40) | st.floats() | st.text(max_size=3),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=5,
)
LEAVES: dict[type[Any], st.SearchStrategy[Any]] = {
    str: st.sampled_from(["", "a", ZONE, "ScheduleAnyway"]),
    int: st.integers(0, 9),
    bool: st.booleans(),
}


def nearly(draw: Callable[[st.SearchStrategy[Any]], Any], shape: Shape) -> Any:
    """A value of a shape, with anything else at any place."""
    if draw(st.integers(0, 3)) == 3:
        return draw(JSON)
    if isinstance(shape, type):
        return draw(LEAVES[shape])
    if isinstance(shape, list):
        return [nearly(draw, shape[0]) for _ in range(draw(st.integers(0, 2)))]
    return {name: nearly(draw, member) for name, member in shape.items() if draw(st.booleans())}


SHAPES: dict[str, Shape] = {
    "affinity": AFFINITY,
    "tolerations": TOLERATIONS,
    "topologySpreadConstraints": SPREAD,
    "sources": SOURCES,
    "args": [str],
}


def _fits(pod: Json) -> bool:
    """Whether the definition lets it through: entries of its lists are maps."""
    try:
        PodTemplate.model_validate(pod)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("part", SHAPES)
@given(data=st.data())
def test_no_value_stops_the_check_or_the_rendering(part: str, data: st.DataObject) -> None:
    value = nearly(data.draw, SHAPES[part])
    pod: Json = {part: value}
    if part == "sources":
        pod = in_volume()
        pod["volumes"][0]["projected"]["sources"] = value
    elif part == "args":
        pod = {"sidecars": [{"name": "s", "image": "i", "args": value}]}
    if _fits(pod):
        problems(**pod, podAntiAffinity="Required", zoneSpread="Required")


def constraint(key: str, when: str) -> Json:
    return {"maxSkew": 2, "topologyKey": key, "whenUnsatisfiable": when}


@pytest.mark.parametrize(("wanted", "when"), [("Preferred", "ScheduleAnyway"), ("Required", "DoNotSchedule")])
def test_zones_are_spread_over_by_one_constraint_of_a_kind(wanted: str, when: str) -> None:
    (problem,) = problems(zoneSpread=wanted, topologySpreadConstraints=[constraint(ZONE, when)])
    assert problem.startswith(f"{POD}.zoneSpread = {wanted} is a constraint for {ZONE} with {when}, and ")
    assert problem.endswith("Remove zoneSpread or the entry")
    other = "DoNotSchedule" if when == "ScheduleAnyway" else "ScheduleAnyway"
    beside = [constraint(ZONE, other), constraint("rack", when)]
    assert problems(zoneSpread=wanted, topologySpreadConstraints=beside) == []
    assert problems(topologySpreadConstraints=[constraint(ZONE, when)]) == []


def test_two_constraints_of_a_kind_are_refused() -> None:
    (problem,) = problems(topologySpreadConstraints=[constraint("rack", "ScheduleAnyway")] * 2)
    assert problem.startswith(
        f"{POD}.topologySpreadConstraints[1] has the topologyKey and whenUnsatisfiable of another"
    )
    assert problem.endswith(". Remove one of them")
