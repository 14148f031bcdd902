"""Results of a deletion step in Pulsar other than success, and the commands that resolve them."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.controllers.core.objects import patch_spec, resume
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.ports import Json


@dataclass(frozen=True)
class Progress:
    """A part is deleted. The next pass continues with what Pulsar still lists."""

    message: str

    @property
    def nothing(self) -> Blocker:
        """Returns the blocker to report if the previous pass made the same progress: without it the deletion would loop
        without a wait."""
        text = (
            "The deletion made no progress since the last attempt, because a client creates again what the "
            "operator deletes. Stop the producers and consumers first"
        )
        return Blocker(Reason.NOT_EMPTY, f"{self.message}. {text}")


@dataclass(frozen=True)
class NotOurs:
    """Pulsar has an object of that name that this object never managed. It is not deleted."""

    why: str


Unfinished = Blocker | Progress | NotOurs


def keep(kind: Kind, obj: Json) -> str:
    """Returns the command after which the deletion of an object leaves Pulsar unchanged. It is a patch, since an object
    that is being deleted is often no longer in any manifest."""
    return patch_spec({**obj, "kind": kind.value}, {"deletionPolicy": "Retain"})


def continue_deletion_command(kind: Kind, obj: Json) -> str:
    """Returns the command that resumes the deletion of an object that is paused or in dry run."""
    return resume({**obj, "kind": kind.value})
