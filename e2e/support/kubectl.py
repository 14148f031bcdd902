"""A thin wrapper of the kubectl binary with a fixed kubeconfig: never the user's current context by accident."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class KubectlError(RuntimeError):
    """kubectl exited non-zero; the message is what it said."""


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl against one cluster."""

    binary: str
    kubeconfig: Path | None
    context: str | None = None

    def _argv(self, args: tuple[str, ...]) -> list[str]:
        argv = [self.binary]
        if self.kubeconfig:
            argv += ["--kubeconfig", str(self.kubeconfig)]
        if self.context:
            argv += ["--context", self.context]
        return [*argv, *args]

    def run(self, *args: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run and return standard output. Raises KubectlError with what kubectl said."""
        done = subprocess.run(
            self._argv(args), input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(args[:6])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def json(self, *args: str) -> Any:
        """Run with -o json and decode."""
        return json.loads(self.run(*args, "-o", "json"))

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """The object, or None where there is none; namespace "" for kinds that have none."""
        try:
            found: dict[str, Any] = self.json("get", kind, name, *(["-n", namespace] if namespace else []))
            return found
        except KubectlError as error:
            if "NotFound" in str(error) or "not found" in str(error):
                return None
            raise

    def items(self, kind: str, namespace: str, selector: str | None = None) -> list[dict[str, Any]]:
        """All objects of a kind in a namespace."""
        args = ["get", kind, "-n", namespace] + (["-l", selector] if selector else [])
        found: list[dict[str, Any]] = self.json(*args)["items"]
        return found

    def apply(self, manifest: str, *, strict: bool = True) -> str:
        """kubectl apply of YAML text."""
        return self.run("apply", f"--validate={'strict' if strict else 'ignore'}", "-f", "-", stdin=manifest)

    def popen(self, *args: str) -> subprocess.Popen[str]:
        """Start kubectl in the background, such as a port-forward; the caller ends it."""
        return subprocess.Popen(
            self._argv(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
