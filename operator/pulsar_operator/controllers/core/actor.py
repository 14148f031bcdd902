"""Performs actions on Kubernetes, each with a reason, or only lists them as pending (pause, dry run).

Decisions that users must know are events and log lines at info or warning. The writes that carry them out are log lines
at debug.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import MAX_PENDING
from pulsar_operator.domain.apply import foreign_entries, stamped, why_apply
from pulsar_operator.domain.texts import quoted
from pulsar_operator.ports import OPTIONAL, PODS, Deps, ForbiddenError, Json, NotServedError, RefusedError, ResourceType

log = logging.getLogger(__name__)


class Pending(list[str]):
    """A list of pending actions, limited to the number that the status has room for."""

    def append(self, text: str, /) -> None:
        """Adds one action."""
        if len(self) < MAX_PENDING:
            super().append(text)

    def extend(self, texts: Iterable[str], /) -> None:
        """Adds several actions."""
        for text in texts:
            self.append(text)

    def __iadd__(self, texts: Iterable[str], /) -> Self:  # type: ignore[override,misc]
        self.extend(texts)
        return self


@dataclass
class Actor:
    """Performs the actions of one pass on one custom resource. Each action has a reason for users."""

    deps: Deps
    owner: Json
    act: bool = True
    """If False, nothing is written and the actions are collected in ``pending``."""
    pending: list[str] = field(default_factory=Pending)
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    writes: frozenset[ResourceType] | None = None
    """Types that may be applied, deleted or evicted; None for all."""
    written: list[Json] = field(default_factory=list)
    """Objects as the API server returned them after they were applied."""

    def limited(self, writes: frozenset[ResourceType]) -> Actor:
        """Returns an actor for a part of the pass that may write only these types. Its actions count for both
        actors."""
        return replace(self, writes=writes, written=[])

    async def apply(self, manifest: Json, live: Json | None, *, at: Sequence[str] = ()) -> Json | None:
        """Applies a rendered manifest if it differs from the live object. Returns the live object after that.

        ``at`` names the fields (uid, resourceVersion) that must still have the value that was read; otherwise
        ConflictError is raised. A refusal by the API server is collected in ``refused`` (the rest of the pass
        continues), and so is an optional type that it does not serve. Other errors are raised, including ForbiddenError
        for a missing permission.
        """
        self._check(manifest["kind"])
        why = why_apply(manifest, live)
        if why is None:
            return live
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        verb = "Create" if live is None else "Update"
        if not self.act:
            text = f"{verb} {name}, because {why}"
            if text not in self.pending:  # a later part of the pass finds it undone
                self.pending.append(text)
            return live
        try:
            foreign = foreign_entries(manifest, live) if live is not None else []
            if live is not None and foreign:
                await self.deps.kube.remove_entries(live, foreign)
            whole = stamped(manifest)
            if live is not None:
                whole["metadata"] |= {key: live["metadata"][key] for key in at}
            result = await self.deps.kube.apply(whole)
        except ForbiddenError:
            raise  # it says nothing about the specification
        except RefusedError as error:
            self.refused.append(f"The API server refused {name}: {quoted(str(error))}")
            return live
        except NotServedError as error:
            if manifest["kind"] not in {each.kind for each in OPTIONAL}:
                raise
            self.refused.append(f"The API server does not serve the type of {name}: {quoted(str(error))}")
            return live
        self.written.append(result)
        self.record_write(f"{verb}d {name}, because {why}")
        return result

    def _check(self, kind: str) -> None:
        if self.writes is not None and kind not in {each.kind for each in self.writes}:
            raise ValueError(f"this part of the pass does not write {kind}")

    async def delete(self, kind: ResourceType, obj: Json, why: str, *, reason: Reason | None = None) -> None:
        """Deletes exactly this object, identified by its UID. With a reason the deletion is an event, otherwise an
        internal write."""
        self._check(kind.kind)
        meta = obj["metadata"]
        text = f"{kind.kind} {meta['name']}, because {why}"
        if not self.act:
            self.pending.append(f"Delete {text}")
            return
        await self.deps.kube.delete(kind, meta["namespace"], meta["name"], uid=meta["uid"])
        if reason is None:
            self.record_write(f"Deleted {text}")
        else:
            await self.record_event(reason, f"Deleted {text}")

    async def evict(self, pod: Json, why: str, *, reason: Reason) -> str | None:
        """Evicts exactly this pod. Returns the message of its PodDisruptionBudget if that does not allow the eviction
        now.

        A refusal is not an action: it may occur in every pass, and is not recorded as an event. Returns None also if
        nothing is written (pause, dry run).
        """
        self._check(PODS.kind)
        meta = pod["metadata"]
        text = f"{PODS.kind} {meta['name']}, because {why}"
        if not self.act:
            self.pending.append(f"Evict {text}")
            return None
        refusal = await self.deps.kube.evict(meta["namespace"], meta["name"], uid=meta["uid"])
        if refusal is None:
            await self.record_event(reason, f"Evicted {text}")
        return refusal

    async def warn(self, reason: Reason, message: str) -> None:
        """Records a condition that a person must know about: log line at warning and Warning event."""
        if self.act:
            log.warning(message, extra=self._fields(reason.value))
            await self.deps.kube.event(self.owner, kind="Warning", reason=reason.value, message=message)

    async def record_event(self, reason: Reason, message: str) -> None:
        """Records a decision that was carried out: log line at info and Normal event."""
        self.done.append(message)
        log.info(message, extra=self._fields(reason.value))
        await self.deps.kube.event(self.owner, kind="Normal", reason=reason.value, message=message)

    def record_write(self, message: str) -> None:
        """Records an internal write: log line at debug, no event."""
        self.done.append(message)
        log.debug(message, extra=self._fields())

    def _fields(self, reason: str | None = None) -> dict[str, str]:
        meta = self.owner["metadata"]
        fields = {"kind": self.owner.get("kind", ""), "namespace": meta["namespace"], "object": meta["name"]}
        return fields | ({"reason": reason} if reason else {})
