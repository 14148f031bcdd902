"""The real helm, for template and installation tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.fakes.jsoncopy import deepcopy
from tests.support.yamls import documents

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[3]
OPERATOR_CHART = ROOT / "helm" / "pulsar-operator"
PULSAR_CHART = ROOT / "helm" / "pulsar"
KUBE_VERSION: str = tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))["kubernetes"]["tested"]
"""What charts are rendered for where no API server is asked."""
DEADLINE = 240.0
"""Seconds for one command."""


SEPARATOR = re.compile(r"^---$", re.MULTILINE)
"""What helm prints between two objects; indented, as in a text within one, it is none."""


@lru_cache(maxsize=128)
def parsed(text: str) -> list[Json]:
    """The objects of a text, not to be changed. Most texts, definitions above all, are as for the test before."""
    return documents(text)


class HelmError(RuntimeError):
    """helm refused; the text is what it printed."""


def helm_binary(environ: Mapping[str, str] | None = None) -> Path:
    """Path of helm: from PULSAR_OPERATOR_BIN (a folder), or where ``make tools`` puts it. RuntimeError when missing."""
    environ = os.environ if environ is None else environ
    folder = environ.get("PULSAR_OPERATOR_BIN")
    if folder:
        file = Path(folder) / "helm"
    else:
        from e2e.kind.paths import paths

        file = Path(paths(environ=environ)["helm"])
    if not os.access(file, os.X_OK):
        raise RuntimeError(f"{file} is missing: run: make tools (or set PULSAR_OPERATOR_BIN to its folder)")
    return file


class Helm:
    """Runs helm with folders of its own."""

    def __init__(self, binary: Path, folder: Path) -> None:
        """``folder`` holds helm's cache and configuration."""
        self._binary = binary
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "HELM_CACHE_HOME": str(folder / "cache"),
            "HELM_CONFIG_HOME": str(folder / "config"),
            "HELM_DATA_HOME": str(folder / "data"),
            "KUBECONFIG": str(folder / "none"),
        }

    def run(self, *arguments: str, kubeconfig: Path | None = None, values: Json | None = None) -> str:
        """Run a command and return what it printed. ``values`` are given as a file. Raises HelmError."""
        command = [str(self._binary), *arguments]
        environment = dict(self._environment)
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        if values is not None:
            command += ["--values", "-"]
        done = subprocess.run(
            command,
            input=json.dumps(values or {}),
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        if done.returncode != 0:
            raise HelmError(done.stdout + done.stderr)
        return done.stdout

    def lint(self, chart: Path, values: Json | None = None) -> str:
        """``helm lint --strict``."""
        return self.run("lint", "--strict", f"--kube-version={KUBE_VERSION}", str(chart), values=values)

    def template(
        self, chart: Path, values: Json | None = None, *, release: str = "rel", namespace: str = "ops"
    ) -> list[Json]:
        """Every rendered object, hooks included."""
        text = self.text(chart, values, release=release, namespace=namespace)
        return [deepcopy(obj) for part in SEPARATOR.split(text) for obj in parsed(part)]

    def text(self, chart: Path, values: Json | None = None, *, release: str = "rel", namespace: str = "ops") -> str:
        """What ``helm template`` prints."""
        return self.run(
            "template",
            release,
            str(chart),
            f"--namespace={namespace}",
            f"--kube-version={KUBE_VERSION}",
            values=values or {},
        )


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    """The objects of a kind."""
    return [obj for obj in objects if obj["kind"] == kind]


def for_people(obj: Json) -> bool:
    """Whether it is a ClusterRole that Kubernetes adds to its own view, edit or admin."""
    return any("/aggregate-to-" in label for label in obj["metadata"].get("labels") or {})


def is_hook(obj: Json) -> bool:
    """Whether helm treats the object as a hook."""
    return "helm.sh/hook" in (obj["metadata"].get("annotations") or {})


def pod_specs(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    """The pod specification of every object that makes pods, with a name for messages."""
    for obj in objects:
        template = obj.get("spec", {}).get("template") if obj["kind"] != "CustomResourceDefinition" else None
        if template is not None:
            yield f"{obj['kind']} {obj['metadata']['name']}", template["spec"]
