"""The allowed changes of the Pulsar version of a cluster, and the version of an image. Pure.

A jump is allowed once it was tested in that direction: by the operator's own tests, or by the administrator who lists
it in upgradePaths of the chart. Adjacent version numbers prove nothing: a patch release of Pulsar may bring another
BookKeeper or ZooKeeper (4.0.6: ZooKeeper 3.9.3, 4.0.8: 3.9.4, 4.0.13: BookKeeper 4.17.3; ``pom.xml`` of each), and a
downgrade may be impossible where the upgrade works.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from pulsar_operator.api.v1alpha1.base import PulsarVersion
from pulsar_operator.domain.policies.model import version_tuple

PLACEHOLDER = "{version}"
"""Placeholder of spec.version in an image's template: domain/render/inputs.py."""

_ENTRY = re.compile(r"(?P<old>\S+?)\s*(?P<arrow><->|->)\s*(?P<new>\S+)")
_VERSION: TypeAdapter[str] = TypeAdapter(PulsarVersion)


class JumpsError(ValueError):
    """An entry is not a jump between versions; the message names the entry and the remedy."""


@dataclass(frozen=True)
class Jumps:
    """The tested jumps between versions; without one, a cluster keeps the version it has."""

    pairs: frozenset[tuple[str, str]] = frozenset()
    """(from, to); the opposite direction is a separate pair."""

    @classmethod
    def parse(cls, *texts: str) -> Jumps:
        """Parses jumps: entries such as ``4.0.8 -> 4.0.9``, or ``4.0.6 <-> 4.0.8`` for both directions.

        Each text may hold several, separated by commas. Raises JumpsError.
        """
        entries = (entry.strip() for text in texts for entry in text.split(","))
        return cls(frozenset(pair for entry in entries if entry for pair in _pairs(entry)))

    def __or__(self, other: Jumps) -> Jumps:
        """Returns the jumps of both."""
        return Jumps(self.pairs | other.pairs)

    def allows(self, running: Iterable[str], desired: str) -> bool:
        """Whether every running version is the desired one, or may be changed to it directly."""
        return all(old == desired or (old, desired) in self.pairs for old in running)

    def after(self, running: Iterable[str]) -> list[str]:
        """Returns the versions that all of these may be changed to directly, or already have; the oldest first."""
        found = frozenset(running)
        known = found.union(*self.pairs)
        return sorted((new for new in known if self.allows(found, new)), key=_order)

    def path(self, running: frozenset[str], desired: str) -> tuple[str, ...]:
        """Returns the shortest sequence of versions to set, the desired one last; empty if no path is known. Of
        several, it is the one with the oldest versions, so that the result is always the same.
        """
        visited: set[str] = set()
        queue: deque[tuple[frozenset[str], tuple[str, ...]]] = deque([(running, ())])
        while queue:
            versions, path = queue.popleft()
            for new in self.after(versions):
                if new == desired:
                    return (*path, new)
                if new not in visited:
                    visited.add(new)
                    queue.append((frozenset({new}), (*path, new)))
        return ()


@dataclass(frozen=True)
class VersionDecision:
    """Whether a cluster may be given a version now."""

    allowed: bool | None
    """None if the running versions are not known: nothing is begun, and nothing refused."""
    message: str = ""
    """Why it is refused, as a sentence with the remedy; empty if it is allowed."""
    path: tuple[str, ...] = ()
    """If it is refused: versions to set one after another, the desired one last; empty if no path is known."""


def decide(running: frozenset[str] | None, desired: str, jumps: Jumps) -> VersionDecision:
    """Decides whether a cluster whose pods run these versions may get the desired one.

    ``running`` is empty if nothing runs yet, which allows any version; None if not known. During a rollout two versions
    run: it may continue to either, if the jump from the other one is tested in that direction.
    """
    if running is None:
        return VersionDecision(
            None,
            f"The rollout of spec.version {desired} has not started, because it is not known yet which versions run",
        )
    if jumps.allows(running, desired):
        return VersionDecision(True)
    path = jumps.path(running, desired)
    return VersionDecision(False, f"spec.version {desired} cannot be reached from {_why(running, path, jumps)}", path)


def downgrade(running: frozenset[str], desired: str) -> bool:
    """Whether the desired version is older than a running one: then components are rolled out in reverse.

    Pulsar's upgrade guide replaces ZooKeeper, bookies, brokers, proxies in this order, so a server is never older than
    its clients (https://pulsar.apache.org/docs/4.0.x/administration-upgrade/). In reverse that holds for a downgrade
    too, also in the middle of a rollout, where some pods are newer than the desired version and some older. Only
    numbers count: suffixes of versions have no order.
    """
    return any(version_tuple(old) > version_tuple(desired) for old in running)


def version_of(container_image: str, template: str) -> str | None:
    """Returns the version in an image that was made from a template such as ``pulsar-broker:{version}``.

    None if the image does not match the template, or the template has no placeholder. The image is that of the
    container's specification: in a container's status the runtime has added the registry.
    """
    places = template.count(PLACEHOLDER)
    if not places:
        return None
    # All places hold the same text, so its length follows from that of the image: there is one answer at most.
    length, rest = divmod(len(container_image) - len(template.replace(PLACEHOLDER, "")), places)
    start = template.index(PLACEHOLDER)
    version = container_image[start : start + max(length, 0)]
    if rest or not is_version(version) or template.replace(PLACEHOLDER, version) != container_image:
        return None
    return version


def _pairs(entry: str) -> list[tuple[str, str]]:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise JumpsError(
            f"{entry!r} is not a jump between versions. Write 4.0.8 -> 4.0.9, or 4.0.6 <-> 4.0.8 for both directions"
        )
    old, new = found["old"], found["new"]
    for version in (old, new):
        if not is_version(version):
            raise JumpsError(
                f"{version!r} in {entry!r} is not a version of Pulsar 4. Write the complete version, such as 4.0.8"
            )
    if old == new:
        raise JumpsError(
            f"{entry!r} has the same version on both sides. Remove the entry, or correct one of the two versions"
        )
    return [(old, new), (new, old)] if found["arrow"] == "<->" else [(old, new)]


def is_version(text: str) -> bool:
    """Whether a text is a version of Pulsar as spec.version takes it."""
    try:
        _VERSION.validate_python(text)
    except ValidationError:
        return False
    return True


def _order(version: str) -> tuple[tuple[int, ...], str]:
    return version_tuple(version), version


def _why(running: frozenset[str], path: tuple[str, ...], jumps: Jumps) -> str:
    """Returns the message of a refused version: from which version, and a path whose first step is allowed, or that
    none is known."""
    several = len(running) > 1
    begin = " and ".join(sorted(running, key=_order)) + (", which run at the same time" if several else "")
    if path:
        steps = " -> ".join(path if several else (*running, *path))
        return f"{begin} in one step. The tested path is {steps}. Set spec.version to {path[0]} first"
    near = ", ".join(new for new in jumps.after(running) if several or new not in running)
    only = f" (tested targets from there: {near})" if near else ""
    return (
        f"{begin}, because no tested path is known{only}. To allow a path that you have tested, add it to "
        "upgradePaths of the chart"
    )
