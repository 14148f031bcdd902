"""What a step of a deletion in Pulsar may come to, besides that the object is gone there, and what a person can do."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.controllers.core.objects import patch_spec, resume
from pulsar_operator.ports import Json


@dataclass(frozen=True)
class Blocker:
    """What keeps an object from being deleted in Pulsar."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class Progress:
    """A part is deleted, and the next pass goes on with what Pulsar still lists."""

    message: str

    @property
    def nothing(self) -> Blocker:
        """What it is where the pass before got as far: it would go on for ever, without a wait."""
        text = "As much was left before: somebody makes again what is deleted. Stop its producers and consumers first"
        return Blocker(Reason.NOT_EMPTY, f"{self.message}. {text}")


@dataclass(frozen=True)
class NotOurs:
    """Pulsar has something of that name that the object never managed: it stays."""

    why: str


Unfinished = Blocker | Progress | NotOurs


def keep(kind: Kind, obj: Json) -> str:
    """The command after which the deletion of an object leaves Pulsar as it is. It is a patch, since an object that is
    being deleted is often in nobody's manifests any more."""
    return patch_spec({**obj, "kind": kind.value}, {"deletionPolicy": "Retain"})


def let_go_on(kind: Kind, obj: Json) -> str:
    """The command after which the deletion of an object that is paused or in dry run goes on."""
    return resume({**obj, "kind": kind.value})
