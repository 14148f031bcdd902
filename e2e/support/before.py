"""The operator as it was at a recorded commit: its chart, its examples, and its code in today's image.

The packages in the image are today's: what an upgrade changes is the operator's own code, and the chart.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

from e2e.support.deploy import OPERATOR_NAMESPACE, RELEASE, ROOT, Helm, ensure_namespace

IMAGE = "pulsar-operator:before"
KEPT = ("operator/pulsar_operator", "helm/pulsar-operator", "examples")
SITE = "/opt/pulsar-operator/site"
DOCKERFILE = f"""FROM pulsar-operator:dev
USER 0
RUN rm -rf {SITE}/pulsar_operator
COPY operator/pulsar_operator {SITE}/pulsar_operator
RUN python3 -m compileall -q {SITE}
USER 10000:0
"""


class RecordedCommitError(RuntimeError):
    """The recorded commit cannot be had; the message says what to do."""


def recorded_commit() -> str:
    """The commit that an upgrade is tested from: versions.toml."""
    return str(tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))["operator"]["upgrade_from"])


def unpack(commit: str, folder: Path) -> None:
    """Chart, code and examples of a commit in a folder. Raises RecordedCommitError."""
    done = subprocess.run(["git", "archive", commit, *KEPT], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise RecordedCommitError(f"commit {commit} of versions.toml: {said}; next: git fetch --unshallow")
    archive = folder / "before.tar"
    archive.write_bytes(done.stdout)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    folder.joinpath("Dockerfile").write_text(DOCKERFILE, encoding="utf-8")


def build(folder: Path, cluster: str) -> None:
    """The image of what was unpacked, in the engine and in the cluster's node."""
    subprocess.run(["docker", "build", "-q", "-t", IMAGE, str(folder)], check=True, capture_output=True)
    subprocess.run(
        [sys.executable, "-m", "e2e.kind", "load", cluster, IMAGE], cwd=ROOT, check=True, capture_output=True
    )


def install(helm: Helm, folder: Path, *, watch: list[str]) -> None:
    """The chart of then with the image of then."""
    for name in watch:
        ensure_namespace(helm.kubectl, name)
    argv = ["upgrade", "--install", RELEASE, str(folder / "helm/pulsar-operator")]
    argv += ["--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout", "4m"]
    argv += ["--set", "image.tag=before", "--set", "watchNamespaces={" + ",".join(watch) + "}"]
    for component in ("broker", "bookie", "proxy"):
        argv += ["--set-string", f"pulsarImages.{component}=pulsar-{component}:{{version}}-dev"]
    helm.run(*argv)
