"""A restart that somebody asked for: what the pod template says, and what rolls nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pulsar_operator.api.constants import (
    ANNOTATION_CONFIG_HASH,
    ANNOTATION_RESTART,
    ANNOTATION_RESTART_REASON,
    LABEL_COMPONENT,
    Component,
)
from pulsar_operator.domain.apply import why_apply
from pulsar_operator.domain.dataplane.rollout.pod_diff import replacement_reason
from pulsar_operator.domain.dataplane.rollout.restart import NO_REASON, restart_reason, restart_text, with_restart
from pulsar_operator.domain.render import render_cluster
from tests.support.cluster.rendering import distributed, inputs

Json = dict[str, Any]


def rendered() -> list[Json]:
    """The StatefulSets of a cluster."""
    return [each for each in render_cluster(inputs(distributed())).all() if each["kind"] == "StatefulSet"]


def broker() -> Json:
    """The one of the brokers."""
    (found,) = [each for each in rendered() if each["metadata"]["labels"][LABEL_COMPONENT] == Component.BROKER]
    return found


def template(manifest: Json) -> Json:
    """Its pod template."""
    return dict(manifest["spec"]["template"])


def test_the_annotation_is_not_that_of_the_templates() -> None:
    assert ANNOTATION_RESTART == "pulsaroperator.io/restart" != ANNOTATION_RESTART_REASON


def test_every_template_gets_the_reason_and_nothing_else_changes() -> None:
    for manifest in rendered():
        before = copy.deepcopy(manifest)
        out = with_restart(manifest, "certificates were replaced", template(manifest))
        assert manifest == before, "a copy"
        assert restart_reason(template(out)) == "certificates were replaced"
        assert ANNOTATION_CONFIG_HASH in template(out)["metadata"]["annotations"]
        del out["spec"]["template"]["metadata"]["annotations"][ANNOTATION_RESTART_REASON]
        assert out == manifest


def test_nobody_asked() -> None:
    assert with_restart(broker(), None, None) == broker()
    assert with_restart(broker(), None, template(broker())) == broker()
    assert restart_reason(None) is None and restart_reason({}) is None


def test_taking_the_annotation_off_rolls_nothing() -> None:
    asked = with_restart(broker(), "first", template(broker()))
    after = with_restart(broker(), None, template(asked))
    assert after == asked
    assert with_restart(after, None, template(after)) == asked, "and so for ever"


def test_a_new_value_asks_again_and_the_same_one_does_not() -> None:
    asked = with_restart(broker(), "first", template(broker()))
    assert with_restart(broker(), "first", template(asked)) == asked
    again = with_restart(broker(), "second", template(asked))
    assert why_apply(again, asked) is not None
    assert replacement_reason(template(asked), template(again)) == "a restart was requested: second"


def test_a_workload_that_is_not_there_yet_begins_with_the_reason() -> None:
    assert restart_reason(template(with_restart(broker(), "first", None))) == "first"


def test_components_that_were_not_asked_keep_what_they_have() -> None:
    asked = with_restart(broker(), "first", None)
    others = {Component.BOOKIE, Component.PROXY}
    assert with_restart(broker(), "second", template(asked), others) == asked
    assert with_restart(broker(), "second", template(broker()), others) == broker()
    again = with_restart(broker(), "second", template(asked), {Component.BROKER})
    assert restart_reason(template(again)) == "second"


def test_a_template_without_annotations_gets_them() -> None:
    bare = {"kind": "StatefulSet", "metadata": {"name": "x"}, "spec": {"template": {"spec": {}}}}
    assert with_restart(bare, "why", None)["spec"]["template"] == {
        "metadata": {"annotations": {ANNOTATION_RESTART_REASON: "why"}},
        "spec": {},
    }
    assert with_restart(bare, "why", None, {Component.BROKER}) == bare


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("Zertifikat erneuert – größer, 証明書", "Zertifikat erneuert – größer, 証明書"),
        ("two\nlines\tand\x1b[31mcolour\x00", "two lines and [31mcolour"),
        ("c1\x85line\u2028and\u2029paragraph", "c1 line and paragraph"),
        ("  around  ", "around"),
        ("", NO_REASON),
        (" \n ", NO_REASON),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200),
        ("x" * 199 + " y", "x" * 199),
    ],
)
def test_the_reason_as_it_is_kept(value: str, text: str) -> None:
    assert restart_text(value) == text
    assert restart_reason(template(with_restart(broker(), value, None))) == text
