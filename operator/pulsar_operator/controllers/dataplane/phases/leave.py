"""A bookie that is too many is emptied and removed, one at a time, the highest ordinal first; one that lost its volume,
or is to have another, is emptied and starts anew.

What is known is read in bookie_seen.py, what is next is decided in domain/bookkeeper/leaving.py and renewing.py; here
it is done. Everything is looked at anew in each pass: what the bookie says of itself, what the metadata store says of
it, and, while one leaves, every ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.dataplane.given_up import remember_given_up
from pulsar_operator.controllers.dataplane.incarnations import CountCopy, spend
from pulsar_operator.controllers.dataplane.phases.asked_copies import remember_copies, remember_end, with_copies
from pulsar_operator.controllers.dataplane.phases.bookie_numbers import is_without_pod, lower_by_one, raise_to
from pulsar_operator.controllers.dataplane.phases.bookie_seen import Seen, stored_row
from pulsar_operator.controllers.dataplane.phases.bookie_volumes import (
    claims_there,
    discard,
    mark,
    own_bookies,
    refused_again,
)
from pulsar_operator.controllers.dataplane.phases.free import make_writable
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.replication import local_store
from pulsar_operator.controllers.dataplane.phases.store_away import store_away
from pulsar_operator.controllers.dataplane.phases.tiers import replicas_of, wanted
from pulsar_operator.controllers.dataplane.phases.volume_requests import requests
from pulsar_operator.controllers.dataplane.scan_store import forget_examination
from pulsar_operator.controllers.dataplane.storage_facts import storage_facts
from pulsar_operator.controllers.dataplane.unloading import unload
from pulsar_operator.domain.bookkeeper.facts import StorageFacts
from pulsar_operator.domain.bookkeeper.identity import OwnBookies
from pulsar_operator.domain.bookkeeper.leaving import asked_now, may_act, readonly_now, round_now, tried_now
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH, Cause, LeavingMemo, parse_leaving_memo
from pulsar_operator.domain.bookkeeper.leaving_values import Act, Leaving, Next
from pulsar_operator.domain.bookkeeper.renewing import AUDITOR
from pulsar_operator.domain.bookkeeper.znodes import COOKIES, LOST_BOOKIE_RECOVERY_DELAY
from pulsar_operator.domain.dataplane.cluster_view import LeaveFact
from pulsar_operator.domain.render.names import workload_name
from pulsar_operator.ports import PODS, ConflictError, Json, NotFoundError, PortError, ZooKeeperSession

_REMEMBERED = frozenset(
    {
        Act.BEGIN,
        Act.NOTE,
        Act.STOP,
        Act.END,
        Act.WRITABLE,
        Act.READ_ONLY,
        Act.COPY,
        Act.AUDIT,
        Act.ROUND,
        Act.DISCARD,
        Act.FORGET,
        Act.RAISE,
        Act.RELEASE,
    }
)
"""What is written into the metadata store, or told a bookie: its failure is no fault of this pass."""
_LAST_LOOK = frozenset({Act.LOWER, Act.DISCARD, Act.REPLACE})
"""What nobody can take back, or what ends a process with its volumes."""
_ENDS_POD = frozenset({Act.DISCARD, Act.REPLACE})
"""What a pod does not survive: claims that are deleted go with it."""


async def leave(step: Step) -> LeaveFact:
    """One thing for a bookie that is too many, or was. Raises NameConflictError, PortError of Kubernetes alone."""
    there, metadata, storage = step.live.stateful_set(Component.BOOKIE), step.view.metadata, step.view.storage
    if there is None:
        return LeaveFact()
    # Before anything else: a request must be kept while its pod is there.
    asked = await requests(step, there)
    if metadata is None or not metadata.local_ready or storage is None or storage.facts is None:
        return _unknown(step, storage.problem if storage is not None else "the metadata store is not known")
    if (away := store_away(step)) is not None:
        short = "while the configuration store is away: too few others do"
        await make_writable(step, short, others=storage.facts.writable)
        return _held(step, there, away)
    local = local_store(step)
    try:
        session = await step.hand.deps.zookeeper.session(local.servers, local.chroot)
    except PortError as error:
        return _unknown(step, str(error))
    return await _Departure(step, there, Seen(step, there, session, asked)).run(storage.facts)


def _held(step: Step, there: Json, away: str) -> LeaveFact:
    """While the configuration store is away no topic can be unloaded: none begins to leave, and none goes on."""
    if stored_row(step) is not None or replicas_of(there) <= wanted(step, Component.BOOKIE):
        return _unknown(step, away)
    text = f"A bookie is to be removed: waiting for {away}"
    return LeaveFact(waiting_for=away, reason=Reason.CONFIGURATION_STORE_AWAY, message=text)


def _unknown(step: Step, why: str) -> LeaveFact:
    """While nothing is known: what the status says of it stays, and nothing is done."""
    row, there = stored_row(step), step.live.stateful_set(Component.BOOKIE)
    if row is None:
        if there is None or replicas_of(there) <= wanted(step, Component.BOOKIE):
            return LeaveFact()
        return LeaveFact(waiting_for=why, message=f"A bookie is to be removed: waiting for {why}")
    text = f"Bookie {row['id']} leaves: waiting for {why}"
    return LeaveFact(row["id"], row.get("ordinal"), row["step"], why, message=text, holds=True)


@dataclass
class _Departure:
    """One pass over one bookie."""

    step: Step
    there: Json
    """The StatefulSet."""
    seen: Seen
    memo_version: int | None = None

    async def run(self, storage: StorageFacts) -> LeaveFact:
        """Look, decide, and do one thing."""
        step, session, own = self.step, self.seen.session, own_bookies(self.step)
        try:
            node = await session.get(MEMO_PATH)
            memo = parse_leaving_memo(node.data) if node is not None else None
            self.memo_version = node.version if node is not None else None
            if memo is not None and own.ordinal(memo.bookie) != memo.ordinal:
                return await self._of_another(session, memo, own)
        except PortError as error:
            return _unknown(step, str(error))
        bookie = await self.seen.bookie(storage, memo)
        if bookie is None:
            return LeaveFact()
        try:
            bookie, found = await self.seen.decide(bookie)
        except PortError as error:
            return _unknown(step, str(error))
        return LeaveFact() if found is None else await self._act(session, bookie, found)

    async def _of_another(self, session: ZooKeeperSession, memo: LeavingMemo, own: OwnBookies) -> LeaveFact:
        """The memo is of a bookie that had another name: nothing here is about it. Raises PortError."""
        text = f"Bookie {memo.bookie} is not {own.id(memo.ordinal)}: what was remembered of it is forgotten"
        if not self.step.hand.act:
            self.step.hand.pending.append(text)
            return LeaveFact()
        await _delete(session, MEMO_PATH, self.memo_version)
        await self.step.hand.record_event(Reason.BOOKIE_LEAVING, text)
        return LeaveFact(again=True)

    async def _act(self, session: ZooKeeperSession, bookie: Leaving, found: Next) -> LeaveFact:
        hand = self.step.hand
        if found.act is Act.NOTHING:
            fact = _fact(bookie, found, waiting_for=None if found.reason is not None else found.text)
            if bookie.examining is not None:
                return replace(fact, again=True)
            by = self.seen.answered(found.question) if found.question is not None and hand.act else None
            return fact if by is None else replace(fact, confirmed=by, again=True)
        if not hand.act:
            hand.pending.append(f"{found.text}: {found.act.value}")
            shown = replace(found, step=None)
            return replace(_fact(bookie, shown), step=bookie.step, holds=bookie.under_way or bookie.step is not None)
        if not may_act(found, bookie.step):
            return replace(_fact(bookie, found), again=True)
        if found.act is Act.UNLOAD:
            return await self._unload(session, bookie, found)
        if found.act in _LAST_LOOK and not await self._may_go(session, bookie, found):
            return replace(_fact(bookie, found), again=True)
        if found.act in _ENDS_POD and (refused := await refused_again(self.step, self.there, bookie.uid)):
            return replace(_fact(bookie, found), reason=refused.reason, message=refused.message)
        if found.act is Act.RELEASE:
            await self._end_copy(bookie, found)
        try:
            if found.act in _REMEMBERED:
                await self._remembered(session, bookie, found)
        except PortError as error:
            return _fact(bookie, found, waiting_for=f"{found.act.value}: {error}")
        if found.act is Act.DISCARD:
            await discard(self.step, list(bookie.claims), found.text)
        elif found.act is Act.REPLACE:
            where = {
                "name": bookie.bookie.partition(".")[0],
                "namespace": self.step.facts.owner.namespace,
                "uid": bookie.uid,
            }
            await hand.delete(PODS, {"metadata": where}, found.text, reason=Reason.REPLACING_VOLUME)
        elif found.act is Act.LOWER:
            await lower_by_one(self.step, self.there)
        elif found.act is Act.RAISE:
            numbered = await raise_to(self.step, self.there, bookie.ordinal + 1, bookie.storage.cookies)
            if numbered.foreign is not None:
                return replace(_fact(bookie, found), reason=Reason.FOREIGN_VOLUME, message=numbered.foreign)
            if numbered.waiting_for is not None:
                return _fact(bookie, found, waiting_for=f"{numbered.waiting_for}; {found.text}")
        elif found.act is Act.MARK:
            await mark(self.step, list(bookie.claims), bookie.bookie)
        if found.act in (Act.END, Act.RELEASE):
            return LeaveFact(again=True)
        waits = found.act in (Act.COPY, Act.AUDIT) or (found.act is Act.ROUND and bookie.memo and bookie.memo.missed)
        return replace(_fact(bookie, found), again=not waits)

    async def _unload(self, session: ZooKeeperSession, bookie: Leaving, found: Next) -> LeaveFact:
        """Topics, a bounded number, by name; how far it came is remembered."""
        step, memo, scan = self.step, bookie.memo, bookie.scan
        assert memo is not None and scan is not None
        endpoint = step.facts.brokers(step.rendered) if step.facts.spec.broker is not None else None
        came = await unload(step.hand.deps, endpoint, found.topics)
        if came.done:
            text = f"Unloaded {len(came.done)} topics, {came.done[0]} for one: {found.text}"
            await step.hand.record_event(_doing(bookie, found), text)
        last = came.last
        if not last and memo.renewal is not None and not bookie.registered:
            # No broker may ever be up without what is lost: a round in vain, so that it comes to a confirmation.
            last = found.topics[-1]
        if last:
            handles = replace(memo.handles, after=last)
            through = scan.highest if memo.through is None else memo.through
            missed = memo.missed or bool(came.failures)
            try:
                await self._remember(session, replace(memo, handles=handles, through=through, missed=missed))
            except PortError as error:
                return _fact(bookie, found, waiting_for=f"{found.act.value}: {error}")
        text = "topics to be unloaded that may write to it"
        if came.failures:
            text += f"; {came.failures[0]}"
        return replace(_fact(bookie, found, waiting_for=text), again=not came.failures)

    async def _end_copy(self, bookie: Leaving, found: Next) -> None:
        """The auto-recovery pod that copies is made again: what it was asked ends with its process, and what it copied
        of a ledger without naming it in the metadata is deleted by the bookie that has it. Raises PortError."""
        asked = next((each for each in bookie.helpers if bookie.memo and each.uid == bookie.memo.asked), None)
        if asked is not None:
            owner = self.step.facts.owner
            name = f"{workload_name(owner.name, Component.AUTORECOVERY)}-{asked.ordinal}"
            where = {"name": name, "namespace": owner.namespace, "uid": asked.uid}
            await self.step.hand.delete(PODS, {"metadata": where}, found.text, reason=_doing(bookie, found))

    async def _may_go(self, session: ZooKeeperSession, bookie: Leaving, found: Next) -> bool:
        """Whether it has taken nothing since the look at the ledgers began, or is still away where what it had is given
        up. Asked directly before; a store that does not answer says no."""
        renewal = found.renewal or (bookie.memo.renewal if bookie.memo is not None else None)
        if bookie.registered and await self.seen.readonly(bookie.ordinal) is not True:
            return False
        try:
            now = await storage_facts(session)
        except PortError:
            return False
        given_up = renewal is not None and renewal.accepted and not bookie.registered
        return bookie.bookie not in (now.registered if given_up else now.writable)

    async def _remembered(self, session: ZooKeeperSession, bookie: Leaving, found: Next) -> None:
        """In the metadata store, and by HTTP. What a failure must not repeat is remembered first."""
        memo, hand, port, doing = bookie.memo, self.step.hand, self.step.hand.deps.bookies, _doing(bookie, found)
        host = self.seen.host(Component.BOOKIE, bookie.ordinal)
        if found.act is Act.BEGIN:
            size = bookie.widest.size if bookie.widest is not None else 1
            begun = LeavingMemo(bookie.bookie, bookie.ordinal, bookie.now, ensemble=size, renewal=found.renewal)
            if bookie.scan is None:
                # One of a removal that did not begin may be there, however old.
                await forget_examination(session)
            await self._remember(session, await with_copies(session, begun))
            if found.renewal is not None and found.renewal.cause is Cause.LOST:
                await hand.warn(Reason.VOLUME_LOST, found.text)
            else:
                await hand.record_event(doing, found.text)
        elif found.act is Act.FORGET:
            await self._forget(session, bookie, found.text)
            return
        if memo is None:
            return
        if found.act is Act.READ_ONLY:
            now = readonly_now(memo, bookie.process)
            if now != memo:
                await self._remember(session, now)
            await port.set_readonly(host, True)
            await hand.record_event(doing, found.text)
        elif found.act is Act.WRITABLE:
            await self._remember(session, memo.about_to_free())
            await port.set_readonly(host, False)
            await self._remember(session, memo.now_free())
            await hand.record_event(doing, found.text)
        elif found.act is Act.ROUND:
            await self._remember(session, round_now(tried_now(memo, bookie.now)))
        elif found.act is Act.DISCARD and found.renewal is not None:
            await self._remember(session, replace(memo, renewal=found.renewal))
        elif bookie.scan is not None and (found.act is Act.AUDIT or (found.act is Act.NOTE and found.helper is None)):
            again = found.act is Act.AUDIT and memo.asked == AUDITOR
            asked = replace(memo, asked=AUDITOR, asked_at=bookie.now, naming=bookie.scan.naming, stalled=again)
            await self._remember(session, asked)
            if found.act is Act.AUDIT:
                await _audit(session)
                await hand.record_event(doing, f"Asked the auditor to look: {found.text}")
        elif found.act in (Act.COPY, Act.NOTE) and found.helper is not None and bookie.scan is not None:
            await self._remember(session, asked_now(memo, found.helper, bookie.scan, bookie.now))
            if found.act is Act.COPY:
                await port.recover(self.seen.host(Component.AUTORECOVERY, found.helper.ordinal), bookie.bookie)
                await hand.record_event(doing, f"Asked for a copy: {found.text}")
        elif found.act is Act.RAISE and (memo.asked is not None or memo.forgot):
            # None was left, so that the copy came to its end; these are named since.
            await self._remember(session, replace(memo, asked=None, forgot=False))
        elif found.act is Act.STOP:
            await self._remember(session, replace(memo, stopped=bookie.generation, freed=False, why=found.text))
            await hand.warn(Reason.DECOMMISSION_STUCK, found.text)
        elif found.act is Act.RELEASE:
            await self._remember(session, memo.about_to_free())
            await remember_end(session, bookie.bookie, bookie.now)
            await remember_copies(session, memo)
            await port.set_readonly(host, False)
            await forget_examination(session)
            await _delete(session, MEMO_PATH, self.memo_version)
            await hand.warn(Reason.DECOMMISSION_REFUSED, found.text)
        elif found.act is Act.END:
            await remember_copies(session, memo)
            await forget_examination(session)
            await _delete(session, MEMO_PATH, self.memo_version)
            await hand.record_event(_done(bookie), found.text)

    async def _remember(self, session: ZooKeeperSession, memo: LeavingMemo) -> None:
        if self.memo_version is None:
            await session.create(MEMO_PATH, memo.data())
            self.memo_version = 0
        else:
            await session.set(MEMO_PATH, memo.data(), version=self.memo_version)
            self.memo_version += 1

    async def _forget(self, session: ZooKeeperSession, bookie: Leaving, why: str) -> None:
        """Its cookie, at the version that it had before the ledgers were looked at."""
        memo = bookie.memo
        if bookie.former:
            gone = bookie.bookie not in (await storage_facts(session)).registered
        elif memo is not None and memo.renewal is not None:
            gone = not await claims_there(self.step, memo.renewal.claims)
        else:
            gone = await is_without_pod(self.step, self.there, bookie.ordinal)
        if gone and memo is not None:
            renewal, scan = memo.renewal, bookie.scan
            if renewal is not None and renewal.accepted and scan is not None and scan.naming:
                await remember_given_up(session, bookie.bookie, scan)
            if not memo.forgot:
                await self._remember(session, replace(memo, forgot=True))
            # Not earlier: a pod on lost volumes, whose claims are deleted next, would start with them.
            copy = CountCopy(self.step.hand.deps, self.step.facts)
            await spend(session, own_bookies(self.step), bookie.bookie, copy)
            await _delete(session, f"{COOKIES}/{bookie.bookie}", self.seen.cookie_version)
            text = f"Deleted the cookie of bookie {bookie.bookie}: {why}"
            await self.step.hand.record_event(_done(bookie), text)


def _doing(bookie: Leaving, found: Next) -> Reason:
    """What is done to a bookie."""
    renewed = found.renewal is not None or (bookie.memo is not None and bookie.memo.renewal is not None)
    return Reason.REPLACING_VOLUME if renewed else Reason.BOOKIE_LEAVING


def _done(bookie: Leaving) -> Reason:
    """What was done to it in the end."""
    renewal = bookie.memo.renewal if bookie.memo is not None else None
    if renewal is not None:
        return Reason.VOLUME_REPLACED if renewal.claims else Reason.REPLACING_VOLUME
    return Reason.BOOKIE_LEAVING if bookie.has_cookie else Reason.BOOKIE_REMOVED


async def _audit(session: ZooKeeperSession) -> None:
    """Have the auditor look at once: it does where the delay is set to what it is (class Auditor,
    submitLostBookieRecoveryDelayChangedEvent)."""
    node = await session.get(LOST_BOOKIE_RECOVERY_DELAY)
    if node is not None:
        await session.set(LOST_BOOKIE_RECOVERY_DELAY, node.data, version=node.version)


async def _delete(session: ZooKeeperSession, path: str, version: int | None) -> None:
    try:
        if version is not None:
            await session.delete(path, version=version)
    except NotFoundError:
        return
    except ConflictError:
        if await session.get(path) is not None:
            raise


def _fact(bookie: Leaving, found: Next, *, waiting_for: str | None = None) -> LeaveFact:
    name, step = bookie.bookie, found.step.value if found.step is not None else None
    doing = _doing(bookie, found)
    verb = "leaves" if doing is Reason.BOOKIE_LEAVING else "gets a new volume"
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
        doing=doing,
    )
