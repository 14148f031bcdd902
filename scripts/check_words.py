"""Phrases that must not come back into what users read: events, conditions, logs, command line, pages.

Run by scripts/lint.sh. Each phrase has the one that the field uses instead.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PHRASES = {
    r"belongs to somebody else": "exists, not owned by this cluster",
    r"added by somebody else\b(?!\.$)": "not managed by this operator",
    r"Goes on: ": "Proceeding without full drain: ",
    r"what it was made for": "no longer needed",
    r"not part of the specification any more": "removed from spec",
    r"has what is declared": "live state matches spec",
    r"set it back to": "reverted drift: A -> B",
    r"has not been looked at yet": "is not reconciled yet",
    r"has its settings back": "restored load balancer settings",
    r"annotate refresh": "set .../rebalance=refresh for a new proposal",
    r"nobody asks for its topics": "bundle unloaded; assigned on next lookup",
    r"deleted on your word|at once need a word": "bulk deletion requires confirmation",
    r"of what a broker should carry": "carries 1.2x a broker's fair share",
    r"before the watch did": "resync found a change the watch missed",
    r"is found at the resync": "drift is detected at the next resync",
    r"the Lease is held\"": "became leader",
    r"have no place": "cannot be expressed",
    r"needs leave to": "requires permission to",
    r"tells how it is": "reports its state",
    r"goes all the same": "is restarted anyway",
    r"[Bb]rokers hand over first": "draining before restart",
    r"not fought over": "drift repair back-off",
    r"Who drives": "continuous balancing",
    r"^#+ Rights": "RBAC",
    r"worked off": "reconciled in batches",
    r"keys anew": "remaps keys to partitions",
    r"without a word": "without an error",
}
"""Regular expression of a phrase -> what to write instead."""

WHERE = ("operator", "docs", "helm", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
KINDS = {".py", ".md", ".yaml", ".tpl", ".txt"}


def findings(root: Path) -> list[str]:
    """path:line: phrase, and what to write instead."""
    patterns = [(re.compile(phrase), instead) for phrase, instead in PHRASES.items()]
    found = []
    for start in WHERE:
        top = root / start
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.suffix not in KINDS or not path.is_file():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found += [
                    f"{path.relative_to(root)}:{number}: {match[0]!r}: write {instead!r}"
                    for pattern, instead in patterns
                    if (match := pattern.search(line))
                ]
    return found


def main() -> int:
    """1 and a line each where a phrase came back."""
    found = findings(ROOT)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
