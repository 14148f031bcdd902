"""imageRegistry of both charts: before the name of every image, and nothing changes without it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.processes.helm import OPERATOR_CHART, PULSAR_CHART, Helm, HelmError

Json = dict[str, Any]

HOST = "registry.example.com:5000/team"
IMAGE = re.compile(r"(pulsar-(?:operator|broker|bookie|proxy|conformance|sizing)(?::|@)[^\s\"]+)")
SIZED: Json = {"sizing": {"enabled": True, "job": {"master": "k8s://https://kubernetes.default.svc"}}}


def images(text: str, before: str = "") -> list[str]:
    """Every image that is named with something before it, in order."""
    return [found[1] for found in re.finditer(re.escape(before) + IMAGE.pattern, text)]


@pytest.mark.parametrize(("chart", "values"), [(OPERATOR_CHART, {}), (PULSAR_CHART, SIZED)], ids=["operator", "pulsar"])
def test_the_registry_stands_before_every_image(helm: Helm, chart: Any, values: Json) -> None:
    plain, named = helm.text(chart, values), helm.text(chart, {**values, "imageRegistry": HOST})
    assert named.replace(f"{HOST}/", "") == plain, "and nothing else changes"
    assert images(named, f"{HOST}/") == images(plain)
    wanted = {"operator", "broker", "bookie", "proxy"} if chart == OPERATOR_CHART else {"conformance", "sizing"}
    assert {re.split("[:@-]", image)[1] for image in images(plain)} == wanted


def test_a_digest_goes_with_a_registry(helm: Helm) -> None:
    digest = f"sha256:{'a' * 64}"
    text = helm.text(OPERATOR_CHART, {"imageRegistry": HOST, "image": {"digest": digest}})
    assert f'image: "{HOST}/pulsar-operator@{digest}"' in text


@pytest.mark.parametrize(
    "wrong", ["https://registry.example.com", "registry.example.com/", "Registry.example.com/Team"]
)
@pytest.mark.parametrize("chart", [OPERATOR_CHART, PULSAR_CHART], ids=lambda chart: chart.name)
def test_what_is_no_registry_is_refused(helm: Helm, chart: Any, wrong: str) -> None:
    with pytest.raises(HelmError, match="imageRegistry"):
        helm.text(chart, {"imageRegistry": wrong})
