"""The Docker client, and the label by which an image says which inputs it was made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.kind.prereq import find_program
from e2e.kind.shell import Argument, CommandError, Log, capture, succeeds
from e2e.kind.steps import Step

INPUTS_LABEL = "org.pulsar-operator.inputs"


@dataclass(frozen=True)
class Docker:
    """Calls of the docker command; which engine it talks to is the user's setting (DOCKER_HOST, context), not ours."""

    def program(self) -> str:
        """The client's path; CommandError when there is none."""
        found = find_program("docker")
        if found is None:
            raise CommandError("no docker command: run python -m e2e.kind engine")
        return found

    def server_version(self) -> str:
        """The engine's version, or "" when no engine answers: a client alone says nothing about an engine."""
        try:
            return capture([self.program(), "version", "--format", "{{.Server.Version}}"], timeout=15).strip()
        except CommandError:
            return ""

    def capture(self, *arguments: Argument, timeout: float | None = 60) -> str:
        """Standard output of one docker command."""
        return capture([self.program(), *arguments], timeout=timeout)

    def succeeds(self, *arguments: Argument, timeout: float | None = 30) -> bool:
        """Whether one docker command ends well."""
        return succeeds([self.program(), *arguments], timeout=timeout)

    def run(self, log: Log, *arguments: Argument, text: str | None = None) -> None:
        """One docker command with its output in the log."""
        log.run([self.program(), *arguments], text=text)

    def build(
        self,
        log: Log,
        tag: str,
        context: Path,
        digest: str,
        *,
        dockerfile: Path,
        build_args: Mapping[str, str],
    ) -> None:
        """Build an image from a folder and label it with its inputs hash."""
        arguments: list[Argument] = ["build", "--tag", tag, "--file", dockerfile]
        arguments += ["--label", f"{INPUTS_LABEL}={digest}"]
        for name, value in build_args.items():
            arguments += ["--build-arg", f"{name}={value}"]
        # Debian's engine has no BuildKit; asking for it there fails, and not saying anything prints a warning a build.
        legacy = not self.has_buildx()
        if legacy:
            # It keeps the container of a RUN that failed, unless told otherwise.
            arguments.append("--force-rm")
        log.run([self.program(), *arguments, context], env={"DOCKER_BUILDKIT": "0"} if legacy else {})

    def has_buildx(self) -> bool:
        """Whether the client has the plugin that builds with BuildKit."""
        return self.succeeds("buildx", "version")

    def image_facts(self, tags: Sequence[str]) -> dict[str, tuple[str, str]]:
        """(id, inputs label) of each image that the engine has, by tag."""
        facts: dict[str, tuple[str, str]] = {}
        for tag in tags:
            try:
                found = json.loads(self.capture("image", "inspect", tag))[0]
            except CommandError:
                continue
            labels = (found.get("Config") or {}).get("Labels") or {}
            facts[tag] = (str(found["Id"]), str(labels.get(INPUTS_LABEL, "")))
        return facts

    def has_image(self, tag: str, digest: str) -> bool:
        """Whether the engine has this image made from the inputs with this hash."""
        return self.image_facts([tag]).get(tag, ("", ""))[1] == digest


def image_step(docker: Docker, name: str, tag: str, digest: str, build: Callable[[Log], None]) -> Step:
    """A step whose output is an image; the image carries the inputs hash, so it outlives the cache folder."""

    def labelled_build(log: Log) -> None:
        build(log)
        if not docker.has_image(tag, digest):
            raise CommandError(f"the step ran, but the engine has no {tag} labelled {INPUTS_LABEL}={digest}")

    return Step(name, lambda: docker.has_image(tag, digest), labelled_build)


def pull_step(docker: Docker, tag: str) -> Step:
    """A step that pulls an image by name when the engine lacks it."""
    return Step(
        f"pull {tag}",
        lambda: docker.succeeds("image", "inspect", tag),
        lambda log: docker.run(log, "pull", tag),
        done_word="pulled",
        hint="PULSAR_OPERATOR_IMAGES=built builds it here instead",
    )
