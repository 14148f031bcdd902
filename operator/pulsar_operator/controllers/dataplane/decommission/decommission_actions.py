"""What is done to a bookie that leaves or gets a new volume: a row for each member of Act but NOTHING, ASK and LOOK.

decommission.py runs the rows. What a failure must not repeat is remembered before it is done.
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
from pulsar_operator.controllers.dataplane.decommission.decommission_observation import Seen
from pulsar_operator.controllers.dataplane.decommission.requested_copies import (
    remember_copies,
    remember_end,
    with_copies,
)
from pulsar_operator.controllers.dataplane.objects.topic_unloading import unload
from pulsar_operator.controllers.dataplane.observed.phase import Step
from pulsar_operator.controllers.dataplane.scaling.bookie_count import is_without_pod, lower_by_one, raise_to
from pulsar_operator.domain.bookkeeper.znodes import COOKIES, LOST_BOOKIE_RECOVERY_DELAY
from pulsar_operator.domain.dataplane.cluster.cluster_view import LeaveFact
from pulsar_operator.domain.dataplane.decommission.decommission import asked_now, readonly_now, round_now, tried_now
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, Leaving, Next
from pulsar_operator.domain.dataplane.decommission.decommission_record import MEMO_PATH, Cause, LeavingMemo
from pulsar_operator.domain.dataplane.decommission.volume_replacement import AUDITOR
from pulsar_operator.domain.render.child_names import workload_name
from pulsar_operator.ports import PODS, ConflictError, Json, NotFoundError, PortError, ZooKeeperSession


@dataclass
class Decommission:
    """What actions work with: one bookie in one pass."""

    step: Step
    there: Json
    """The StatefulSet."""
    seen: Seen
    memo_version: int | None = None

    @property
    def session(self) -> ZooKeeperSession:
        """Of the local metadata store."""
        return self.seen.session

    @property
    def hand(self) -> Actor:
        """Writes to Kubernetes, and events."""
        return self.step.hand

    async def remember(self, memo: LeavingMemo) -> None:
        """Write the memo at the version that was read. Raises PortError."""
        if self.memo_version is None:
            await self.session.create(MEMO_PATH, memo.data())
            self.memo_version = 0
        else:
            await self.session.set(MEMO_PATH, memo.data(), version=self.memo_version)
            self.memo_version += 1

    async def forget_memo(self) -> None:
        """Delete the memo at the version that was read. Raises PortError."""
        await _delete(self.session, MEMO_PATH, self.memo_version)

    async def set_readonly(self, bookie: Leaving, readonly: bool) -> None:
        """Tell the bookie itself. Raises PortError."""
        await self.hand.deps.bookies.set_readonly(self.seen.host(Component.BOOKIE, bookie.ordinal), readonly)

    async def delete_pod(self, name: str, uid: str, why: str, reason: Reason) -> None:
        """Delete the pod of that UID. Raises PortError."""
        where = {"name": name, "namespace": self.step.facts.owner.namespace, "uid": uid}
        await self.hand.delete(PODS, {"metadata": where}, why, reason=reason)


Write = Callable[[Decommission, Leaving, Next, LeavingMemo], Awaitable[None]]
Finish = Callable[[Decommission, Leaving, Next], Awaitable[LeaveFact | None]]


@dataclass(frozen=True)
class Action:
    """How one member of Act is carried out, in the order of the fields."""

    last_look: bool = False
    """Nobody can take it back, or it ends a process with its volumes: asked once more whether the bookie may go."""
    ends_pod: bool = False
    """Claims are deleted, and the pod goes with them: refused where a pod of it could not be made again."""
    before: Finish | None = None
    """Writes to Kubernetes. This and ``finish`` end the pass if they return a fact."""
    write: Write | None = None
    """Writes to the metadata store, or to a bookie: its failure is no fault of this pass. Only with a memo."""
    finish: Finish | None = None
    """Writes to Kubernetes."""
    again: bool = True
    """Whether the next thing may be done at once."""


def doing(bookie: Leaving, found: Next) -> Reason:
    """What is done to a bookie."""
    renewed = found.renewal is not None or (bookie.memo is not None and bookie.memo.renewal is not None)
    return Reason.REPLACING_VOLUME if renewed else Reason.DECOMMISSIONING_BOOKIE


def _done(bookie: Leaving) -> Reason:
    """What was done to it in the end."""
    renewal = bookie.memo.renewal if bookie.memo is not None else None
    if renewal is not None:
        return Reason.VOLUME_REPLACED if renewal.claims else Reason.REPLACING_VOLUME
    return Reason.DECOMMISSIONING_BOOKIE if bookie.has_cookie else Reason.BOOKIE_DECOMMISSIONED


def fact(bookie: Leaving, found: Next, *, waiting_for: str | None = None) -> LeaveFact:
    """What the status says of it."""
    name, step = bookie.bookie, found.step.value if found.step is not None else None
    reason = doing(bookie, found)
    verb = "leaves" if reason is Reason.DECOMMISSIONING_BOOKIE else "gets a new volume"
    if found.reason is not None:
        message = found.text
    elif step is None:
        message = f"Bookie {name} is to be {bookie.deed}: waiting for {waiting_for}" if waiting_for else found.text
    else:
        message = f"Bookie {name} {verb}, step {step}: " + (f"waiting for {waiting_for}" if waiting_for else found.text)
    return LeaveFact(
        bookie=name,
        ordinal=bookie.ordinal,
        step=step,
        waiting_for=waiting_for,
        reason=found.reason,
        message=message,
        # Of one that is refused, or does not come up, no step is shown: what is changed may be what it needs.
        holds=step is not None or (bookie.under_way and found.act is not Act.NOTHING),
        forgotten=bookie.forgotten,
        doing=reason,
    )


def begun(bookie: Leaving, found: Next) -> LeavingMemo:
    """The memo of one that begins to leave."""
    size = bookie.widest.size if bookie.widest is not None else 1
    return LeavingMemo(bookie.bookie, bookie.ordinal, bookie.now, ensemble=size, renewal=found.renewal)


async def _begin(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    if bookie.scan is None:
        # One of a removal that did not begin may be there, however old.
        await forget_examination(the.session)
    await the.remember(await with_copies(the.session, memo))
    if found.renewal is not None and found.renewal.cause is Cause.LOST:
        await the.hand.warn(Reason.VOLUME_LOST, found.text)
    else:
        await the.hand.record_event(doing(bookie, found), found.text)


async def _read_only(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    now = readonly_now(memo, bookie.process)
    if now != memo:
        await the.remember(now)
    await the.set_readonly(bookie, True)
    await the.hand.record_event(doing(bookie, found), found.text)


async def _writable(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    await the.remember(memo.about_to_free())
    await the.set_readonly(bookie, False)
    await the.remember(memo.now_free())
    await the.hand.record_event(doing(bookie, found), found.text)


async def _unload(the: Decommission, bookie: Leaving, found: Next) -> LeaveFact:
    """Topics, a bounded number, by name; how far it came is remembered."""
    step, memo, scan = the.step, bookie.memo, bookie.scan
    assert memo is not None and scan is not None
    endpoint = step.facts.brokers(step.rendered) if step.facts.spec.broker is not None else None
    came = await unload(the.hand.deps, endpoint, found.topics)
    if came.done:
        text = f"Unloaded {len(came.done)} topics, {came.done[0]} for one: {found.text}"
        await the.hand.record_event(doing(bookie, found), text)
    last = came.last
    if not last and memo.renewal is not None and not bookie.registered:
        # No broker may ever be up without what is lost: a round in vain, so that it comes to a confirmation.
        last = found.topics[-1]
    if last:
        handles = replace(memo.handles, after=last)
        through = scan.highest if memo.through is None else memo.through
        missed = memo.missed or bool(came.failures)
        try:
            await the.remember(replace(memo, handles=handles, through=through, missed=missed))
        except PortError as error:
            return fact(bookie, found, waiting_for=f"{found.act.value}: {error}")
    text = "topics to be unloaded that may write to it"
    if came.failures:
        text += f"; {came.failures[0]}"
    return replace(fact(bookie, found, waiting_for=text), again=not came.failures)


async def _round(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    await the.remember(round_now(tried_now(memo, bookie.now)))


async def _after_round(the: Decommission, bookie: Leaving, found: Next) -> LeaveFact | None:
    return fact(bookie, found) if bookie.memo is not None and bookie.memo.missed else None


async def _note(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    scan = bookie.scan
    if scan is not None and found.helper is not None:
        await the.remember(asked_now(memo, found.helper, scan, bookie.now))
    elif scan is not None:
        again = found.act is Act.AUDIT and memo.asked == AUDITOR
        await the.remember(replace(memo, asked=AUDITOR, asked_at=bookie.now, naming=scan.naming, stalled=again))


async def _copy(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    if found.helper is not None and bookie.scan is not None:
        await _note(the, bookie, found, memo)
        await the.hand.deps.bookies.recover(the.seen.host(Component.AUTORECOVERY, found.helper.ordinal), bookie.bookie)
        await the.hand.record_event(doing(bookie, found), f"Asked for a copy: {found.text}")


async def _audit(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    """Have the auditor look at once: it does where the delay is set to what it is (class Auditor,
    submitLostBookieRecoveryDelayChangedEvent)."""
    if bookie.scan is not None:
        await _note(the, bookie, found, memo)
        node = await the.session.get(LOST_BOOKIE_RECOVERY_DELAY)
        if node is not None:
            await the.session.set(LOST_BOOKIE_RECOVERY_DELAY, node.data, version=node.version)
        await the.hand.record_event(doing(bookie, found), f"Asked the auditor to look: {found.text}")


async def _lower(the: Decommission, bookie: Leaving, found: Next) -> None:
    await lower_by_one(the.step, the.there)


async def _copied(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    """None was left, so that the copy came to its end; these are named since."""
    if memo.asked is not None or memo.forgot:
        await the.remember(replace(memo, asked=None, forgot=False))


async def _raise(the: Decommission, bookie: Leaving, found: Next) -> LeaveFact | None:
    numbered = await raise_to(the.step, the.there, bookie.ordinal + 1, bookie.storage.cookies)
    if numbered.foreign is not None:
        return replace(fact(bookie, found), reason=Reason.FOREIGN_VOLUME, message=numbered.foreign)
    if numbered.waiting_for is not None:
        return fact(bookie, found, waiting_for=f"{numbered.waiting_for}; {found.text}")
    return None


async def _forget(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    """Its cookie, at the version that it had before the ledgers were looked at."""
    session, renewal, scan = the.session, memo.renewal, bookie.scan
    if bookie.former:
        gone = bookie.bookie not in (await storage_facts(session)).registered
    elif renewal is not None:
        gone = not await claims_there(the.step, renewal.claims)
    else:
        gone = await is_without_pod(the.step, the.there, bookie.ordinal)
    if not gone:
        return
    if renewal is not None and renewal.accepted and scan is not None and scan.naming:
        await remember_given_up(session, bookie.bookie, scan)
    if not memo.forgot:
        await the.remember(replace(memo, forgot=True))
    # Not earlier: a pod on lost volumes, whose claims are deleted next, would start with them.
    await spend(session, own_bookies(the.step), bookie.bookie, CountCopy(the.hand.deps, the.step.facts))
    await _delete(session, f"{COOKIES}/{bookie.bookie}", the.seen.cookie_version)
    await the.hand.record_event(_done(bookie), f"Deleted the cookie of bookie {bookie.bookie}: {found.text}")


async def _mark(the: Decommission, bookie: Leaving, found: Next) -> None:
    await mark(the.step, list(bookie.claims), bookie.bookie)


async def _renewed(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    if found.renewal is not None:
        await the.remember(replace(memo, renewal=found.renewal))


async def _discard(the: Decommission, bookie: Leaving, found: Next) -> None:
    await discard(the.step, list(bookie.claims), found.text)


async def _replace(the: Decommission, bookie: Leaving, found: Next) -> None:
    await the.delete_pod(bookie.bookie.partition(".")[0], bookie.uid, found.text, Reason.REPLACING_VOLUME)


async def _end_copy(the: Decommission, bookie: Leaving, found: Next) -> None:
    """The auto-recovery pod that copies is made again: what it was asked ends with its process, and what it copied
    of a ledger without naming it in the metadata is deleted by the bookie that has it."""
    asked = next((each for each in bookie.helpers if bookie.memo and each.uid == bookie.memo.asked), None)
    if asked is not None:
        name = f"{workload_name(the.step.facts.owner.name, Component.AUTORECOVERY)}-{asked.ordinal}"
        await the.delete_pod(name, asked.uid, found.text, doing(bookie, found))


async def _release(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    await the.remember(memo.about_to_free())
    await remember_end(the.session, bookie.bookie, bookie.now)
    await remember_copies(the.session, memo)
    await the.set_readonly(bookie, False)
    await forget_examination(the.session)
    await the.forget_memo()
    await the.hand.warn(Reason.DECOMMISSION_REFUSED, found.text)


async def _stop(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    await the.remember(replace(memo, stopped=bookie.generation, freed=False, why=found.text))
    await the.hand.warn(Reason.DECOMMISSION_STUCK, found.text)


async def _end(the: Decommission, bookie: Leaving, found: Next, memo: LeavingMemo) -> None:
    await remember_copies(the.session, memo)
    await forget_examination(the.session)
    await the.forget_memo()
    await the.hand.record_event(_done(bookie), found.text)


async def _over(the: Decommission, bookie: Leaving, found: Next) -> LeaveFact:
    return LeaveFact(again=True)


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
        Act.LOWER: Action(last_look=True, finish=_lower),
        Act.RAISE: Action(write=_copied, finish=_raise),
        Act.FORGET: Action(write=_forget),
        Act.MARK: Action(finish=_mark),
        Act.DISCARD: Action(last_look=True, ends_pod=True, write=_renewed, finish=_discard),
        Act.REPLACE: Action(last_look=True, ends_pod=True, finish=_replace),
        Act.RELEASE: Action(before=_end_copy, write=_release, finish=_over),
        Act.STOP: Action(write=_stop),
        Act.END: Action(write=_end, finish=_over),
    }
)
