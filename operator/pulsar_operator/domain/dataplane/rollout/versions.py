"""From which version of Pulsar to which a cluster may go, and what an image says about its version. Pure.

A jump is allowed once somebody tested it in that direction: the operator's own tests, or whoever names it in
upgradePaths of the chart. That two versions are neighbours says nothing: a patch release of Pulsar may bring another
BookKeeper or ZooKeeper (4.0.6: ZooKeeper 3.9.3, 4.0.8: 3.9.4, 4.0.13: BookKeeper 4.17.3; ``pom.xml`` of each), and the
way back may be closed where the way there is open.
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
"""What stands for spec.version in an image's template: domain/render/inputs.py."""

_ENTRY = re.compile(r"(?P<old>\S+?)\s*(?P<arrow><->|->)\s*(?P<new>\S+)")
_VERSION: TypeAdapter[str] = TypeAdapter(PulsarVersion)


class JumpsError(ValueError):
    """An entry is no jump between versions; the message names the entry and the remedy."""


@dataclass(frozen=True)
class Jumps:
    """The tested jumps between versions; without one, a cluster keeps the version it has."""

    pairs: frozenset[tuple[str, str]] = frozenset()
    """(from, to); the way back is a pair of its own."""

    @classmethod
    def parse(cls, *texts: str) -> Jumps:
        """Jumps from text: entries such as ``4.0.8 -> 4.0.9``, or ``4.0.6 <-> 4.0.8`` for both directions.

        Each text may hold several, separated by commas. Raises JumpsError.
        """
        entries = (entry.strip() for text in texts for entry in text.split(","))
        return cls(frozenset(pair for entry in entries if entry for pair in _pairs(entry)))

    def __or__(self, other: Jumps) -> Jumps:
        """The jumps of both."""
        return Jumps(self.pairs | other.pairs)

    def allows(self, running: Iterable[str], desired: str) -> bool:
        """Whether every version that runs is the wanted one, or may become it at once."""
        return all(old == desired or (old, desired) in self.pairs for old in running)

    def after(self, running: Iterable[str]) -> list[str]:
        """Versions that all of these may be changed to at once, or have already; the oldest first."""
        found = frozenset(running)
        known = found.union(*self.pairs)
        return sorted((new for new in known if self.allows(found, new)), key=_order)

    def path(self, running: frozenset[str], desired: str) -> tuple[str, ...]:
        """The fewest versions to set one after another, the wanted one last; empty where no path is known.

        Among paths of one length it is the one by the oldest versions, so that the answer is the same every time.
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
    """None = it is not known what runs: nothing is begun, and nothing refused."""
    message: str = ""
    """Why not, as a sentence with the remedy; empty where it is allowed."""
    path: tuple[str, ...] = ()
    """Where it is refused: versions to set one after another, the wanted one last; empty = no path is known."""


def decide(running: frozenset[str] | None, desired: str, jumps: Jumps) -> VersionDecision:
    """Whether a cluster whose pods run these versions may be given the wanted one.

    ``running`` is empty where nothing runs yet, and any version is fine then; None = not known. In the middle of a roll
    two versions run: it may go on, or back, to either, if the jump from the other one is tested in that direction.
    """
    if running is None:
        return VersionDecision(None, f"spec.version {desired} is not begun: it is not known yet which versions run")
    if jumps.allows(running, desired):
        return VersionDecision(True)
    path = jumps.path(running, desired)
    return VersionDecision(False, f"spec.version {desired} cannot be reached from {_why(running, path, jumps)}", path)


def downgrade(running: frozenset[str], desired: str) -> bool:
    """Whether the wanted version is older than one that runs: then tiers are rolled in reverse.

    Pulsar's upgrade guide rolls ZooKeeper, bookies, brokers, proxies in this order, so a server is never older than
    those that call it (https://pulsar.apache.org/docs/4.0.x/administration-upgrade/). In reverse that stays so on the
    way back; and from the middle of a roll, where some pods are newer than the wanted version and some older. Numbers
    alone count: what a build calls itself behind them has no order.
    """
    return any(version_tuple(old) > version_tuple(desired) for old in running)


def version_of(container_image: str, template: str) -> str | None:
    """The version that was put into an image's template, such as ``pulsar-broker:{version}``, to make this image.

    None where the image is none of the template, or the template has no place for a version. The image is that of the
    container's specification: in a container's status the runtime has completed it with a registry.
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
            f"{entry!r} is no jump between versions; write 4.0.8 -> 4.0.9, or 4.0.6 <-> 4.0.8 for both directions"
        )
    old, new = found["old"], found["new"]
    for version in (old, new):
        if not is_version(version):
            raise JumpsError(f"{version!r} in {entry!r} is no version of Pulsar 4; write it in full, such as 4.0.8")
    if old == new:
        raise JumpsError(f"{entry!r} ends where it begins; remove it, or correct one of the two versions")
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
    """From where, and what can be done: a path whose first step is allowed now, or that none is known."""
    several = len(running) > 1
    begin = " and ".join(sorted(running, key=_order)) + (", which run beside each other" if several else "")
    if path:
        steps = " -> ".join(path if several else (*running, *path))
        return f"{begin}: {steps} is tested; set spec.version to {path[0]} first"
    near = ", ".join(new for new in jumps.after(running) if several or new not in running)
    only = f" (tested from there: {near})" if near else ""
    return f"{begin}: no path is known{only}; upgradePaths of the chart adds one that you tested"
