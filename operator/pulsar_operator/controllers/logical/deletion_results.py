"""What a step of a deletion in Pulsar may come to, besides that the object is gone there, and what a person can do."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.controllers.core.objects import patch_spec, resume
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.ports import Json


@dataclass(frozen=True)
class Progress:
    """A part is deleted; the next pass continues with what Pulsar still lists."""

    message: str

    @property
    def nothing(self) -> Blocker:
        """Condition where the previous pass got as far: it would continue without end, without a wait."""
        text = (
            "No progress since the last pass: a client creates again what is deleted. Stop its producers and "
            "consumers first"
        )
        return Blocker(Reason.NOT_EMPTY, f"{self.message}. {text}")


@dataclass(frozen=True)
class NotOurs:
    """Pulsar has something of that name that the object never managed: it stays."""

    why: str


Unfinished = Blocker | Progress | NotOurs


def keep(kind: Kind, obj: Json) -> str:
    """Returns the command after which the deletion of an object leaves Pulsar unchanged. It is a patch, since an object
    that is being deleted is often in no manifest any longer."""
    return patch_spec({**obj, "kind": kind.value}, {"deletionPolicy": "Retain"})


def continue_deletion_command(kind: Kind, obj: Json) -> str:
    """Returns the command that lets the deletion of an object that is paused or in dry run continue."""
    return resume({**obj, "kind": kind.value})
