"""The actions of a decommission or a volume replacement: a row for each member of Act but NOTHING, ASK and LOOK.

decommission.py runs the rows. What must not be repeated after a failure is recorded before it is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.bookkeeper.abandoned_ledgers import remember_given_up
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import claims_there, discard, mark, own_bookies
from pulsar_operator.controllers.dataplane.bookkeeper.incarnations import CountCopy, spend
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import forget_examination
from pulsar_operator.controllers.dataplane.bookkeeper.storage_facts import storage_facts
from pulsar_operator.controllers.dataplane.decommission.decommission_observation import DecommissionObservation
from pulsar_operator.controllers.dataplane.decommission.requested_copies import (
    remember_copies,
    remember_end,
    with_copies,
)
from pulsar_operator.controllers.dataplane.objects.topic_unloading import unload
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.scaling.bookie_count import is_without_pod, lower_by_one, raise_to
from pulsar_operator.domain.bookkeeper.znodes import COOKIES, LOST_BOOKIE_RECOVERY_DELAY
from pulsar_operator.domain.dataplane.cluster.cluster_view import DecommissionFact
from pulsar_operator.domain.dataplane.decommission.decommission import asked_now, readonly_now, round_now, tried_now
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, DecommissionFacts, Next
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    Cause,
    DecommissionRecord,
)
from pulsar_operator.domain.dataplane.decommission.volume_replacement import AUDITOR
from pulsar_operator.domain.render.child_names import workload_name
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import PODS, ConflictError, Json, NotFoundError, PortError, ZooKeeperSession


@dataclass
class Decommission:
    """The tools of an action: one bookie in one pass."""

    ctx: PhaseContext
    there: Json
    """The StatefulSet."""
    observation: DecommissionObservation
    record_version: int | None = None

    @property
    def session(self) -> ZooKeeperSession:
        """Session with the local metadata store."""
        return self.observation.session

    @property
    def actor(self) -> Actor:
        """Writes to Kubernetes, and records events."""
        return self.ctx.actor

    async def remember(self, record: DecommissionRecord) -> None:
        """Writes the record at the version that was read. Raises PortError."""
        if self.record_version is None:
            await self.session.create(DECOMMISSION_RECORD_PATH, record.data())
            self.record_version = 0
        else:
            await self.session.set(DECOMMISSION_RECORD_PATH, record.data(), version=self.record_version)
            self.record_version += 1

    async def forget_record(self) -> None:
        """Deletes the record at the version that was read. Raises PortError."""
        await _delete(self.session, DECOMMISSION_RECORD_PATH, self.record_version)

    async def set_readonly(self, bookie: DecommissionFacts, readonly: bool) -> None:
        """Sets the bookie's mode by its HTTP server. Raises PortError."""
        await self.actor.deps.bookies.set_readonly(self.observation.host(Component.BOOKIE, bookie.ordinal), readonly)

    async def delete_pod(self, name: str, uid: str, why: str, reason: Reason) -> None:
        """Deletes the pod of that UID. Raises PortError."""
        where = {"name": name, "namespace": self.ctx.facts.owner.namespace, "uid": uid}
        await self.actor.delete(PODS, {"metadata": where}, why, reason=reason)


Write = Callable[[Decommission, DecommissionFacts, Next, DecommissionRecord], Awaitable[None]]
Finish = Callable[[Decommission, DecommissionFacts, Next], Awaitable[DecommissionFact | None]]


@dataclass(frozen=True)
class Action:
    """How one member of Act is carried out, in the order of the fields."""

    final_check: bool = False
    """Whether the action cannot be undone, or ends a process with its volumes, so that the bookie is checked once more
    directly before."""
    ends_pod: bool = False
    """Whether claims are deleted with the pod, so that the action is refused if the API server would not create the pod
    again."""
    before: Finish | None = None
    """Writes to Kubernetes. This and ``finish`` end the pass if they return a fact."""
    write: Write | None = None
    """Writes to the metadata store, or to a bookie; a failure does not fail the pass. Only with a record."""
    finish: Finish | None = None
    """Writes to Kubernetes."""
    again: bool = True
    """Whether the next action may follow immediately."""


def doing(bookie: DecommissionFacts, found: Next) -> Reason:
    """Returns the operation on a bookie, as a reason."""
    renewed = found.renewal is not None or (bookie.record is not None and bookie.record.renewal is not None)
    return Reason.REPLACING_VOLUME if renewed else Reason.DECOMMISSIONING_BOOKIE


def _done(bookie: DecommissionFacts) -> Reason:
    """Returns the completed operation, as a reason."""
    renewal = bookie.record.renewal if bookie.record is not None else None
    if renewal is not None:
        return Reason.VOLUME_REPLACED if renewal.claims else Reason.REPLACING_VOLUME
    return Reason.DECOMMISSIONING_BOOKIE if bookie.has_cookie else Reason.BOOKIE_DECOMMISSIONED


def fact(bookie: DecommissionFacts, found: Next, *, blocker: str | None = None) -> DecommissionFact:
    """Returns what the status reports of the bookie; ``blocker`` is a sentence on what the decommission waits for."""
    name, step = bookie.bookie, found.step.value if found.step is not None else None
    reason = doing(bookie, found)
    verb = "is being decommissioned" if reason is Reason.DECOMMISSIONING_BOOKIE else "gets a new volume"
    if found.reason is not None:
        message = found.text
    elif step is None:
        message = (
            (f"Bookie {name} is to be {bookie.deed}, but this cannot begin yet. {blocker}") if blocker else found.text
        )
    else:
        message = f"Bookie {name} {verb} (step {step}). {blocker or sentence(found.text)}"
    return DecommissionFact(
        bookie=name,
        ordinal=bookie.ordinal,
        step=step,
        reason=found.reason,
        message=message,
        # Of one that is refused, or does not come up, no step is shown: what is changed may be what it needs.
        blocks_rollout=step is not None or (bookie.under_way and found.act is not Act.NOTHING),
        forgotten=bookie.forgotten,
        doing=reason,
    )


def begun(bookie: DecommissionFacts, found: Next) -> DecommissionRecord:
    """Returns the record of a decommission that begins."""
    size = bookie.widest.size if bookie.widest is not None else 1
    return DecommissionRecord(bookie.bookie, bookie.ordinal, bookie.now, ensemble=size, renewal=found.renewal)


async def _begin(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    if bookie.scan is None:
        # One of a removal that did not begin may be there, however old.
        await forget_examination(work.session)
    await work.remember(await with_copies(work.session, record))
    if found.renewal is not None and found.renewal.cause is Cause.LOST:
        await work.actor.warn(Reason.VOLUME_LOST, found.text)
    else:
        await work.actor.record_event(doing(bookie, found), found.text)


async def _read_only(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    now = readonly_now(record, bookie.process)
    if now != record:
        await work.remember(now)
    await work.set_readonly(bookie, True)
    await work.actor.record_event(doing(bookie, found), found.text)


async def _writable(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    await work.remember(record.before_restore())
    await work.set_readonly(bookie, False)
    await work.remember(record.after_restore())
    await work.actor.record_event(doing(bookie, found), found.text)


async def _unload(work: Decommission, bookie: DecommissionFacts, found: Next) -> DecommissionFact:
    """Unloads a bounded number of topics, by name, and records the progress."""
    ctx, record, scan = work.ctx, bookie.record, bookie.scan
    assert record is not None and scan is not None
    endpoint = ctx.facts.brokers(ctx.rendered) if ctx.facts.spec.broker is not None else None
    came = await unload(work.actor.deps, endpoint, found.topics)
    if came.done:
        text = f"Unloaded {len(came.done)} topics, such as {came.done[0]}. {sentence(found.text)}"
        await work.actor.record_event(doing(bookie, found), text)
    last = came.last
    if not last and record.renewal is not None and not bookie.registered:
        # No broker may ever be up without what is lost: a round in vain, so that it comes to a confirmation.
        last = found.topics[-1]
    if last:
        handles = replace(record.handles, after=last)
        through = scan.highest if record.through is None else record.through
        missed = record.missed or bool(came.failures)
        try:
            await work.remember(replace(record, handles=handles, through=through, missed=missed))
        except PortError as error:
            return fact(bookie, found, blocker=f"The operator could not {found.act.value}: {error}")
    text = f"Topics that may write to ledgers on bookie {bookie.bookie} are not unloaded yet"
    if came.failures:
        text += f". {sentence(came.failures[0])}"
    return replace(fact(bookie, found, blocker=text), again=not came.failures)


async def _round(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    await work.remember(round_now(tried_now(record, bookie.now)))


async def _after_round(work: Decommission, bookie: DecommissionFacts, found: Next) -> DecommissionFact | None:
    return fact(bookie, found) if bookie.record is not None and bookie.record.missed else None


async def _note(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    scan = bookie.scan
    if scan is not None and found.helper is not None:
        await work.remember(asked_now(record, found.helper, scan, bookie.now))
    elif scan is not None:
        again = found.act is Act.AUDIT and record.asked == AUDITOR
        await work.remember(replace(record, asked=AUDITOR, asked_at=bookie.now, naming=scan.naming, stalled=again))


async def _copy(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    if found.helper is not None and bookie.scan is not None:
        await _note(work, bookie, found, record)
        await work.actor.deps.bookies.recover(
            work.observation.host(Component.AUTORECOVERY, found.helper.ordinal), bookie.bookie
        )
        await work.actor.record_event(
            doing(bookie, found), f"Requested a copy of the ledgers of bookie {bookie.bookie}. {sentence(found.text)}"
        )


async def _audit(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    """Makes the auditor check immediately: it does when the delay is written, even unchanged (class Auditor,
    submitLostBookieRecoveryDelayChangedEvent)."""
    if bookie.scan is not None:
        await _note(work, bookie, found, record)
        node = await work.session.get(LOST_BOOKIE_RECOVERY_DELAY)
        if node is not None:
            await work.session.set(LOST_BOOKIE_RECOVERY_DELAY, node.data, version=node.version)
        await work.actor.record_event(doing(bookie, found), f"Requested a check by the auditor. {sentence(found.text)}")


async def _lower(work: Decommission, bookie: DecommissionFacts, found: Next) -> None:
    await lower_by_one(work.ctx, work.there)


async def _copied(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    """Records that no ledger was left, so that the copy is complete; the current ones came later."""
    if record.asked is not None or record.forgot:
        await work.remember(replace(record, asked=None, forgot=False))


async def _raise(work: Decommission, bookie: DecommissionFacts, found: Next) -> DecommissionFact | None:
    numbered = await raise_to(work.ctx, work.there, bookie.ordinal + 1, bookie.storage.cookies)
    if numbered.foreign is not None:
        return replace(fact(bookie, found), reason=Reason.FOREIGN_VOLUME, message=numbered.foreign)
    if numbered.blocker is not None:
        return fact(bookie, found, blocker=f"{numbered.blocker.message}. {sentence(found.text)}")
    return None


async def _forget(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    """Deletes its cookie, at the version that it had before the ledgers were read."""
    session, renewal, scan = work.session, record.renewal, bookie.scan
    if bookie.former:
        gone = bookie.bookie not in (await storage_facts(session)).registered
    elif renewal is not None:
        gone = not await claims_there(work.ctx, renewal.claims)
    else:
        gone = await is_without_pod(work.ctx, work.there, bookie.ordinal)
    if not gone:
        return
    if renewal is not None and renewal.accepted and scan is not None and scan.naming:
        await remember_given_up(session, bookie.bookie, scan)
    if not record.forgot:
        await work.remember(replace(record, forgot=True))
    # Not earlier: a pod on lost volumes, whose claims are deleted next, would start with them.
    await spend(session, own_bookies(work.ctx), bookie.bookie, CountCopy(work.actor.deps, work.ctx.facts))
    await _delete(session, f"{COOKIES}/{bookie.bookie}", work.observation.cookie_version)
    await work.actor.record_event(_done(bookie), f"Deleted the cookie of bookie {bookie.bookie}, because {found.text}")


async def _mark(work: Decommission, bookie: DecommissionFacts, found: Next) -> None:
    await mark(work.ctx, list(bookie.claims), bookie.bookie)


async def _renewed(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    if found.renewal is not None:
        await work.remember(replace(record, renewal=found.renewal))


async def _discard(work: Decommission, bookie: DecommissionFacts, found: Next) -> None:
    await discard(work.ctx, list(bookie.claims), found.text)


async def _replace(work: Decommission, bookie: DecommissionFacts, found: Next) -> None:
    await work.delete_pod(bookie.bookie.partition(".")[0], bookie.uid, found.text, Reason.REPLACING_VOLUME)


async def _end_copy(work: Decommission, bookie: DecommissionFacts, found: Next) -> None:
    """Deletes the auto-recovery pod that copies: its request ends with its process, and a bookie deletes entries that
    were copied to it without being referenced by the ledger's metadata."""
    asked = next((each for each in bookie.helpers if bookie.record and each.uid == bookie.record.asked), None)
    if asked is not None:
        name = f"{workload_name(work.ctx.facts.owner.name, Component.AUTORECOVERY)}-{asked.ordinal}"
        why = f"the copy of the ledgers of bookie {bookie.bookie} has ended"
        await work.delete_pod(name, asked.uid, why, doing(bookie, found))


async def _release(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    await work.remember(record.before_restore())
    await remember_end(work.session, bookie.bookie, bookie.now)
    await remember_copies(work.session, record)
    await work.set_readonly(bookie, False)
    await forget_examination(work.session)
    await work.forget_record()
    await work.actor.warn(Reason.DECOMMISSION_REFUSED, found.text)


async def _stop(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    await work.remember(replace(record, stopped=bookie.generation, restored=False, why=found.text))
    await work.actor.warn(Reason.DECOMMISSION_STUCK, found.text)


async def _end(work: Decommission, bookie: DecommissionFacts, found: Next, record: DecommissionRecord) -> None:
    await remember_copies(work.session, record)
    await forget_examination(work.session)
    await work.forget_record()
    await work.actor.record_event(_done(bookie), found.text)


async def _over(work: Decommission, bookie: DecommissionFacts, found: Next) -> DecommissionFact:
    return DecommissionFact(again=True)


async def _delete(session: ZooKeeperSession, path: str, version: int | None) -> None:
    try:
        if version is not None:
            await session.delete(path, version=version)
    except NotFoundError:
        return
    except ConflictError:
        if await session.get(path) is not None:
            raise


ACTIONS: Mapping[Act, Action] = MappingProxyType(
    {
        Act.BEGIN: Action(write=_begin),
        Act.READ_ONLY: Action(write=_read_only),
        Act.WRITABLE: Action(write=_writable),
        Act.UNLOAD: Action(finish=_unload),
        Act.ROUND: Action(write=_round, finish=_after_round),
        Act.COPY: Action(write=_copy, again=False),
        Act.NOTE: Action(write=_note),
        Act.AUDIT: Action(write=_audit, again=False),
        Act.LOWER: Action(final_check=True, finish=_lower),
        Act.RAISE: Action(write=_copied, finish=_raise),
        Act.FORGET: Action(write=_forget),
        Act.MARK: Action(finish=_mark),
        Act.DISCARD: Action(final_check=True, ends_pod=True, write=_renewed, finish=_discard),
        Act.REPLACE: Action(final_check=True, ends_pod=True, finish=_replace),
        Act.RELEASE: Action(before=_end_copy, write=_release, finish=_over),
        Act.STOP: Action(write=_stop),
        Act.END: Action(write=_end, finish=_over),
    }
)
