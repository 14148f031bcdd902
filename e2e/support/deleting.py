"""Deleting parents after their children, as the operator's deletion guard wants it."""

from __future__ import annotations

from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl


def dependents(kubectl: Kubectl, kind: str, namespace: str, name: str) -> int:
    """What the operator last counted; 0 where it counts nothing."""
    obj = kubectl.get(kind, namespace, name)
    return int(((obj or {}).get("status") or {}).get("dependents") or 0)


def delete_childless(kubectl: Kubectl, kind: str, namespace: str, name: str, *, seconds: int) -> None:
    """Delete an object whose children were just deleted, once the operator has counted that too; wait until it is gone.

    Raises AssertionError when dependents remain for a minute, KubectlError when it is not gone after ``seconds``.
    """
    eventually(
        lambda: dependents(kubectl, kind, namespace, name) == 0, within=60, what=f"no dependents of {kind} {name}"
    )
    kubectl.run("delete", kind, name, "-n", namespace, f"--timeout={seconds}s", timeout=seconds + 20)
