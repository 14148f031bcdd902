"""Follows README from a clone to a first message, word by word, and prints the minutes: ``make newcomer``.

On a fresh kind cluster that pulls its images from a registry of its own. The only words that are changed are the
registry's name. What is cached on this machine stays cached, which the table says: a first run takes longer.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.demo.__main__ import Stages
from e2e.kind.paths import paths, repository_root
from e2e.support.pages import Block, commands

CLUSTER = "pulsar-newcomer"
CHAPTERS = ("On a cluster of your own", "A first message")
EXAMPLE = "registry.example.com"
"""README's name of a registry that the reader has."""
REGISTRY_PORT, PULSAR_PORT, WEB_PORT = 5001, 26650, 28080
SECONDS = 2400
"""Of one block: the images of a machine that has none of them yet."""


@dataclass(frozen=True)
class Terminal:
    """Gets the blocks one after another, in the clone."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, block: Block) -> None:
        """Run a block. Raises CalledProcessError, and TimeoutExpired after SECONDS."""
        text = block.text.replace(EXAMPLE, f"127.0.0.1:{REGISTRY_PORT}")
        print("".join(f"   $ {line}\n" for line in text.splitlines()), end="", flush=True)
        # What a block puts into the background, a port-forward, ends with it.
        text = f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}"
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder, env=self.environment, check=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Follow the page; 0 when a message came out at the end."""
    parser = argparse.ArgumentParser(prog="python -m e2e.newcomer", description=sys.modules[__name__].__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the cluster and the clone")
    parser.add_argument("--csv", type=Path, help="where the seconds of each step go")
    arguments = parser.parse_args(argv)
    root = repository_root()
    stages = Stages()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as scratch:
        clone = Path(scratch) / "pulsar-operator"
        try:
            follow(root, clone, stages)
        finally:
            print(f"\n{stages.table()}", flush=True)
            if not arguments.keep:
                subprocess.run([sys.executable, "-m", "e2e.kind", "down", CLUSTER], cwd=root, check=False)
    if arguments.csv is not None:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("step", "seconds"))
            writer.writerows((name, f"{seconds:.0f}") for name, seconds in stages.times)
    return 0


def follow(root: Path, clone: Path, stages: Stages) -> None:
    """Everything but the cleaning up."""
    with stages.stage("git clone"):
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(root), str(clone)], check=True)
    with stages.stage("a fresh cluster and its registry (yours are there already)"):
        subprocess.run([sys.executable, "-m", "e2e.kind", "down", CLUSTER], cwd=root, check=True)
        subprocess.run(
            [
                *(sys.executable, "-m", "e2e.kind", "up", CLUSTER, "--no-audit", "--no-images"),
                *("--pulsar-port", str(PULSAR_PORT), "--web-port", str(WEB_PORT)),
                *("--registry-port", str(REGISTRY_PORT)),
            ],
            cwd=root,
            check=True,
        )
    where = paths()
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "KUBECONFIG": where["kubeconfigs"][CLUSTER],
        "PATH": os.pathsep.join((where["bin"], os.environ["PATH"])),
    }
    shell = Terminal(clone, environment)
    for block in commands((clone / "README.md").read_text(encoding="utf-8"), CHAPTERS):
        with stages.stage(f"README.md:{block.line} {block.title}"):
            shell.run(block)


if __name__ == "__main__":
    sys.exit(main())
