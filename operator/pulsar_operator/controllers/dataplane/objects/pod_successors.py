"""Whether the API server would create a pod again, asked before the pod is replaced."""

from __future__ import annotations

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.objects.absent_pods import short
from pulsar_operator.domain.dataplane.objects.pod_admission import refuses, successor
from pulsar_operator.ports import (
    ConflictError,
    DeadlineError,
    ForbiddenError,
    Json,
    NotFoundError,
    NotServedError,
    RefusedError,
    ServerError,
)

ABOUT_ONE_POD = (RefusedError, ServerError, DeadlineError, NotServedError)
"""Refusals that concern only one pod, except a missing permission."""


async def refused_successor(actor: Actor, stateful_set: Json, pod: Json) -> Blocker | None:
    """Returns why the API server would not create the pod again. None also if that is not known: a missing permission,
    a name that is taken, a namespace that is gone. Raises PortError."""
    name = str(pod["metadata"]["name"])
    try:
        await actor.deps.kube.dry_run_create(successor(stateful_set, name))
    except (ForbiddenError, ConflictError, NotFoundError, NotServedError):
        return None
    except ABOUT_ONE_POD as error:
        if not refuses(str(error), pod):
            return None
        return Blocker(
            Reason.POD_REFUSED,
            f"Pod {name} is not replaced, because the API server would refuse to create it again: "
            f"{short(str(error))}. Remove the cause, or change the specification",
        )
    return None
