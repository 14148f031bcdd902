"""A page's runnable blocks in one shell, as a reader's terminal gets them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.support.pages import Block, blocks

RUN = "run"
"""Behind the fence's ``sh``: the block is executed on the end-to-end cluster, after those above it on its page."""
SECONDS = 300
SHOWN = 4000
"""Characters of the output that an error ends with."""
_ENDING = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"


class PageError(AssertionError):
    """A command of a page did not end well."""


def runnable(page: Path) -> list[Block]:
    """The blocks of a page that are marked."""
    return [each for each in blocks(page.read_text(encoding="utf-8"), "sh") if each.info.split() == [RUN]]


def follow(page: Path, found: Sequence[Block], root: Path, environment: Mapping[str, str]) -> str:
    """Run blocks in one shell in ``root``; what they put into the background ends with it. Returns the output.

    Raises PageError with page, line and the end of the output where a command fails, or after SECONDS.
    """
    name = page.relative_to(root)
    script = _ENDING + "".join(f"printf '\\n@@ {name}:{each.line}\\n'\n{each.text}" for each in found)
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=root, env=dict(environment), timeout=SECONDS, stdin=subprocess.DEVNULL, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise PageError(f"{name}: not done after {SECONDS} s\n{str(error.output)[-SHOWN:]}") from None
    if done.returncode:
        raise PageError(f"{name}: exit status {done.returncode}\n{done.stdout[-SHOWN:]}")
    return done.stdout
