"""What `make newcomer` takes from README."""

from __future__ import annotations

import pytest

from e2e.newcomer.__main__ import CHAPTERS, EXAMPLE
from e2e.support.pages import blocks, commands
from tests.unit.docs.test_docs_current import ROOT

PAGE = """# Title
```sh
never
```
## One
text
```sh
first command --that \\
  goes on
```
```yaml
not: this
```
## Two
```sh run
second
```
"""


def test_the_commands_of_the_named_chapters_in_their_order() -> None:
    found = commands(PAGE, ("One", "Two"))
    assert [(each.chapter, each.line, each.text) for each in found] == [
        ("One", 7, "first command --that \\\n  goes on\n"),
        ("Two", 15, "second\n"),
    ]
    assert [each.title for each in found] == ["first command --that", "second"]


def test_a_chapter_that_is_gone_is_an_error() -> None:
    with pytest.raises(ValueError, match="no commands under 'Three'"):
        commands(PAGE, ("One", "Three"))


def test_readme_has_what_is_followed() -> None:
    """Images, the operator, a cluster, a message from a pod and one from the reader's machine."""
    text = "".join(each.text for each in commands((ROOT / "README.md").read_text(encoding="utf-8"), CHAPTERS))
    words = (f"REGISTRY={EXAMPLE}/", "helm install", "kubectl apply", "kubectl run", "port-forward", "pulsar.Client")
    assert [word for word in words if word not in text] == []


def test_a_block_says_what_it_is() -> None:
    page = "1. item\n   ```yaml PulsarCluster\n   a:\n     b\n   ```\n"
    (found,) = blocks(page)
    assert (found.language, found.info, found.text, found.line) == ("yaml", "PulsarCluster", "a:\n  b\n", 2)
