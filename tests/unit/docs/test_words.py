"""scripts/check_words.py: a phrase that must not come back is found, with what to write instead."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "check_words.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_words", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_phrase_is_found_where_it_is(script: ModuleType, tmp_path: Path) -> None:
    for name in script.WHERE:
        path = tmp_path / name
        path.write_text("") if path.suffix else path.mkdir()
    assert script.findings(tmp_path) == []
    (tmp_path / "docs" / "page.md").write_text("Fine.\nPulsar takes it without a word.\n")
    (tmp_path / "docs" / "picture.svg").write_text("without a word")
    assert script.findings(tmp_path) == ["docs/page.md:2: 'without a word': write 'without an error'"]
