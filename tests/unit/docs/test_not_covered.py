"""README's list of what is not covered is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
MISSING = {
    "TLS",
    "Tiered storage",
    "Pulsar Functions and IO connectors",
    "Pulsar SQL",
    "Backup",
    "Several Kubernetes clusters",
    "Growing volumes",
    "Resizing ZooKeeper",
}


def test_all_is_listed() -> None:
    chapter = README.partition("## Not covered yet\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\* \*\*(.+?)\*\*", chapter, re.MULTILINE)) == MISSING


@pytest.mark.parametrize(
    "words",
    ["Clusters in several Kubernetes clusters", "tiered storage", "backups", "ZooKeeper ensemble", "growing volumes"],
)
def test_architecture_says_the_same(words: str) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/architecture.md").read_text(encoding="utf-8")
    assert words in page.partition("## Not in this version\n")[2].replace("\n", " ")
