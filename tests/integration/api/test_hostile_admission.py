"""Hostile text in every place that takes text, at the API server: refused with the field's name, or stored exactly."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.admission.samples import manifest, path
from tests.support.hostile.places import LONE_SURROGATE, PLACES, VALUES, Json, Place, references
from tests.support.mutations.changes import filled
from tests.support.policies.examples import PLACEHOLDERS
from tests.support.processes.apiserver import ApiServer

DRY = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.id)
def test_refused_by_name_or_stored_exactly(apiserver: ApiServer, place: Place) -> None:
    wrong: list[str] = []
    for label, text in VALUES.items():
        spec = _spec(place, text)
        answer = apiserver.request(
            "POST", path(place.kind, "default"), manifest(place.kind, "hostile", spec), query=DRY
        )
        if answer.code == 201:
            stored = answer.body["spec"]
            if not place.form.takes(label):
                wrong.append(f"{label}: admitted")
            elif any(stored[name] != value for name, value in spec.items() if name == place.field):
                wrong.append(f"{label}: stored as {stored[place.field]!r}")
        elif place.form.takes(label):
            wrong.append(f"{label}: refused: {answer.message[:300]}")
        elif answer.code not in (400, 422) or place.field not in answer.message:
            wrong.append(f"{label}: refused without the field's name: {answer.code} {answer.message[:300]}")
    assert wrong == []


@pytest.mark.parametrize("place", [place for place in PLACES if place.form.takes("emoji")], ids=lambda p: p.id)
def test_a_lone_surrogate_never_arrives(apiserver: ApiServer, place: Place) -> None:
    """Kubernetes stores the replacement character in its place, before anything of ours sees it."""
    spec = _spec(place, LONE_SURROGATE)
    answer = apiserver.request("POST", path(place.kind, "default"), manifest(place.kind, "hostile", spec), query=DRY)
    assert answer.code == 201, answer.message
    assert answer.body["spec"][place.field] == _spec(place, "a\ufffdb")[place.field]


def _spec(place: Place, text: str) -> Json:
    spec: dict[str, Any] = references(place.kind) | filled(place.spec(text), PLACEHOLDERS)
    return spec
