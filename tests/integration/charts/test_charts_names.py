"""Names that YAML reads as something else than text stay names, whatever a release or its namespace is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.helm import OPERATOR_CHART, PULSAR_CHART, Helm, HelmError

Json = dict[str, Any]
NOT_TEXT = ["true", "null", "123", "1e3", "0x1f"]
MONITORED: Json = {"podMonitor": {"enabled": True}}
OPERATOR: Json = {
    "metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
    "crds": {"install": False},
    "watchNamespaces": ["456"],
}
NAMED = {"name", "namespace", "serviceAccountName", "claimName"}


def not_text(value: Any, where: str = "") -> Iterator[str]:
    """Places of names, labels and annotations that are no text."""
    if isinstance(value, list):
        for number, entry in enumerate(value):
            yield from not_text(entry, f"{where}[{number}]")
    if isinstance(value, dict):
        for key, member in value.items():
            place = f"{where}.{key}"
            if key in ("labels", "matchLabels", "annotations"):
                yield from (f"{place}.{name}" for name, text in (member or {}).items() if not isinstance(text, str))
            elif key in NAMED and not isinstance(member, (str, dict)):
                yield place
            else:
                yield from not_text(member, place)


@pytest.mark.parametrize("name", NOT_TEXT)
@pytest.mark.parametrize(
    ("chart", "values"),
    [
        (OPERATOR_CHART, OPERATOR),
        (OPERATOR_CHART, {**OPERATOR, "clusterScope": True, "watchNamespaces": []}),
        (PULSAR_CHART, {**MONITORED, "cluster": {"name": "east"}}),
        (PULSAR_CHART, {**MONITORED, "cluster": {"name": "null"}, "instance": {"name": "true"}}),
        (
            PULSAR_CHART,
            {**MONITORED, "cluster": {"name": "true"}, "instance": {"name": "a"}, "sizing": {"enabled": True}},
        ),
    ],
)
def test_names_are_text(helm: Helm, chart: Path, values: Json, name: str) -> None:
    objects = helm.template(chart, values, release=name, namespace=name)
    assert objects
    assert [f"{obj['kind']}{place}" for obj in objects for place in not_text(obj)] == []
    assert {obj["metadata"]["labels"]["app.kubernetes.io/instance"] for obj in objects} >= {name}
    assert {obj["metadata"].get("namespace", name) for obj in objects} <= {name, "456"}


@pytest.mark.parametrize("name", ["true", "null"])
def test_a_release_names_its_cluster_whatever_it_is_called(helm: Helm, name: str) -> None:
    objects = helm.template(PULSAR_CHART, {**MONITORED, "sizing": {"enabled": True}}, release=name)
    assert [place for obj in objects for place in not_text(obj)] == []
    assert {obj["metadata"]["name"] for obj in objects if obj["kind"] == "PulsarCluster"} == {name}


@pytest.mark.parametrize("instance", [{}, {"create": False, "name": "there"}])
def test_a_cluster_that_exists_is_named(helm: Helm, instance: Json) -> None:
    """By the release's name nobody meant it."""
    with pytest.raises(HelmError) as refused:
        helm.template(PULSAR_CHART, {"instance": instance, "cluster": {"create": False}}, release="demo")
    assert "cluster.name must be set when cluster.create is false" in str(refused.value)
    named = {"instance": instance, "cluster": {"create": False, "name": "east"}}
    assert helm.template(PULSAR_CHART, named, release="demo")
