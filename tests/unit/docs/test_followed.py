"""The runner of the pages' commands, and the pages it has something to do on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2e.support.followed import PageError, follow, runnable
from tests.support.documents import ROOT

PAGE = """```sh
exit 9
```
```sh run
what=kept
sleep 100 &
```
1. In a list:
   ```sh run
   echo "$what"
   ```
"""


def page(folder: Path, text: str) -> Path:
    file = folder / "page.md"
    file.write_text(text)
    return file


def test_marked_blocks_run_in_order_in_one_shell(tmp_path: Path) -> None:
    """And what they left in the background has ended, or this would take its 100 seconds."""
    found = page(tmp_path, PAGE)
    said = follow(found, runnable(found), tmp_path, os.environ)
    assert said.split() == ["@@", "page.md:4", "@@", "page.md:9", "kept"]


def test_a_command_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    found = page(tmp_path, "```sh run\necho before\nls /no/such/folder | cat\necho after\n```\n")
    with pytest.raises(
        PageError, match=r"page.md: exit status 2\n\n@@ page.md:1\nbefore\nls: .*no/such/folder"
    ) as told:
        follow(found, runnable(found), tmp_path, os.environ)
    assert "after" not in str(told.value)


@pytest.mark.parametrize(
    "name", ["balancing", "clusters", "conditions", "import", "operating", "sizing", "topic-sets", "logical-plane"]
)
def test_pages_with_commands_for_the_quickstart_run_some(name: str) -> None:
    assert runnable(ROOT / f"docs/{name}.md")
