"""Every mutation of tests/support/mutations/changes.py is one that a user can make: the API server admits it, and its
reverse but where it is written that it does not."""

from __future__ import annotations

from itertools import count

import pytest

from pulsar_operator.api.constants import Kind
from tests.support.admission.samples import manifest, minimal, path
from tests.support.mutations.chains import KINDS, Json
from tests.support.mutations.changes import filled, mutations
from tests.support.policies.examples import PLACEHOLDERS
from tests.support.processes.apiserver import ApiServer, Response

STRICT = {"fieldValidation": "Strict"}


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(apiserver: ApiServer, namespace: str, kind: Kind) -> None:
    wrong: list[str] = []
    numbers = count()
    for mutation in mutations(kind):
        before, after = (filled(_references(kind) | spec, PLACEHOLDERS) for spec in (mutation.before, mutation.after))
        document = manifest(kind, f"m{next(numbers)}", before)
        made = apiserver.request("POST", path(kind, namespace), document, query=STRICT)
        if made.code != 201:
            wrong.append(f"{mutation.id}: S0: {made.message}")
            continue
        there = _replaced(apiserver, namespace, made.body, after)
        if there.code != 200:
            wrong.append(f"{mutation.id}: S1: {there.message}")
            continue
        back = _replaced(apiserver, namespace, there.body, before)
        refused = mutation.no_way_back
        if back.code != 200 if refused is None else refused not in back.message:
            wrong.append(f"{mutation.id}: back to S0: {back.code} {back.message}")
    assert wrong == []


def _references(kind: Kind) -> Json:
    return {name: value for name, value in minimal(kind).items() if name.endswith("Ref")}


def _replaced(apiserver: ApiServer, namespace: str, stored: Json, spec: Json) -> Response:
    target = path(Kind(stored["kind"]), namespace, stored["metadata"]["name"])
    return apiserver.request("PUT", target, {**stored, "spec": spec}, query=STRICT)
