"""What a check is, and what comes out of running one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulsar_conformance.context import Context


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    """The promise did not hold."""
    ERROR = "error"
    """The check could not be carried out: nothing is known about the promise."""
    SKIPPED = "skipped"
    """The instance does not offer what the check needs; the reason says what."""


class CheckFailed(AssertionError):  # noqa: N818 - the outcome's name
    """The promise does not hold; the message says what was expected and what was observed."""


class CheckSkipped(Exception):  # noqa: N818 - the outcome's name
    """The instance does not offer what the check needs; the message says what and how to get it."""


@dataclass(frozen=True)
class Check:
    """One promise and how it is proved."""

    id: str
    """``theme.name``, unique."""
    proves: str
    """The promise, in a sentence."""
    concepts: tuple[str, ...]
    """Keys of the lines of pulsar_conformance.concepts it proves."""
    run: Callable[[Context], str]
    """Carries it out and returns the evidence. Raises CheckFailed or CheckSkipped; anything else is an error."""
    seconds: float = 5
    """Usual duration on a small cluster; long ones are started first."""
    alone: bool = False
    """Whether it disturbs what else uses the instance, so that no other check may run beside it."""

    @property
    def theme(self) -> str:
        """The part of the id before the first dot."""
        return self.id.split(".", 1)[0]


@dataclass(frozen=True)
class Outcome:
    """What one check showed."""

    check: Check
    status: Status
    text: str
    """Evidence, or why it failed or was skipped."""
    seconds: float


def check(
    name: str, *, proves: str, concepts: tuple[str, ...] | str, seconds: float = 5, alone: bool = False
) -> Callable[[Callable[[Context], str]], Check]:
    """Decorator: the function becomes a Check."""
    keys = (concepts,) if isinstance(concepts, str) else concepts

    def build(function: Callable[[Context], str]) -> Check:
        return Check(name, proves, keys, function, seconds, alone)

    return build


def slot(name: str, *, proves: str, concepts: tuple[str, ...] | str, needs: str) -> Check:
    """A promise with a place in the table and no proof yet; always skipped, with what it needs as the reason."""

    def run(_context: Context) -> str:
        raise CheckSkipped(f"not proved yet: needs {needs}")

    keys = (concepts,) if isinstance(concepts, str) else concepts
    return Check(name, proves, keys, run, 0)


def is_slot(found: Check) -> bool:
    """Whether a check was made by slot()."""
    return found.run.__qualname__.startswith("slot.")


@dataclass(frozen=True)
class Concept:
    """One thing Pulsar offers its users."""

    key: str
    """``section.theme.name``; checks refer to it."""
    text: str
    fields: tuple[str, ...] = ()
    """Where a user declares it: ``Kind: path``, or ``Kind: path[key]`` for a key of a map. Empty when clients decide
    alone."""
    enforced: str = "Pulsar, for every client"
    """Who makes it true."""
    other_proof: str = ""
    """A test outside the suite that proves it, ``path::name``, when no check of a client can."""
    open: str = ""
    """What cannot be declared or proved yet, and why; empty when all can."""
