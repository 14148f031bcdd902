"""``python -m benchmarks.balance boundaries|planner|shedding|rolling|all [--quick] ...``: each part prints one table.

Raw figures go to build/benchmarks/. Options after the part's name are the part's own; `all` takes --quick alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

PARTS = ("boundaries", "planner", "shedding", "rolling")
WITH_QUICK = ("boundaries", "shedding")
"""Parts that take long and have a short form; the others are short."""


def run(part: str, argv: Sequence[str]) -> int:
    """Run one part: the module of its name with its function main(argv)."""
    main: Callable[[Sequence[str]], int] = importlib.import_module(f"benchmarks.balance.{part}").main
    return main(argv)


def main(argv: Sequence[str]) -> int:
    """Run the part named first; the worst result of all parts for `all`."""
    if argv and argv[0] in PARTS:
        return run(argv[0], argv[1:])
    if argv and argv[0] == "all" and set(argv[1:]) <= {"--quick"}:
        return max([run(part, argv[1:] if part in WITH_QUICK else []) for part in PARTS])
    print(f"usage: python -m benchmarks.balance {{{','.join(PARTS)},all}} [--quick]\n\n{__doc__}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
