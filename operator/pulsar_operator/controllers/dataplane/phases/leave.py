"""A bookie that is too many is emptied and removed, one at a time, the highest ordinal first; one that lost its volume,
or is to have another, is emptied and starts anew.

What is next is decided in domain/bookkeeper/leaving.py and renewing.py; here it is read and done. Everything is looked
at anew in each pass: what the bookie says of itself, what the metadata store says of it, and, while one leaves, every
ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.confirmations import UsedClusterConfirmation
from pulsar_operator.controllers.dataplane.phases.bookie_numbers import is_without_pod, lower_by_one, raise_to
from pulsar_operator.controllers.dataplane.phases.bookie_volumes import (
    claims,
    claims_there,
    discard,
    mark,
    own_bookies,
)
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.replication import local_store
from pulsar_operator.controllers.dataplane.phases.tiers import replicas_of
from pulsar_operator.controllers.dataplane.quorums import widest_ensemble
from pulsar_operator.controllers.dataplane.replacement import roll_plan
from pulsar_operator.controllers.dataplane.storage_facts import ledgers_naming, storage_facts
from pulsar_operator.controllers.dataplane.unloading import unload
from pulsar_operator.domain.bookkeeper.facts import OwnBookies, StorageFacts
from pulsar_operator.domain.bookkeeper.leaving import asked_now, may_act, readonly_now, round_now, subject
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH, Cause, LeavingMemo, parse_leaving_memo
from pulsar_operator.domain.bookkeeper.leaving_values import FALSE, Act, Helper, Leaving, Next, Widest
from pulsar_operator.domain.bookkeeper.renewing import AUDITOR, next_step
from pulsar_operator.domain.bookkeeper.scan import LedgerScan
from pulsar_operator.domain.bookkeeper.znodes import COOKIES, LOST_BOOKIE_RECOVERY_DELAY
from pulsar_operator.domain.dataplane.bookie_roll import given_up
from pulsar_operator.domain.dataplane.cluster_view import LeaveFact
from pulsar_operator.domain.dataplane.pods import pods_of, restarts
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.domain.render.names import pod_host, workload_name
from pulsar_operator.domain.stored import readable
from pulsar_operator.ports import PODS, ConflictError, Json, NotFoundError, PortError, ZooKeeperSession

WORDS = 200
"""Characters of an annotation that are told."""
DECISIONS = 5
"""Of one pass: each but the last only looks at more."""
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
    }
)
"""What is written into the metadata store, or told a bookie: its failure is no fault of this pass."""


async def leave(step: Step) -> LeaveFact:
    """One thing for a bookie that is too many, or was. Raises NameConflictError, PortError of Kubernetes alone."""
    there, metadata, storage = step.live.stateful_set(Component.BOOKIE), step.view.metadata, step.view.storage
    if there is None:
        return LeaveFact()
    if metadata is None or not metadata.local_ready or storage is None or storage.facts is None:
        return _unknown(step, storage.problem if storage is not None else "the metadata store is not known")
    store = step.facts.instance.store
    if not store.ready:
        return _unknown(step, f"the instance's configuration store: {store.message}")
    return await _Departure(step, there).run(storage.facts)


def _stored(step: Step) -> dict[str, Any] | None:
    """The row of the status that has a step."""
    status = readable(PulsarClusterStatus, step.facts.obj.get("status"))
    return next((row for row in status.get("bookies") or () if row.get("step")), None)


def _unknown(step: Step, why: str) -> LeaveFact:
    """While nothing is known: what the status says of it stays, and nothing is done."""
    row = _stored(step)
    if row is None:
        return LeaveFact()
    text = f"Bookie {row['id']} leaves: waiting for {why}"
    return LeaveFact(row["id"], row.get("ordinal"), row["step"], why, message=text, holds=True)


@dataclass
class _Departure:
    """One pass over one bookie."""

    step: Step
    there: Json
    """The StatefulSet."""
    memo_version: int | None = None
    cookie_version: int | None = None
    """Of the bookie's cookie, before the ledgers were looked at."""
    confirmed: UsedClusterConfirmation | None = None
    """That what only the bookie had is given up."""

    async def run(self, storage: StorageFacts) -> LeaveFact:
        """Look, decide, and do one thing."""
        step = self.step
        try:
            session = await self._session()
            node = await session.get(MEMO_PATH)
        except PortError as error:
            return _unknown(step, str(error))
        memo = parse_leaving_memo(node.data) if node is not None else None
        self.memo_version = node.version if node is not None else None
        wanted = replicas_of(next(each for each in step.rendered.of(Component.BOOKIE) if each["kind"] == "StatefulSet"))
        replicas, own = replicas_of(self.there), own_bookies(step)
        if memo is not None and memo.bookie != own.id(memo.ordinal):
            return await self._of_another(session, memo, own)
        ordinal = memo.ordinal if memo is not None else self._subject(own, storage, replicas, wanted)
        if ordinal is None:
            return LeaveFact()
        bookie = await self._leaving(storage, ordinal, memo, replicas, wanted)
        try:
            cookie = await session.get(f"{COOKIES}/{bookie.bookie}")
            self.cookie_version = cookie.version if cookie is not None else None
            bookie = replace(bookie, cookie=cookie.created if cookie is not None else None)
            bookie, found = await self._decide(session, bookie)
        except PortError as error:
            return _unknown(step, str(error))
        if found is None:
            return LeaveFact()
        return await self._act(session, bookie, found)

    async def _session(self) -> ZooKeeperSession:
        store = local_store(self.step)
        return await self.step.hand.deps.zookeeper.session(store.servers, store.chroot)

    async def _of_another(self, session: ZooKeeperSession, memo: LeavingMemo, own: OwnBookies) -> LeaveFact:
        """The memo is of a bookie that had another name: nothing here is about it."""
        text = f"Bookie {memo.bookie} is not {own.id(memo.ordinal)}: what was remembered of it is forgotten"
        if not self.step.hand.act:
            self.step.hand.pending.append(text)
            return LeaveFact()
        try:
            await _delete(session, MEMO_PATH, self.memo_version)
        except PortError as error:
            return _unknown(self.step, str(error))
        await self.step.hand.record_event(Reason.BOOKIE_LEAVING, text)
        return LeaveFact(again=True)

    def _subject(self, own: OwnBookies, storage: StorageFacts, replicas: int, wanted: int) -> int | None:
        """The bookie that something is to be done about: one that lost its volume first."""
        volumes = self.step.view.volumes
        lost = sorted(volumes.lost if volumes is not None else ())
        asked = sorted(ordinal for ordinal, why in self._asked().items() if why != FALSE)
        down = [ordinal for ordinal in asked if own.id(ordinal) not in storage.registered]
        staying = [ordinal for ordinal in (*lost, *down) if ordinal < min(wanted, replicas)]
        if staying:
            return staying[0]
        found = subject(own, storage.cookies, replicas, wanted)
        return found if found is not None else next((each for each in asked if each < wanted), None)

    def _asked(self) -> dict[int, str]:
        """Why somebody wants a new volume, by ordinal."""
        found = {}
        for pod in pods_of(self.there, self.step.live.pods(Component.BOOKIE)):
            why = (pod.raw["metadata"].get("annotations") or {}).get(ANNOTATION_REPLACE_VOLUME)
            if why is not None:
                found[pod.ordinal] = str(why)[:WORDS] or "no reason is given"
        return found

    def _first(self, ordinal: int) -> str | None:
        """A bookie that lost its volume comes first."""
        volumes = self.step.view.volumes
        others = sorted(set(volumes.lost) - {ordinal}) if volumes is not None else []
        if not others or ordinal in (volumes.lost if volumes is not None else ()):
            return None
        return f"bookie {own_bookies(self.step).id(others[0])} lost its volume, which comes first"

    async def _leaving(
        self, storage: StorageFacts, ordinal: int, memo: LeavingMemo | None, replicas: int, wanted: int
    ) -> Leaving:
        step, own = self.step, own_bookies(self.step)
        pods = pods_of(self.there, step.live.pods(Component.BOOKIE))
        pod = next((each for each in pods if each.ordinal == ordinal), None)
        keeper, row = step.facts.spec.bookkeeper, _stored(step)
        assert keeper is not None
        bookie, volumes = own.id(ordinal), step.view.volumes
        status = readable(PulsarClusterStatus, step.facts.obj.get("status"))
        used = [UsedClusterConfirmation.model_validate(each) for each in status.get("usedConfirmations") or ()]
        now = step.hand.deps.clock.now()
        if memo is not None:
            self.confirmed = given_up(step.facts.spec.confirmations, used, ordinal, memo.since, now)
        return Leaving(
            bookie=bookie,
            ordinal=ordinal,
            replicas=replicas,
            wanted=wanted,
            others=tuple(own.id(each) for each in range(replicas) if each != ordinal),
            storage=storage,
            pod=pod is not None,
            readonly=await self._readonly(ordinal) if pod is not None else None,
            claims=tuple(claim for claim in await claims(step) if claim.ordinal == ordinal),
            memo=memo,
            step=row["step"] if row is not None and row["id"] == bookie else None,
            helpers=self._helpers(),
            widest=None,
            obstacle=_roll(step),
            generation=step.facts.meta.generation,
            now=now,
            timeout=keeper.decommission.timeout_seconds,
            uid=pod.uid if pod is not None else "",
            ends=pod is not None and pod.terminating,
            process=f"{pod.uid}/{restarts(pod.raw)}" if pod is not None else "",
            ready=pod is not None and pod.ready,
            first=self._first(ordinal),
            lost=volumes.lost.get(ordinal) if volumes is not None else None,
            asked=self._asked().get(ordinal),
            accepted=self.confirmed is not None and self.confirmed in used,
        )

    def _host(self, component: Component, ordinal: int) -> str:
        owner = self.step.facts.owner
        workload = workload_name(owner.name, component)
        return pod_host(workload, ordinal, owner.namespace, self.step.facts.spec.cluster_domain)

    async def _readonly(self, ordinal: int) -> bool | None:
        try:
            return await self.step.hand.deps.bookies.readonly(self._host(Component.BOOKIE, ordinal))
        except PortError:
            return None

    def _helpers(self) -> tuple[Helper, ...]:
        there = self.step.live.stateful_set(Component.AUTORECOVERY)
        pods = pods_of(there, self.step.live.pods(Component.AUTORECOVERY)) if there is not None else ()
        return tuple(Helper(pod.ordinal, pod.uid) for pod in pods if pod.ready and not pod.terminating)

    async def _decide(self, session: ZooKeeperSession, bookie: Leaving) -> tuple[Leaving, Next | None]:
        """What is next, with all that had to be looked at for it. Raises PortError."""
        found = next_step(bookie)
        for _ in range(DECISIONS):
            if found is None:
                break
            if found.act is Act.ASK:
                bookie = replace(bookie, widest=await self._widest(session))
            elif found.act is Act.LOOK:
                bookie = replace(bookie, scan=await self._look(session, bookie))
            else:
                break
            found = next_step(bookie)
        return bookie, found

    async def _look(self, session: ZooKeeperSession, bookie: Leaving) -> LedgerScan:
        alive = bookie.storage.registered
        handles = bookie.memo.handles if bookie.memo is not None else None
        return await ledgers_naming(session, frozenset({bookie.bookie}), alive=alive, handles=handles)

    async def _widest(self, session: ZooKeeperSession) -> Widest:
        step, store = self.step, self.step.facts.instance.store
        deps = step.hand.deps
        own = step.facts.instance.own_store
        policies = session if own else await deps.zookeeper.session(store.servers or "", store.chroot)
        assert step.rendered.quorum is not None
        return await widest_ensemble(deps, policies, step.rendered.quorum.ensemble_size, step.facts.obj)

    async def _act(self, session: ZooKeeperSession, bookie: Leaving, found: Next) -> LeaveFact:
        hand = self.step.hand
        if found.act is Act.NOTHING:
            fact = _fact(bookie, found, waiting_for=None if found.reason is not None else found.text)
            if found.confirmable and self.confirmed is not None and hand.act:
                return replace(fact, confirmed=self.confirmed, again=True)
            return fact
        if not hand.act:
            hand.pending.append(f"{found.text}: {found.act.value}")
            shown = replace(found, step=None)
            return replace(_fact(bookie, shown), step=bookie.step, holds=bookie.under_way or bookie.step is not None)
        if not may_act(found, bookie.step):
            return replace(_fact(bookie, found), again=True)
        if found.act is Act.UNLOAD:
            return await self._unload(session, bookie, found)
        try:
            if found.act in _REMEMBERED:
                await self._remembered(session, bookie, found)
        except PortError as error:
            return _fact(bookie, found, waiting_for=f"{found.act.value}: {error}")
        if found.act is Act.DISCARD:
            await discard(self.step, list(bookie.claims), found.text)
        elif found.act is Act.REPLACE and (bookie.memo is None or await self._may_end(session, bookie)):
            where = {
                "name": bookie.bookie.partition(".")[0],
                "namespace": self.step.facts.owner.namespace,
                "uid": bookie.uid,
            }
            await hand.delete(PODS, {"metadata": where}, found.text, reason=Reason.REPLACING_VOLUME)
        if found.act is Act.LOWER and await self._still_empty(session, bookie):
            await lower_by_one(self.step, self.there)
        elif found.act is Act.RAISE:
            numbered = await raise_to(self.step, self.there, bookie.ordinal + 1, bookie.storage.cookies)
            if numbered.foreign is not None:
                return replace(_fact(bookie, found), reason=Reason.FOREIGN_VOLUME, message=numbered.foreign)
        elif found.act is Act.MARK:
            await mark(self.step, list(bookie.claims), bookie.bookie)
        if found.act is Act.END:
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
        if came.last:
            handles = replace(memo.handles, after=came.last)
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

    async def _still_empty(self, session: ZooKeeperSession, bookie: Leaving) -> bool:
        """Whether it has taken nothing since the look at the ledgers began. A store that does not answer says no."""
        if bookie.registered and await self._readonly(bookie.ordinal) is not True:
            return False
        try:
            return bookie.bookie not in (await storage_facts(session)).writable
        except PortError:
            return False

    async def _may_end(self, session: ZooKeeperSession, bookie: Leaving) -> bool:
        """Whether its pod may end with its volumes: none names it, or what is left was given up."""
        memo = bookie.memo
        given = memo is not None and memo.renewal is not None and memo.renewal.accepted
        return (given and not bookie.registered) or await self._still_empty(session, bookie)

    async def _remembered(self, session: ZooKeeperSession, bookie: Leaving, found: Next) -> None:
        """In the metadata store, and by HTTP. What a failure must not repeat is remembered first."""
        memo, hand, port, doing = bookie.memo, self.step.hand, self.step.hand.deps.bookies, _doing(bookie, found)
        host = self._host(Component.BOOKIE, bookie.ordinal)
        if found.act is Act.BEGIN:
            size = bookie.widest.size if bookie.widest is not None else 1
            begun = LeavingMemo(bookie.bookie, bookie.ordinal, bookie.now, ensemble=size, renewal=found.renewal)
            await self._remember(session, begun)
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
            await port.set_readonly(host, False)
            await self._remember(session, replace(memo, freed=True))
            await hand.record_event(doing, found.text)
        elif found.act is Act.ROUND:
            await self._remember(session, round_now(memo))
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
                await port.recover(self._host(Component.AUTORECOVERY, found.helper.ordinal), bookie.bookie)
                await hand.record_event(doing, f"Asked for a copy: {found.text}")
        elif found.act is Act.RAISE and memo.asked is not None:
            # None was left, so that the copy came to its end; these are named since.
            await self._remember(session, replace(memo, asked=None))
        elif found.act is Act.STOP:
            await self._remember(session, replace(memo, stopped=bookie.generation, freed=False, why=found.text))
            await hand.warn(Reason.DECOMMISSION_STUCK, found.text)
        elif found.act is Act.END:
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
        if memo is not None and memo.renewal is not None:
            gone = not await claims_there(self.step, memo.renewal.claims)
        else:
            gone = await is_without_pod(self.step, self.there, bookie.ordinal)
        if gone and memo is not None:
            if not memo.forgot:
                await self._remember(session, replace(memo, forgot=True))
            await _delete(session, f"{COOKIES}/{bookie.bookie}", self.cookie_version)
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


def _roll(step: Step) -> str | None:
    """A roll that must end first, in words; None = there is none. One that waits for its window has not begun."""
    plan = roll_plan(step.live, BRING_UP_ORDER, order=step.facts.order)
    if plan.rolling and plan.component is not None:
        return f"the roll of {plan.component.value} pods to end"
    turns = step.view.turns
    if turns is None or not step.live.settled():
        return "the pod templates to be applied"
    pending, held = turns.pending, turns.held
    if pending is None or (held is not None and held.reason is Reason.MAINTENANCE_WINDOW):
        return None
    return f"the roll of {pending.value} pods to end"


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
