"""Where images come from: a registry ("stock"), or built on this machine from packages and source ("built")."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from e2e.kind import versions
from e2e.kind.cache import Cache
from e2e.kind.docker import Docker

Source = Literal["stock", "built"]
OVERRIDE = "PULSAR_OPERATOR_IMAGES"
PROBE_SECONDS = 8.0


@dataclass(frozen=True)
class Choice:
    """A source and why it was taken."""

    source: Source
    reason: str


def decide(override: str, remembered: str, probe: Callable[[], bool]) -> Choice:
    """Choose the source: the override, else what an earlier run chose, else what the probe of a registry says.

    The probe is called only when nothing else decides. Raises ValueError for an override that is neither name.
    """
    if override:
        return Choice(_parse(override, OVERRIDE), f"{OVERRIDE} says so")
    if remembered in {"stock", "built"}:
        return Choice(_parse(remembered, "the cache"), "as in the first run")
    if probe():
        return Choice("stock", "an image registry answered")
    return Choice("built", "no image registry answered")


def choose(cache: Cache, docker: Docker, environ: Mapping[str, str] | None = None) -> Choice:
    """Choose the source for this machine and remember it, so that one slow answer never mixes the two kinds."""
    environ = os.environ if environ is None else environ
    memory = cache.root / "image-source"
    remembered = memory.read_text().strip() if memory.is_file() else ""
    choice = decide(environ.get(OVERRIDE, ""), remembered, lambda: registry_answers(docker))
    if not environ.get(OVERRIDE) and choice.source != remembered:
        cache.root.mkdir(parents=True, exist_ok=True)
        memory.write_text(choice.source + "\n")
    return choice


def known_source(cache: Cache, environ: Mapping[str, str] | None = None) -> Source:
    """The override, or the source chosen earlier, or "built" when nothing has been chosen yet; asks nobody."""
    environ = os.environ if environ is None else environ
    memory = cache.root / "image-source"
    said = environ.get(OVERRIDE, "") or (memory.read_text().strip() if memory.is_file() else "")
    return "stock" if said == "stock" else "built"


def registry_answers(docker: Docker) -> bool:
    """Whether the engine gets the smallest of images from its registry within a few seconds."""
    return docker.succeeds("pull", "--quiet", versions.PROBE_IMAGE, timeout=PROBE_SECONDS)


def _parse(text: str, origin: str) -> Source:
    if text == "stock":
        return "stock"
    if text == "built":
        return "built"
    raise ValueError(f"{origin} is {text!r}: it can be stock or built")
