"""What kstatus computes of objects, and what the health checks of gitops/ say of them in Argo CD's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
CONFIGURATION = ROOT / "gitops" / "argocd-cm.yaml"
KEY = "resource.customizations.health.pulsaroperator.io_"
"""Of a check in argocd-cm (source: Argo CD, operator manual, resource health), before the kind."""
SECONDS = 60.0


@dataclass(frozen=True)
class Health:
    """Of one object."""

    kstatus: str
    argo: str
    argo_message: str


def scripts() -> dict[str, str]:
    """The health checks that are shipped, by kind."""
    data = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))["data"]
    assert all(name.startswith(KEY) for name in data)
    return {name.removeprefix(KEY): script for name, script in data.items()}


def binary(environ: Mapping[str, str] | None = None) -> Path:
    """The program: from PULSAR_OPERATOR_BIN (a folder), or where ``make tools`` puts it. RuntimeError when missing."""
    environ = os.environ if environ is None else environ
    folder = environ.get("PULSAR_OPERATOR_BIN")
    if folder:
        file = Path(folder) / "gitops-health"
    else:
        from e2e.kind.paths import paths

        file = paths(environ=environ).bin / "gitops-health"
    if not os.access(file, os.X_OK):
        raise RuntimeError(f"{file} is missing: run: make tools (or set PULSAR_OPERATOR_BIN to its folder)")
    return file


def judge(objects: Iterable[Any], script: str, folder: Path) -> list[Health]:
    """Of each object, in order. ``folder`` is for the script. Raises CalledProcessError when the check cannot run."""
    file = folder / "health.lua"
    file.write_text(script, encoding="utf-8")
    lines = "".join(json.dumps(each) + "\n" for each in objects)
    done = subprocess.run([binary(), file], input=lines, capture_output=True, text=True, check=True, timeout=SECONDS)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [Health(each["kstatus"], each["argo"], each["argoMessage"]) for each in found]
