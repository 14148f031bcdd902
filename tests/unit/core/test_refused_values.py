"""What Kubernetes says of a value it refuses, without the value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.texts import without_refused_values

GO = [
    '"{}"',
    "`{}`",
    '[]string{{"{} b", "{}"}}',
    '[]string{{"{}: \\"]}}, b", "{}"}}',
    'map[string]string{{"k":"{}: x", "l":"{}"}}',
    'map[string]interface {{}}{{"k":[]interface {{}}{{"{}: x"}}}}',
    "map[k:{} l: {}]",
    'core.EnvVar{{Name:"n", Value:"{}: ", From:(*core.EnvVarSource)(nil)}}',
    'intstr.IntOrString{{Type:1, IntVal:0, StrVal:"{}"}}',
    '&v1.X{{A:"{}"}}',
    '{{"k": ["{}: x"]}}',
    "{}",
]
"""Values as Go and JSON write them."""


@pytest.mark.parametrize("value", GO)
@pytest.mark.parametrize("what", ["Invalid", "Unsupported", "Duplicate"])
def test_a_refused_value_of_any_form_is_left_out(what: str, value: str) -> None:
    refused = f"{what} value: {value.format('s3cret', 's3cret')}"
    assert without_refused_values(f"spec.a[0]: {refused}: the rule: more") == f"spec.a[0]: {what} value: the rule: more"
    assert without_refused_values(f"spec.a: {refused}") == f"spec.a: {what} value: "
    if value != "{}":
        several = f"X is invalid: [spec.a: {refused}, spec.b: {refused}: the rule, spec.c: {refused}]"
        told = f"X is invalid: [spec.a: {what} value: , spec.b: {what} value: the rule, spec.c: {what} value: ]"
        assert without_refused_values(several) == told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("a: Invalid value: -5: must be at least 0", "a: Invalid value: must be at least 0"),
        ("[a: Invalid value: 5, b: Invalid value: null]", "[a: Invalid value: , b: Invalid value: ]"),
        ("a: Invalid value: s3cret and more, s3cret: no", "a: Invalid value: no"),
        ("a: Invalid value: 12s3cret s3cret: no", "a: Invalid value: no"),
        ("a: Invalid value: 12-s3cret, s3cret: no", "a: Invalid value: no"),
        ('a: Invalid value: "s3cret', "a: Invalid value: "),
        ('a: Invalid value: []string{"s3cret", "s3', "a: Invalid value: "),
        ('a: Invalid value: "s3cret\n: x": no', "a: Invalid value: no"),
        (
            'a: Unsupported value: "s3cret": supported values: "A", "B"',
            'a: Unsupported value: supported values: "A", "B"',
        ),
        ("a: Required value: say which", "a: Required value: say which"),
        ("", ""),
    ],
)
def test_rules_and_fields_are_reported(words: str, told: str) -> None:
    assert without_refused_values(words) == told


@given(st.text(max_size=60))
def test_any_text_has_an_end(text: str) -> None:
    without_refused_values(text)
    assert "s3cret" not in without_refused_values(f'a: Invalid value: []string{{"s3cret{text.replace(chr(34), "")}')
