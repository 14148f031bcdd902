"""What the chart takes as upgradePaths, the operator takes too: another value would keep it from starting."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.dataplane.rollout.versions import Jumps, JumpsError

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "helm/pulsar-operator/values.schema.json").read_text())
ITEM = SCHEMA["properties"]["upgradePaths"]["items"]
LONGEST = f"4.0.8-{'a' * 58}"
"""Of 64 characters, which is what spec.version may have."""


@given(st.from_regex(ITEM["pattern"], fullmatch=True))
def test_what_the_schema_takes_is_an_entry(text: str) -> None:
    text = text.rstrip("\n")  # Python's $ takes one, that of helm and of JSON Schema does not
    try:
        assert len(Jumps.parse(text).pairs) in (1, 2)
    except JumpsError as error:
        # What a pattern cannot say: both are the same, or one is longer than a version may be.
        assert ("has the same version on both sides") in str(error) or any(
            len(word) > 64 for word in re.split(" *<?-> *", text)
        )


@pytest.mark.parametrize("entry", ["4.0.6 <-> 4.0.8", "4.0.8->4.0.9", f"{LONGEST} <-> {LONGEST[:-1]}b"])
def test_entries_are_taken(entry: str) -> None:
    assert re.search(ITEM["pattern"], entry)
    assert len(entry) <= ITEM["maxLength"]
    assert Jumps.parse(entry).pairs


@pytest.mark.parametrize("entry", ["", "4.0.8", "4.0.6 => 4.0.8", "4.0.6 -> 4.0.8, 4.0.8 -> 4.0.9", "4.0 -> 4.0.8"])
def test_what_is_none_is_refused_before_anything_is_installed(entry: str) -> None:
    assert not re.search(ITEM["pattern"], entry)
