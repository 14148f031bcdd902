"""Reads the facts about a bookie that is decommissioned or gets a new volume, with every ledger if that matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import BookieStatus
from pulsar_operator.api.v1alpha1.confirmations import UsedClusterConfirmation
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import claims, own_bookies
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_scan import GONE, examine_ledgers
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import Unwritten, took_entries
from pulsar_operator.controllers.dataplane.bookkeeper.scan_sweep import Subject
from pulsar_operator.controllers.dataplane.decommission.requested_copies import ended_copies, with_copies
from pulsar_operator.controllers.dataplane.observed.outage import back_since
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.observed.quorums import widest_ensemble
from pulsar_operator.controllers.dataplane.rollout.observe import component_states
from pulsar_operator.domain.bookkeeper.affinity import PRIMARY_KEY, SECONDARY_KEY, Widest, groups_of
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.bookkeeper.ledger_scan_record import Examining
from pulsar_operator.domain.bookkeeper.rack_entries import distinct
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.bookkeeper.znodes import COOKIES
from pulsar_operator.domain.consent import Question, accepted_number, answered
from pulsar_operator.domain.dataplane.decommission.decommission import subject
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, DecommissionFacts, Helper, Next
from pulsar_operator.domain.dataplane.decommission.decommission_record import DecommissionRecord
from pulsar_operator.domain.dataplane.decommission.volume_replacement import next_step, question_of
from pulsar_operator.domain.dataplane.decommission.volume_requests import FALSE
from pulsar_operator.domain.dataplane.objects.pods import pods_of, restarts
from pulsar_operator.domain.dataplane.registration.quorum_record import default_ensemble
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of
from pulsar_operator.domain.render import BRING_UP_ORDER, ListenerPlan
from pulsar_operator.domain.render.volumes import disk_shares
from pulsar_operator.ports import Json, PortError, UnavailableError, ZooKeeperSession

TAKES_ENTRIES = frozenset({Act.READ_ONLY, Act.WRITABLE, Act.RAISE, Act.RELEASE})
"""Actions on a bookie that takes entries, or will."""
DECISIONS = 5
"""Maximum decisions in one pass: each but the last only reads more."""


def stored_row(ctx: PhaseContext) -> BookieStatus | None:
    """Returns the row of the status that has a step; None if none has."""
    return next((row for row in ctx.facts.before.bookies if row.step), None)


@dataclass
class DecommissionObservation:
    """Reads the facts about one bookie."""

    ctx: PhaseContext
    there: Json
    """The StatefulSet."""
    session: ZooKeeperSession
    asked: Mapping[int, str] = field(default_factory=dict)
    """Why a new volume is requested, by ordinal (volume_requests.py)."""
    cookie_version: int | None = None
    """Version of the bookie's cookie, read before the ledgers."""

    async def bookie(self, storage: StorageFacts, record: DecommissionRecord | None) -> DecommissionFacts | None:
        """Returns the bookie that may need an action; None if there is none. Raises PortError of Kubernetes."""
        own, replicas = own_bookies(self.ctx), replicas_of(self.there)
        manifests = self.ctx.rendered.of(Component.BOOKIE)
        desired = replicas_of(next(each for each in manifests if each["kind"] == self.there["kind"]))
        ordinal = record.ordinal if record is not None else self._subject(own, storage, replicas, desired)
        former = own.former()
        if record is not None and record.renewal is None:
            later = own.id(record.ordinal)
            if later != record.bookie and later in own.present:
                # Also once its cookie is deleted: the claims are those of the later one.
                return await self._former(storage, record.bookie, record)
        if ordinal is not None:
            return await self._facts_of(storage, ordinal, record, replicas=replicas, desired=desired)
        return await self._former(storage, former[0], None) if former else None

    async def _former(self, storage: StorageFacts, bookie: str, record: DecommissionRecord | None) -> DecommissionFacts:
        """Returns an earlier incarnation of an existing bookie, which has neither a pod nor a volume any more."""
        ordinal = own_bookies(self.ctx).ordinal(bookie)
        assert ordinal is not None
        found = await self._facts_of(storage, ordinal, record, replicas=ordinal, desired=ordinal)
        registered = bookie in storage.registered
        return replace(found, bookie=bookie, former=True, pod=registered, uid="", readonly=None, claims=(), rack=False)

    async def decide(self, bookie: DecommissionFacts) -> tuple[DecommissionFacts, Next | None]:
        """Decides the next action, and reads all facts that the decision needs. Raises PortError."""
        cookie = await self.session.get(f"{COOKIES}/{bookie.bookie}")
        self.cookie_version = cookie.version if cookie is not None else None
        bookie = replace(bookie, cookie=cookie.created if cookie is not None else None)
        if bookie.record is None:
            bookie = replace(bookie, ended=await ended_copies(self.session, bookie.bookie, bookie.now))
        found = next_step(bookie)
        for _ in range(DECISIONS):
            if found is None:
                break
            if found.act is Act.ASK:
                bookie = replace(bookie, widest=await self._widest())
            elif found.act is Act.SCAN and bookie.examining is None:
                known = await self._scan(bookie)
                if isinstance(known, Examining):
                    bookie = replace(bookie, examining=known)
                else:
                    bookie = replace(bookie, scan=known)
            else:
                break
            found = next_step(bookie)
        if found is not None and found.act is Act.SCAN and bookie.examining is not None:
            found = replace(found, act=Act.NOTHING, text=str(bookie.examining))
        if found is not None and found.act in TAKES_ENTRIES and self.ctx.actor.act:
            await took_entries(self.session, bookie.bookie)
        return bookie, found

    def _subject(self, own: OwnBookies, storage: StorageFacts, replicas: int, desired: int) -> int | None:
        """Returns the bookie that needs an action; one that lost its volume comes first."""
        volumes = self.ctx.view.volumes
        lost = sorted(volumes.lost if volumes is not None else ())
        asked = sorted(ordinal for ordinal, why in self.asked.items() if why != FALSE)
        down = [each for each in asked if own.id(each) not in storage.registered and each < min(desired, replicas)]
        if lost or down:
            return [*lost, *down][0]
        found = subject(own, storage.cookies, replicas, desired)
        return found if found is not None else next((each for each in asked if each < desired), None)

    def _first(self, ordinal: int) -> str | None:
        """Returns a bookie that lost its volume, which comes first."""
        volumes = self.ctx.view.volumes
        others = sorted(set(volumes.lost) - {ordinal}) if volumes is not None else []
        if not others or ordinal in (volumes.lost if volumes is not None else ()):
            return None
        return f"bookie {own_bookies(self.ctx).id(others[0])} lost its volume and is handled first"

    async def _facts_of(
        self, storage: StorageFacts, ordinal: int, record: DecommissionRecord | None, *, replicas: int, desired: int
    ) -> DecommissionFacts:
        ctx, own = self.ctx, own_bookies(self.ctx)
        pods = pods_of(self.there, ctx.live.pods(Component.BOOKIE))
        pod = next((each for each in pods if each.ordinal == ordinal), None)
        keeper, row = ctx.facts.spec.bookkeeper, stored_row(ctx)
        assert keeper is not None
        bookie = record.bookie if record is not None else own.last_id(ordinal)
        volumes, later = ctx.view.volumes, own.id(ordinal)
        now = ctx.actor.deps.clock.now()
        return DecommissionFacts(
            bookie=bookie,
            ordinal=ordinal,
            replicas=replicas,
            desired=desired,
            others=tuple(own.id(each) for each in range(replicas) if each != ordinal),
            storage=storage,
            pod=pod is not None,
            readonly=await self.readonly(ordinal) if pod is not None else None,
            claims=tuple(claim for claim in await claims(ctx, [ordinal]) if claim.ordinal == ordinal),
            record=record,
            step=row.step if row is not None and row.id == bookie else None,
            helpers=self._helpers(),
            widest=None,
            obstacle=_rollout_blocker(ctx),
            generation=ctx.facts.meta.generation,
            now=now,
            timeout=keeper.decommission.timeout_seconds,
            counts_from=back_since(ctx.facts, now),
            uid=pod.uid if pod is not None else "",
            ends=pod is not None and pod.terminating,
            rack=self._has_rack(bookie, ordinal, desired),
            racks_left=self._racks_left(storage, bookie),
            scaled=_scaled(ctx),
            required_racks=keeper.racks.minimum if keeper.racks is not None and keeper.racks.enforce_minimum else 0,
            process=f"{pod.uid}/{restarts(pod.raw)}" if pod is not None else "",
            first=self._first(ordinal),
            lost=volumes.lost.get(ordinal) if volumes is not None else None,
            lost_too=frozenset(
                own.id(each) for each in (volumes.lost if volumes is not None else ()) if each != ordinal
            ),
            asked=self.asked.get(ordinal),
            given_up=_given_up(ctx),
            disks=ctx.view.storage.disks if ctx.view.storage is not None else {},
            mark=disk_shares(keeper, ctx.facts.spec.preset)[0],
            accepted=self._accepted(ordinal, record),
            confirmations=tuple(ctx.facts.spec.confirmations),
            successor=later if later != bookie else "",
        )

    def _accepted(self, ordinal: int, record: DecommissionRecord | None) -> int | None:
        if record is None:
            return None
        now = self.ctx.actor.deps.clock.now()
        return accepted_number(
            question_of(ordinal, record),
            self.ctx.facts.spec.confirmations,
            self.ctx.facts.before.used_confirmations,
            now,
        )

    def answered(self, question: Question) -> UsedClusterConfirmation | None:
        """The confirmation that answers a question; None if there is none."""
        now = self.ctx.actor.deps.clock.now()
        return answered(question, self.ctx.facts.spec.confirmations, self.ctx.facts.before.used_confirmations, now)

    def _has_rack(self, bookie: str, ordinal: int, desired: int) -> bool:
        """Whether its rack must still be removed (bookkeeper/bookie_racks.py)."""
        racks = self.ctx.view.racks
        return racks is not None and ordinal >= desired and bookie in racks.ours and bookie in (racks.written or {})

    def _racks_left(self, storage: StorageFacts, bookie: str) -> int | None:
        written = self.ctx.view.racks.written if self.ctx.view.racks is not None else None
        if written is None:
            return None
        return distinct(written[each] for each in storage.writable - {bookie} if each in written)

    def host(self, component: Component, ordinal: int) -> str:
        """Returns the host name of a pod."""
        facts = self.ctx.facts
        return ListenerPlan(facts.owner, component, facts.spec.cluster_domain).pod_host(ordinal)

    async def readonly(self, ordinal: int) -> bool | None:
        """Returns whether a bookie reports itself as read-only; None if it does not answer."""
        try:
            return await self.ctx.actor.deps.bookies.readonly(self.host(Component.BOOKIE, ordinal))
        except PortError:
            return None

    def _helpers(self) -> tuple[Helper, ...]:
        there = self.ctx.live.stateful_set(Component.AUTORECOVERY)
        pods = pods_of(there, self.ctx.live.pods(Component.AUTORECOVERY)) if there is not None else ()
        return tuple(Helper(pod.ordinal, pod.uid) for pod in pods if pod.ready and not pod.terminating)

    async def _scan(self, bookie: DecommissionFacts) -> LedgerScan | Examining:
        """Returns the ledgers that reference it, or the progress of their examination. Nothing is written in a dry
        run."""
        record, alive = bookie.record, bookie.storage.registered
        if record is None:
            node = DecommissionRecord(bookie.bookie, bookie.ordinal, bookie.now)
            handles = (await with_copies(self.session, node)).handles
        else:
            handles = record.handles
        renewal = record.renewal if record is not None else None
        token = self._token(bookie)
        subject = Subject(
            bookie=bookie.bookie,
            alive=alive,
            handles=handles,
            now=bookie.now,
            begun=bookie.under_way,
            token=token,
            ident=self.ctx.actor.deps.entropy.uuid(),
            final=bool(token) and (renewal is not None or token.startswith(GONE)),
            listed=renewal is not None and not bookie.registered,
            moved=renewal is not None and bool(renewal.claims),
        )
        if self.ctx.actor.act:
            return await examine_ledgers(self.session, subject)
        session = Unwritten(self.session)
        found = await examine_ledgers(session, subject)
        if isinstance(found, Examining):  # also where an earlier pass had begun with it
            found = await examine_ledgers(session, subject)
        if isinstance(found, Examining):
            raise UnavailableError(
                f"{found}. The examination is not recorded while the cluster is paused or in dry run"
            )
        return found

    def _token(self, bookie: DecommissionFacts) -> str:
        """Returns a token for the time in which the bookie takes no entries; empty if it may take some."""
        if not bookie.pod and not bookie.registered and bookie.ordinal >= bookie.replicas:
            return f"{GONE}/{self.there['metadata'].get('generation')}"
        if not bookie.under_way:
            return ""
        return f"read-only/{bookie.process}" if bookie.registered else f"not up/{bookie.uid}"

    async def _widest(self) -> Widest:
        ctx, store = self.ctx, self.ctx.facts.instance.store
        deps = ctx.actor.deps
        own = ctx.facts.instance.own_store
        policies = self.session if own else await deps.zookeeper.session(store.servers or "", store.chroot)
        assert ctx.rendered.quorum is not None
        default, broker = default_ensemble(ctx.live, ctx.rendered.quorum.ensemble_size), ctx.facts.spec.broker
        config = (broker.config if broker is not None else None) or {}
        groups = groups_of(config.get(PRIMARY_KEY), config.get(SECONDARY_KEY))
        found = await widest_ensemble(deps, policies, default.size, ctx.facts.obj, local=self.session, groups=groups)
        return found if found.size > default.size else replace(found, size=default.size, whose=default.whose)


def _given_up(ctx: PhaseContext) -> frozenset[int]:
    """Returns the ledgers that were abandoned with a bookie."""
    storage = ctx.view.storage
    found = storage.given_up if storage is not None else None
    return frozenset(ledger for of in (found or {}).values() for ledger in of.ledgers)


def _scaled(ctx: PhaseContext) -> bool:
    """Whether autoscaling decides the number of bookies."""
    keeper = ctx.facts.declared.bookkeeper
    return keeper is not None and keeper.autoscaling is not None


def _rollout_blocker(ctx: PhaseContext) -> str | None:
    """Returns the message of a rollout that must end first; None if there is none. One that waits for its maintenance
    window has not begun."""
    states = component_states(ctx.live, BRING_UP_ORDER, ctx.facts.order)
    outdated = next((each for each in states if each.revision is not None and each.outdated), None)
    if outdated is not None:
        return f"The rollout of the {outdated.component.value} pods is not complete"
    template_order = ctx.view.template_order
    if template_order is None or not ctx.live.settled():
        return "The pod templates are not applied yet"
    pending, blocker = template_order.pending, template_order.blocker
    if pending is None or (blocker is not None and blocker.reason is Reason.MAINTENANCE_WINDOW):
        return None
    return f"The rollout of the {pending.value} pods is not complete"
