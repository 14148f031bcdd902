"""Reports a pass that ended without writing a status: an unexpected error, a timeout, a refused call.

The mechanism is the same for every kind and is called by engine.py.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import Condition
from pulsar_operator.controllers.core.status import condition_of, write_condition
from pulsar_operator.domain.conditions import TRUE, UNKNOWN, timestamp
from pulsar_operator.domain.texts import quoted
from pulsar_operator.ports import CUSTOM, AccessError, AuthenticationError, Deps, ForbiddenError, Json, Key, PortError

log = logging.getLogger(__name__)

REMEDY = "The operator retries automatically. Its log has details in the lines that name this object"

GRANT = (
    "The Role or RoleBinding of the operator is missing or outdated. To create them again, run `helm upgrade` of "
    "the operator's release with its current values. Reconciliation then resumes"
)
"""Remedy for a missing permission. Deleting a namespace deletes the Role in it, and creating the namespace again does
not restore the Role."""


@dataclass(frozen=True)
class Failure:
    """Why a pass wrote no status. The message quotes no content of objects, which may contain a secret."""

    reason: Reason
    message: str


def reason_of(error: PortError) -> tuple[Reason, str]:
    """Returns the reason and message of a condition that is Unknown because of a failed call."""
    if isinstance(error, ForbiddenError):
        return Reason.FORBIDDEN, f"{quoted(str(error))}. {GRANT}"
    if isinstance(error, AccessError):
        return reason_of_access(error), quoted(str(error))
    return Reason.INTERNAL_ERROR, quoted(str(error))


def reason_of_access(error: AccessError) -> Reason:
    """Returns the reason of a condition for a call that Pulsar does not admit."""
    return Reason.AUTHENTICATION_FAILED if isinstance(error, AuthenticationError) else Reason.AUTHORIZATION_FAILED


def of_denied(error: ForbiddenError | AccessError) -> Failure:
    """Returns the failure for a missing permission, in Kubernetes or in Pulsar."""
    return Failure(*reason_of(error))


def of_exception(problem: BaseException) -> Failure:
    """Returns the failure for an unexpected error, with its class and a reference to the log."""
    return Failure(Reason.INTERNAL_ERROR, f"The last pass ended with {type(problem).__name__}. {REMEDY}")


def of_failures(problem: PortError) -> Failure:
    """Returns the failure for consecutive passes that failed because a server does not answer as expected."""
    return Failure(Reason.INTERNAL_ERROR, f"The passes keep ending with {type(problem).__name__}. {REMEDY}")


def of_timeout(seconds: float) -> Failure:
    """Returns the failure for a pass that was stopped."""
    return Failure(Reason.INTERNAL_ERROR, f"The last pass took longer than {seconds:g} s and was stopped. {REMEDY}")


async def report_failure(deps: Deps, key: Key, failure: Failure, observed_version: tuple[str, int] | None) -> None:
    """Sets Ready to Unknown with the reason of the failure, and DeletionBlocked to True if the object is being deleted.

    The rest of the status is not changed, and a status that already reports the failure is not written again. A write
    that fails is logged. ``observed_version`` are the UID and generation known when the pass began; an object that has
    replaced it is left alone. status.observedGeneration is kept: it is the generation that was applied, and this one
    was not.
    """
    try:
        obj = await deps.kube.get(CUSTOM[key.kind], key.namespace, key.name)
        if obj is None or (observed_version is not None and obj["metadata"]["uid"] != observed_version[0]):
            return
        written = await write_condition(deps, obj, _condition(deps, obj, failure, observed_version))
        if "deletionTimestamp" in obj["metadata"]:
            obj = written or obj
            blocked = _condition(deps, obj, failure, observed_version, kind=ConditionType.DELETION_BLOCKED)
            await write_condition(deps, obj, blocked)
    except PortError as error:
        log.warning("The failure of a pass could not be written to the status of %s: %s", key, error)
    except Exception:
        log.exception("The failure of a pass could not be written to the status of %s", key)


def _condition(
    deps: Deps,
    obj: Json,
    failure: Failure,
    observed_version: tuple[str, int] | None,
    *,
    kind: ConditionType = ConditionType.READY,
) -> Condition:
    generation = obj["metadata"].get("generation", 0)
    deleting = "deletionTimestamp" in obj["metadata"]
    status = UNKNOWN if kind is ConditionType.READY else TRUE
    old = condition_of(obj, kind)
    same = old is not None and old.get("status") == status.value
    return Condition(
        type=kind,
        status=status,
        reason=failure.reason.value,
        message=f"The deletion of the object cannot continue. {failure.message}" if deleting else failure.message,
        # The pass read the object after this was known, so it saw this generation or a newer one.
        observed_generation=min(generation, observed_version[1]) if observed_version is not None else generation,
        last_transition_time=str(old["lastTransitionTime"]) if old and same else timestamp(deps.clock.now()),
    )
