"""The fenced blocks of a Markdown page: what of it can be checked and run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_HEADING = re.compile(r"^## (?P<title>.*)$")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")


@dataclass(frozen=True)
class Block:
    """One fenced block. ``line`` is that of its fence, from 1; ``info`` what follows the language."""

    chapter: str
    """The ## heading above it, "" before the first."""
    line: int
    language: str
    info: str
    text: str

    @property
    def title(self) -> str:
        """Its first command, short."""
        first = self.text.strip().splitlines()[0].split("  #")[0].strip(" \\")
        return first if len(first) <= 70 else f"{first[:67]}..."


def blocks(page: str, language: str | None = None) -> list[Block]:
    """All blocks of a page in their order, or those of a language; inside lists too, without the indentation."""
    found: list[Block] = []
    chapter, begin, indent, language_of, info = "", 0, "", "", ""
    lines: list[str] = []
    for number, line in enumerate(page.splitlines(), start=1):
        fence = _FENCE.match(line)
        if begin and fence and not fence["info"].strip():
            text = "".join(f"{each.removeprefix(indent)}\n" for each in lines)
            found.append(Block(chapter, begin, language_of, info, text))
            begin = 0
        elif begin:
            lines.append(line)
        elif fence:
            begin, indent, lines = number, fence["indent"], []
            language_of, _, info = fence["info"].strip().partition(" ")
        elif heading := _HEADING.match(line):
            chapter = heading["title"]
    return [each for each in found if language is None or each.language == language]


def commands(page: str, chapters: Sequence[str]) -> list[Block]:
    """The ``sh`` blocks of some chapters. Raises ValueError for a chapter that has none."""
    found = [each for each in blocks(page, "sh") if each.chapter in chapters]
    for name in chapters:
        if not any(each.chapter == name for each in found):
            raise ValueError(f"the page has no commands under {name!r}")
    return found
