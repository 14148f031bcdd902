"""Whether images come from a registry or are built here."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.kind.cache import Cache
from e2e.kind.source import OVERRIDE, decide, known_source


def never() -> bool:
    raise AssertionError("nothing had to be probed")


@pytest.mark.parametrize("said", ["stock", "built"])
def test_the_override_wins_and_nothing_is_probed(said: str) -> None:
    other = "built" if said == "stock" else "stock"
    assert decide(said, other, never).source == said


@pytest.mark.parametrize("remembered", ["stock", "built"])
def test_an_earlier_choice_is_kept(remembered: str) -> None:
    assert decide("", remembered, never).source == remembered


@pytest.mark.parametrize(("answers", "source"), [(True, "stock"), (False, "built")])
def test_otherwise_the_registry_decides(answers: bool, source: str) -> None:
    assert decide("", "", lambda: answers).source == source
    assert decide("", "what is this", lambda: answers).source == source


def test_an_unknown_override_is_refused() -> None:
    with pytest.raises(ValueError, match="stock or built"):
        decide("local", "", never)


def test_what_is_known_without_asking(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert known_source(cache, {}) == "built"
    (tmp_path / "image-source").write_text("stock\n")
    assert known_source(cache, {}) == "stock"
    assert known_source(cache, {OVERRIDE: "built"}) == "built"
