"""Reads pods and StatefulSets: takes raw objects, returns facts and problems with messages. Pure.

Facts that were not read are None, never zero: a controller that could not list pods must not report that there are
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.domain.dataplane.objects.absent_pods import describe_lost, describe_missing, is_new, missing_names
from pulsar_operator.domain.render.pod_checks import ENV_PREFIXES
from pulsar_operator.domain.texts import without_secrets

Json = Mapping[str, Any]

REVISION_LABEL = "controller-revision-hash"
"""Label that the StatefulSet controller puts on each pod (source: apps/v1 StatefulSetRevisionLabel)."""

_IMAGE_REASONS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
}
NO_PLACE: Final = frozenset({Reason.UNSCHEDULABLE, Reason.VOLUME_PENDING})
"""Problems of a pod that no node can run."""
_START_REASONS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"}
_ORDINAL = re.compile(r".*-(\d+)")
_MAX_WORDS = 300
_MIN_SECRET = 6
"""Minimum length of a value that is removed from the output of a container; a shorter one occurs in ordinary words."""
_REFUSAL = re.compile(rf"pulsar_start: (?!(?:{'|'.join(Component)}): )")
"""Start of the line with which the start program refuses to start. The line names variables and keys, and no value of a
Secret. Its other lines name the component first."""


@dataclass(frozen=True)
class PodProblem:
    """Why a pod does not become ready."""

    pod: str
    reason: Reason
    message: str
    """A sentence naming pod, cause and, where there is one, the remedy."""


@dataclass(frozen=True)
class PodFacts:
    """One pod as read."""

    name: str
    uid: str
    ordinal: int
    ready: bool
    terminating: bool
    revision: str | None
    serving_before: bool
    """Whether the running container was ready at some time, or may have been: then the pod may still do work. Sidecars
    do not count."""
    serving: bool
    """Whether the operator's own container is ready, regardless of sidecars. False on a node that does not report."""
    problem: PodProblem | None
    raw: Json = field(repr=False, compare=False)
    once_ready: bool = False
    """Whether the pod was ready at some time, perhaps in an earlier container."""


@dataclass(frozen=True)
class ComponentFacts:
    """A component's StatefulSet and pods. None if not known (not read, or not yet observed by its controller)."""

    exists: bool
    """Whether the StatefulSet exists."""
    desired: int | None = None
    ready: int | None = None
    updated: int | None = None
    """Number of pods with the revision that new pods get."""
    revision: str | None = None
    """Revision that new pods get."""
    problems: tuple[PodProblem, ...] = ()
    """Problems by ordinal; those that only state that a pod is missing come last."""
    pods: tuple[PodFacts, ...] = ()
    missing: tuple[str, ...] = ()
    """Names of expected pods that do not exist."""

    @property
    def all_ready(self) -> bool | None:
        """Whether every expected pod is ready; None if not known."""
        if not self.exists:
            return False
        if self.desired is None or self.ready is None:
            return None
        return self.ready >= self.desired

    @property
    def up_to_date(self) -> bool | None:
        """Whether every expected pod has the newest revision; None if not known."""
        if self.desired is None or self.updated is None:
            return None
        return self.updated >= self.desired

    def summary(self, what: str) -> tuple[Reason, str]:
        """Reason and message for a condition. The message is that of the first problem by ordinal."""
        if not self.exists:
            return Reason.PENDING, f"The {what} are not created yet"
        if self.desired is None or self.ready is None:
            return Reason.UNKNOWN, f"The state of the {what} could not be read"
        counts = f"{self.ready} of {self.desired} {what} are ready"
        if self.ready >= self.desired:
            return Reason.READY, counts
        if not self.problems:
            return Reason.NOT_READY, counts
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        return self.problems[0].reason, f"{counts}. {self.problems[0].message}{more}"


def observe_component(
    stateful_set: Json | None,
    pods: Sequence[Json] | None,
    *,
    refusals: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> ComponentFacts:
    """Returns the facts of one component.

    ``stateful_set`` is None if there is none; ``pods`` is None if they could not be listed. ``pods`` may include pods
    of other components, which are left out by their controlling owner. ``refusals`` has the reasons why missing pods
    are not created, by pod name.
    """
    if stateful_set is None:
        return ComponentFacts(exists=False)
    desired = int((stateful_set.get("spec") or {}).get("replicas", 1))
    revision = update_revision(stateful_set)
    if pods is None:
        return ComponentFacts(exists=True, desired=desired, revision=revision)
    facts = pods_of(stateful_set, pods)
    expected = [pod for pod in facts if pod.ordinal < desired and not pod.terminating]
    missing = missing_names(stateful_set["metadata"]["name"], desired, (pod.ordinal for pod in facts))
    absent = [_absent(name, (refusals or {}).get(name, "")) for name in missing]
    problems = [each for pod in facts if pod.ordinal < desired and (each := _problem(pod, now)) is not None]
    explained = [each for each in absent if each.reason is Reason.POD_REFUSED]
    problems = sorted([*problems, *explained], key=lambda each: _ordinal(each.pod))
    if not is_new(stateful_set, now):
        problems += [each for each in absent if each not in explained]
    return ComponentFacts(
        exists=True,
        desired=desired,
        ready=sum(pod.ready for pod in expected),
        updated=None if revision is None else sum(pod.revision == revision for pod in expected),
        revision=revision,
        problems=tuple(problems),
        pods=facts,
        missing=missing,
    )


def _absent(name: str, refusal: str) -> PodProblem:
    return PodProblem(name, Reason.POD_REFUSED if refusal else Reason.NOT_READY, describe_missing(name, refusal))


def _problem(pod: PodFacts, now: datetime | None) -> PodProblem | None:
    """Returns why a pod is not ready, also for a pod that is being deleted and does not end."""
    lost = None if pod.ready else describe_lost(pod.raw, now)
    if lost is not None:
        return PodProblem(pod.name, Reason.NODE_UNREACHABLE, lost)
    return None if pod.terminating else pod.problem


def _ordinal(name: str) -> int:
    match = _ORDINAL.fullmatch(name)
    return int(match[1]) if match else 0


def update_revision(stateful_set: Json) -> str | None:
    """Returns the revision that new pods get; None until the StatefulSet controller has observed the newest spec."""
    status = stateful_set.get("status") or {}
    generation = (stateful_set.get("metadata") or {}).get("generation")
    if generation is None or status.get("observedGeneration") != generation:
        return None
    revision = status.get("updateRevision")
    return str(revision) if revision else None


def pods_of(stateful_set: Json, pods: Iterable[Json]) -> tuple[PodFacts, ...]:
    """Returns the StatefulSet's own pods, by ordinal."""
    uid = stateful_set["metadata"]["uid"]
    return tuple(sorted((pod_facts(pod) for pod in pods if _owned_by(pod, uid)), key=lambda pod: pod.ordinal))


def pod_facts(pod: Json) -> PodFacts:
    """Returns the facts of one pod of a StatefulSet."""
    meta, status = pod["metadata"], pod.get("status") or {}
    ready = _condition(status, "Ready").get("status") == "True"
    return PodFacts(
        name=meta["name"],
        uid=meta["uid"],
        ordinal=_ordinal(meta["name"]),
        ready=ready,
        terminating="deletionTimestamp" in meta,
        revision=(meta.get("labels") or {}).get(REVISION_LABEL),
        serving_before=ready or _was_ready(status),
        serving=ready or (_main_ready(status) and describe_lost(pod, None) is None),
        problem=None if ready else pod_problem(pod),
        raw=pod,
        once_ready=ready or _was_ready(status) or _was_once_ready(status),
    )


def restarts(pod: Json) -> int:
    """Returns how often the operator's own container was restarted."""
    return sum(int(each.get("restartCount") or 0) for each in _containers(pod.get("status") or {}) if _is_main(each))


def unready_since(pod: PodFacts, now: datetime) -> datetime:
    """Returns the time since which a pod has not been ready: its creation, or the time at which it ceased to be ready;
    ``now`` if neither is known."""
    times = [parse_time((pod.raw.get("metadata") or {}).get("creationTimestamp"))]
    times.append(parse_time(_condition(pod.raw.get("status") or {}, "Ready").get("lastTransitionTime")))
    return max((each for each in times if each is not None), default=now)


def pod_problem(pod: Json) -> PodProblem | None:
    """Returns why a pod does not become ready; None if it is only starting."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return _unschedulable(name, str(scheduled.get("message", "")))
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    by_name = {container["name"]: container for container in containers}
    values = _values(containers)
    started = [each for each in status.get("initContainerStatuses") or () if not _is_done(each)]
    for container in (*started, *(status.get("containerStatuses") or ())):
        if problem := _container_problem(name, container, by_name.get(container.get("name"), {}), values):
            return problem
    if status.get("phase") == "Failed":
        words = _short(status.get("message") or status.get("reason") or "no reason was given", values)
        return PodProblem(name, Reason.NOT_READY, f"Pod {name} has failed: {words}")
    return None


def _is_done(container: Json) -> bool:
    """Whether an init container completed."""
    ended = (container.get("state") or {}).get("terminated") or {}
    return bool(ended) and ended.get("exitCode") == 0


def _unschedulable(name: str, message: str) -> PodProblem:
    lowered = message.lower()
    # "3 Insufficient cpu, 1 node(s) had volume node affinity conflict" is about nodes first; claims are named in full.
    if "persistentvolumeclaim" in lowered or "storageclass" in lowered:
        return PodProblem(name, Reason.VOLUME_PENDING, f"Pod {name} waits for its volumes: {_short(message)}")
    return PodProblem(name, Reason.UNSCHEDULABLE, f"Pod {name} fits on no node: {_short(message)}")


def _values(containers: Iterable[Json]) -> frozenset[str]:
    """Returns the values that users put into environment variables. The operator's own values contain no secret, and
    host names."""
    variables = [each for container in containers for each in container.get("env") or ()]
    values = {str(each.get("value") or "") for each in variables if not str(each["name"]).startswith(ENV_PREFIXES)}
    return frozenset(value for value in values if len(value) >= _MIN_SECRET)


def _is_main(container: Json) -> bool:
    """Whether a container is the operator's own; users cannot use its name (domain/render/containers.py)."""
    return container.get("name") in {*Component}


def _main_ready(status: Json) -> bool:
    """Whether the operator's own container was last reported as ready."""
    return any(_is_main(each) and each.get("ready") is True for each in _containers(status))


def _has_secrets(container: Json) -> bool:
    """Whether users gave a container variables from Secrets, whose values are not in the pod and cannot be searched
    for."""
    return bool(container.get("envFrom")) or any(
        (each.get("valueFrom") or {}).get("secretKeyRef") and not str(each["name"]).startswith(ENV_PREFIXES)
        for each in container.get("env") or ()
    )


def _container_problem(name: str, container: Json, spec: Json, values: frozenset[str]) -> PodProblem | None:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, words = str(waiting.get("reason", "")), _short(waiting.get("message") or "", values)
    named = "" if _is_main(container) else f' "{container.get("name")}"'
    if reason in _IMAGE_REASONS:
        of = f" of container{named}" if named else ""
        text = f'Pod {name} cannot pull image "{spec.get("image", "")}"{of} ({reason})' + (
            f": {words}" if words else ""
        )
        return PodProblem(name, Reason.IMAGE_PULL_FAILED, text)
    if reason in _START_REASONS:
        text = f"The container{named} of pod {name} cannot be created ({reason}): {words}"
        return PodProblem(name, Reason.NOT_READY, text)
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    restarts = int(container.get("restartCount") or 0)
    if reason == "CrashLoopBackOff" or state.get("terminated") or (restarts >= 2 and ended):
        text = f"The container{named} of pod {name} keeps ending ({_cause(ended)}) and was restarted {restarts} times"
        return PodProblem(name, Reason.CRASH_LOOPING, text + _last_words(name, container, ended, spec, values))
    return None


def _cause(ended: Json) -> str:
    cause = str(ended.get("reason") or "Error")
    if "exitCode" in ended:
        cause = f"{cause}, exit code {ended['exitCode']}"
    if ended.get("reason") == "OOMKilled":
        cause += ". Raise the memory limit or lower the heap of the container"
    return cause


def _last_words(name: str, container: Json, ended: Json, spec: Json, values: frozenset[str]) -> str:
    """Returns the last line of a container that ended, or where to read it. A condition has more readers than a log,
    and a program of the user may print the content of a Secret."""
    last = _last_line(str(ended.get("message") or ""), values)
    if not last:
        return ""
    if not _is_main(container):
        return f". To see the cause, run: kubectl logs {name} -c {container.get('name')}"
    if _has_secrets(spec) and not _REFUSAL.match(last):
        return (
            ". The container has variables from Secrets, so its log is not shown here. To see the cause, run: "
            f"kubectl logs {name} -c {container['name']}"
        )
    return f". The last line of its log is: {last}"


def _last_line(text: str, values: frozenset[str]) -> str:
    """Returns the last informative line: stack frames of Java mean little without the line before them."""
    lines = [line.strip() for line in text.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "... "))]
    return _short(telling[-1], values) if telling else ""


def _containers(status: Json) -> Sequence[Json]:
    return status.get("containerStatuses") or ()


def _was_ready(status: Json) -> bool:
    """Whether the operator's own container, which runs, is ready or has been since it started.

    The kubelet sets Ready=False when a pod is admitted and when a container ends; both are before the start of the
    container that runs now. A later transition to False means that this container was ready and stopped being so.
    """
    own = [each for each in _containers(status) if _is_main(each)] or _containers(status)
    if any(each.get("ready") is True for each in own):
        return True
    transition = str(_condition(status, "Ready").get("lastTransitionTime") or "")
    started = [
        str(running.get("startedAt") or "")
        for container in own
        if (running := (container.get("state") or {}).get("running"))
    ]
    # Times are RFC 3339 in UTC with whole seconds, so text order is time order.
    return bool(started) and bool(transition) and transition > max(started)


def _was_once_ready(status: Json) -> bool:
    """Whether a pod that is not ready was ready before, in any container.

    The kubelet first sets Ready=False when it admits the pod, at its startTime, and changes lastTransitionTime only
    with the status: a later transition to False ended a time in which the pod was ready.
    """
    began, ended = parse_time(status.get("startTime")), _condition(status, "Ready").get("lastTransitionTime")
    changed = parse_time(ended)
    return began is not None and changed is not None and changed - began > _TAKEN_ON


_TAKEN_ON: Final = timedelta(seconds=3)
"""Time within which the kubelet reports a pod after it was admitted."""


def _condition(status: Json, kind: str) -> Json:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def _owned_by(pod: Json, uid: str) -> bool:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("uid") == uid and owner.get("controller") for owner in owners)


def _short(text: object, values: frozenset[str] = frozenset()) -> str:
    # Hidden before anything is cut off: a quotation that does not end is not seen as one.
    words = without_secrets(" ".join(str(text).split()), values)
    return words if len(words) <= _MAX_WORDS else f"{words[: _MAX_WORDS - 3]}..."
