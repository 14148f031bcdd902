"""The commands of a page's chapters, in their order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_HEADING = re.compile(r"^## (?P<title>.*)$")
_BEGIN = re.compile(r"^```sh\b")
_END = "```"


@dataclass(frozen=True)
class Block:
    """The text of one ``sh`` block, and where it stands."""

    chapter: str
    line: int
    text: str

    @property
    def title(self) -> str:
        """Its first command, short."""
        first = self.text.strip().splitlines()[0].split("  #")[0].strip(" \\")
        return first if len(first) <= 70 else f"{first[:67]}..."


def blocks(page: str, chapters: Sequence[str]) -> list[Block]:
    """The ``sh`` blocks of some chapters (##). Raises ValueError for a chapter without any, or one that is gone."""
    found: list[Block] = []
    chapter, begin, text = "", 0, [""]
    for number, line in enumerate(page.splitlines(), start=1):
        if begin:
            if line == _END:
                if chapter in chapters:
                    found.append(Block(chapter, begin, "\n".join(text) + "\n"))
                begin = 0
            else:
                text.append(line)
        elif heading := _HEADING.match(line):
            chapter = heading["title"]
        elif _BEGIN.match(line):
            begin, text = number, []
    for name in chapters:
        if not any(each.chapter == name for each in found):
            raise ValueError(f"the page has no commands under {name!r}")
    return found
