"""domain/apply: when a child is applied again, why, and which entries of others are taken away."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import ANNOTATION_APPLIED_HASH
from pulsar_operator.domain.apply import first_difference, foreign_entries, manifest_hash, stamped, why_apply

WANTED: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "b", "labels": {"app": "b"}},
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "nodeSelector": {"disk": "fast"},
                "containers": [
                    {
                        "name": "main",
                        "image": "i:1",
                        "args": ["x", "y"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
                        "resources": {"limits": {"memory": "1Gi", "cpu": "500m"}},
                    }
                ],
            }
        },
    },
}


def live(change: Any = None) -> dict[str, Any]:
    """The object as the API server would return it: stamped, with defaults."""
    obj = stamped(copy.deepcopy(WANTED))
    obj["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    obj["spec"]["updateStrategy"] = {"type": "OnDelete"}
    container = obj["spec"]["template"]["spec"]["containers"][0]
    container["terminationMessagePath"] = "/dev/termination-log"
    container["resources"]["limits"] = {"memory": "1073741824", "cpu": "0.5"}
    container["env"][1] = {"name": "B"}
    if change is not None:
        change(obj, container)
    return obj


def test_the_stamp_is_not_put_on_what_was_given() -> None:
    for given_one in (WANTED, {**WANTED, "metadata": {"name": "b", "annotations": {"mine": "1"}}}):
        before = copy.deepcopy(given_one)
        found = stamped(given_one)
        assert given_one == before
        annotations = before["metadata"].get("annotations") or {}
        stamp = {ANNOTATION_APPLIED_HASH: manifest_hash(before)}
        assert found == {**before, "metadata": {**before["metadata"], "annotations": annotations | stamp}}


def test_nothing_to_do_when_only_defaults_were_added() -> None:
    assert why_apply(WANTED, live()) is None


def test_an_absent_object_is_applied() -> None:
    assert why_apply(WANTED, None) == "it does not exist"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda o, c: o["spec"].update(replicas=3), "spec.replicas changed from 3 to 2"),
        (lambda o, c: c.update(image="i:2"), 'containers[main].image changed from "i:2" to "i:1"'),
        (lambda o, c: c["args"].append("z"), "containers[main].args changed from 3 to 2 entries"),
        (lambda o, c: c["env"].pop(0), "containers[main].env[A] is missing"),
        (lambda o, c: c["resources"]["limits"].update(cpu="600m"), 'limits.cpu changed from "600m" to "500m"'),
        (lambda o, c: o["metadata"]["labels"].clear(), "metadata.labels.app is missing"),
        (lambda o, c: c["env"].append({"name": "X", "value": "by hand"}), "/env/2 is not managed by the operator"),
        (
            lambda o, c: o["spec"]["template"]["spec"]["nodeSelector"].update(zone="a"),
            "/nodeSelector/zone is not managed",
        ),
    ],
)
def test_the_reason_names_the_first_difference(change: Any, words: str) -> None:
    reason = why_apply(WANTED, live(change))
    assert reason is not None and words in reason


def test_values_of_free_text_stay_out_of_the_reason() -> None:
    reason = why_apply(WANTED, live(lambda o, c: c["env"][0].update(value="secret")))
    assert reason is not None and reason.endswith("containers[main].env[A].value changed")
    settings = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"overrides.conf": "password=one"}}
    found = stamped(copy.deepcopy(settings))
    found["data"]["overrides.conf"] = "password=two"
    assert why_apply(settings, found) == "data.overrides.conf changed"


def test_a_field_that_left_the_manifest_is_noticed_by_the_hash() -> None:
    older = copy.deepcopy(WANTED)
    older["spec"]["template"]["spec"]["priorityClassName"] = "high"
    assert why_apply(WANTED, stamped(older)) == "its rendered content changed"


def test_shared_metadata_is_not_ours_as_a_whole() -> None:
    def change(obj: dict[str, Any], _: Any) -> None:
        obj["metadata"]["labels"]["theirs"] = "1"
        obj["metadata"]["annotations"]["theirs"] = "1"

    assert why_apply(WANTED, live(change)) is None


def test_the_order_of_keyed_entries_does_not_matter() -> None:
    assert why_apply(WANTED, live(lambda o, c: c["env"].reverse())) is None


def remove(obj: Any, pointer: str) -> None:
    """What a JSON patch does."""
    *parents, last = [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]
    for token in parents:
        obj = obj[int(token)] if isinstance(obj, list) else obj[token]
    del obj[int(last) if isinstance(obj, list) else last]


NAMES = st.text("abcd/~", min_size=1, max_size=4)


@given(ours=st.dictionaries(NAMES, st.text(max_size=3), max_size=5), theirs=st.dictionaries(NAMES, st.text(max_size=3)))
def test_removing_foreign_entries_leaves_exactly_ours(ours: dict[str, str], theirs: dict[str, str]) -> None:
    wanted = {
        "data": ours,
        "spec": {"env": [{"name": k, "value": v} for k, v in ours.items()] or [{"name": "only", "value": ""}]},
    }
    found = {
        "data": {**theirs, **ours},
        "spec": {"env": [{"name": k} for k in theirs if k not in ours] + copy.deepcopy(wanted["spec"]["env"])},
    }
    if not ours:
        found["spec"]["env"] = [e for e in found["spec"]["env"] if e["name"] != "only"] + [
            {"name": "only", "value": ""}
        ]
    for pointer in foreign_entries(wanted, found):
        remove(found, pointer)
    assert found == wanted
    assert first_difference(wanted, found) is None
    assert foreign_entries(wanted, found) == []


def test_the_hash_depends_on_content_not_on_order() -> None:
    assert manifest_hash({"a": 1, "b": 2}) == manifest_hash({"b": 2, "a": 1}) != manifest_hash({"a": 1, "b": 3})
