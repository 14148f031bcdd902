"""The models of autoscaling: what they default to, and that a definition can be made of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pulsar_operator.api.v1alpha1 import autoscaling as api
from pulsar_operator.api.v1alpha1.base import ApiModel
from pulsar_operator.crdschema import structural
from tests.support.admission.autoscaling import OWNERS

LIMITS = {"minReplicas": 2, "maxReplicas": 5}
MODELS = (api.BrokerAutoscaling, api.ProxyAutoscaling, api.BookieAutoscaling)


@pytest.mark.parametrize("model", [*MODELS, *OWNERS.values()], ids=lambda model: model.__name__)
def test_a_definition_can_be_made(model: type[ApiModel]) -> None:
    """With a description of every field; the defaults of nested structs are what their fields default to."""
    schema = structural(model)
    assert all(child["description"] for child in schema["properties"].values())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_limits_are_required(model: type[ApiModel]) -> None:
    assert model.model_validate(LIMITS)
    for name in LIMITS:
        with pytest.raises(ValidationError):
            model.model_validate({name: 3})


def test_bandwidth_is_a_quantity() -> None:
    targets = api.BrokerTargets.model_validate({"bandwidthPercent": 60, "bandwidthLimit": "100Mi"})
    assert targets.bandwidth_limit == 100 * 2**20
