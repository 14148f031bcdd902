"""An operator that is upgraded rolls no pod of a specification that stayed the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.recorded import read, rendered

RECORDED = read()


@pytest.mark.parametrize("name", RECORDED)
def test_what_did_not_change_renders_as_it_was_recorded(name: str) -> None:
    one: dict[str, Any] = RECORDED[name]
    now = rendered(name, one["spec"])
    differing = sorted(m for m in now.keys() | one["manifests"].keys() if now.get(m) != one["manifests"].get(m))
    assert differing == [], "their pods would roll when the operator is upgraded: see tests/support/cluster/recorded.py"
