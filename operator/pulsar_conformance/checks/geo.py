"""Two clusters of one instance: replication, an unavailable cluster, and an unavailable configuration store."""

from __future__ import annotations

import secrets
import time

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.kit.counted import MORE, RATE, accounts, goes_on
from pulsar_conformance.kit.faults import made, none_made, quick, session, standing_still
from pulsar_conformance.kit.geo import (
    CONNECTS,
    REMOTE_BROKERS,
    STORE,
    across,
    both,
    counted_both,
    remote,
    remote_admin,
    remote_client,
    shared_namespace,
    shared_topic,
    store_of_its_own,
    waiting,
)
from pulsar_conformance.model import CheckFailed, check

COUNT = 20
"""Messages of each cluster."""
QUIET = 2.0
"""Seconds in which what must not come would come: messages take milliseconds."""
SYNCED = 60.0
"""Seconds until brokers have a change; it takes milliseconds, unless they are connecting to the store."""
WAITING = 100
"""Messages that wait for a cluster before it comes back."""
BACK = 300.0
"""Seconds for brokers to be there again, and replicators connected."""
AGAIN = 2.0
"""Seconds between two checks of a cluster whose brokers are kept down."""
LONGER = 15.0
"""Seconds for which a configuration store is unavailable beyond the end of its sessions."""


@check(
    "geo.replication",
    proves="A message published in one cluster of the namespace's replication set is received in every other, once "
    "and in order",
    concepts=("E.geo", "D.namespace.replication"),
    seconds=20,
)
def replication(ctx: Context) -> str:
    """Messages published in both clusters, all received in both; none of them comes back to where it was published."""
    names = both(ctx)
    topic = shared_topic(ctx, shared_namespace(ctx))
    clients = (ctx.client(), remote_client(ctx))
    consumers = [ctx.consumer(topic, client=client) for client in clients]
    texts = [[f"{letter}{number}" for number in range(COUNT)] for letter in "mr"]
    begin = time.monotonic()
    for client, some in zip(clients, texts, strict=True):
        ctx.send(ctx.producer(topic, client=client), some)
    for name, consumer in zip(names, consumers, strict=True):
        got = ctx.texts(ctx.receive(consumer, 2 * COUNT, within=CONNECTS))
        for source, some in zip(names, texts, strict=True):
            received = [text for text in got if text[0] == some[0][0]]
            ctx.expect(received == some, f"of {COUNT} messages of {source} {name} received {received}")
    seconds = time.monotonic() - begin
    for name, consumer in zip(names, consumers, strict=True):
        ctx.nothing(consumer, QUIET, f"{name} received all {2 * COUNT} messages once")
    here, there = names
    return f"{COUNT} messages of {here} and {COUNT} of {there} received in both within {seconds:.1f} s, in order, once"


@check(
    "geo.selective",
    proves="A message goes only to the clusters its producer names, and a namespace replicates only to its own",
    concepts=("E.geo", "D.namespace.replication"),
    seconds=25,
)
def selective(ctx: Context) -> str:
    """Messages for all clusters, for none, for the other and for this one alone; and a namespace of this one alone."""
    here, there = both(ctx)
    topic = shared_topic(ctx, shared_namespace(ctx))
    client = remote_client(ctx)
    local, far = ctx.consumer(topic), ctx.consumer(topic, client=client)
    producer = ctx.producer(topic)
    for text, options in (
        ("for all", {}),
        ("for none", {"disable_replication": True}),
        (f"for {there}", {"replication_clusters": [there]}),
        (f"for {here}", {"replication_clusters": [here]}),
        ("for all again", {}),
    ):
        ctx.send(producer, [text], **options)
    got = ctx.texts(ctx.drain(far, until=ctx.came("for all again"), quiet=QUIET, within=CONNECTS))
    ctx.expect(got == ["for all", f"for {there}", "for all again"], f"{there} received {got}")
    ctx.receive(local, 5)

    alone = ctx.topic(namespace=ctx.new_namespace(replication_clusters=[here]))
    ctx.send(ctx.producer(alone), ["stays"])
    impatient = remote_client(ctx, operation_timeout_seconds=5)
    refusal = ctx.refused(pulsar.PulsarException, lambda: ctx.consumer(alone, client=impatient))
    replicated = ctx.stats(alone)["replication"]
    ctx.expect(not replicated, f"a topic of {here} alone is replicated to {sorted(replicated)}")
    return (
        f"of 5 messages {there} received the 3 for it, {here} all; a topic of {here} alone is refused there ({refusal})"
    )


@check(
    "geo.replicated_subscription",
    proves="A replicated subscription continues in the other cluster at about the position that it had in the first",
    concepts="E.geo",
    seconds=30,
)
def replicated_subscription(ctx: Context) -> str:
    """Consumed here while messages keep coming, until the other cluster follows; then consumed there.

    Its position travels with snapshots, which are made about once a second while messages come
    (replicatedSubscriptionsSnapshotFrequencyMillis), and appears there at the first acknowledgement after one. So some
    messages come again, and none is lost.
    """
    there = remote(ctx).cluster
    name = "enableReplicatedSubscriptions"
    ctx.require(ctx.setting(name) != "false", f"brokers have {name}=false: set it to true in broker.conf")
    topic = shared_topic(ctx, shared_namespace(ctx))
    producer = ctx.producer(topic)
    consumer = ctx.consumer(topic, "moves", replicate_subscription_state_enabled=True)
    taken, places = list[str](), list[str]()

    def followed() -> bool:
        ctx.send(producer, [f"{len(taken)}"])
        taken.extend(ctx.texts(ctx.receive(consumer, 1)))
        found = _position(ctx, topic)
        if found and found not in places:
            places.append(found)
        return len(places) > 2

    ctx.eventually(followed, f"the position in {there} follows, it was at {places or 'none'}", within=CONNECTS)
    consumer.close()
    left = [f"left {number}" for number in range(COUNT)]
    ctx.send(producer, left)
    moved = ctx.consumer(topic, "moves", client=remote_client(ctx))
    got = ctx.texts(ctx.drain(moved, until=ctx.came(left[-1]), quiet=QUIET, within=CONNECTS))
    again = got.index(left[0]) if left[0] in got else 0
    ctx.expect(again < len(taken), f"all {len(taken)} acknowledged messages come again in {there}")
    expected = [*taken[len(taken) - again :], *left]
    ctx.expect(got == expected, f"{len(taken)} acknowledged, {COUNT} left: {there} continues with {got}")
    return (
        f"of {len(taken)} messages acknowledged {again} come again in {there}, then all {COUNT} that were left, in "
        "order and once"
    )


def _position(ctx: Context, topic: str) -> str:
    """Up to where the subscription is acknowledged in the other cluster; empty where it has none."""
    cursors = remote_admin(ctx).get(f"{ctx.path(topic)}/internalStats")["cursors"]
    return str(cursors.get("moves", {}).get("markDeletePosition", ""))


@check(
    "geo.shared_policies",
    proves="A tenant, a namespace and its policies made in one cluster are there in every cluster of the instance",
    concepts=("A.instance", "A.configstore"),
    seconds=3,
)
def shared_policies(ctx: Context) -> str:
    """Made here and read there, changed there and read here: a tenant, a policy, the number of a topic's partitions."""
    here, there = both(ctx)
    admin, far = ctx.admin, remote_admin(ctx)
    tenant = f"{ctx.instance.tenant}-{ctx.instance.run}-{secrets.token_hex(2)}"
    ctx.defer(lambda: admin.delete(f"tenants/{tenant}"))
    admin.put(f"tenants/{tenant}", {"adminRoles": ["nobody"], "allowedClusters": [here, there]})
    ctx.eventually(
        lambda: far.get(f"tenants/{tenant}")["adminRoles"] == ["nobody"], f"the tenant in {there}", within=SYNCED
    )
    namespace = shared_namespace(ctx, message_ttl_in_seconds=120)
    ttl = f"namespaces/{namespace}/messageTTL"
    ctx.eventually(lambda: far.get(ttl) == 120, f"the TTL in {there}", within=SYNCED)
    far.post(ttl, 60)
    ctx.eventually(lambda: admin.get(ttl) == 60, f"the TTL changed in {there}, in {here}", within=SYNCED)
    partitions = f"{ctx.path(ctx.topic(namespace=namespace, partitions=2))}/partitions"
    ctx.eventually(lambda: far.get(partitions)["partitions"] == 2, f"the partitions in {there}", within=SYNCED)
    far.post(partitions, 3)
    ctx.eventually(
        lambda: admin.get(partitions)["partitions"] == 3,
        f"the partition added in {there}, in {here}",
        within=SYNCED,
    )
    return f"a tenant, a TTL and 2 partitions of {here} seen in {there}; TTL and a partition more of {there} in {here}"


@check(
    "geo.remote_down",
    proves="While a remote cluster is down messages for it wait in the local one and are delivered once it is back",
    concepts="E.geo",
    seconds=150,
    alone=True,
)
def remote_down(ctx: Context) -> str:
    """All brokers of the other cluster are killed, and kept from coming back until enough waits for them.

    What was on its way when they were killed may be stored there twice, deduplication or not (seen on 4.0.8).
    """
    there = remote(ctx).cluster
    ctx.may_fault()
    topic = shared_topic(ctx, counted_both(ctx))
    with across(ctx, topic) as run:
        with run.operation(f"{there} has no brokers", settle_within=None):
            begin = time.monotonic()
            ctx.fault("kill", REMOTE_BROKERS)
            with standing_still(ctx, REMOTE_BROKERS):
                backlog = ctx.eventually(
                    lambda: _kept(ctx, topic), f"{WAITING} messages wait for {there}", within=CONNECTS, every=AGAIN
                )
                first = run.progress()
                ctx.eventually(
                    lambda: run.progress().confirmed >= first.sent + MORE, "messages are published here", within=30
                )
                last, outage = run.progress(), time.monotonic() - begin
            came = last.received - first.received
            ctx.expect(not came, f"{came} messages were received in {there} during the outage: it has brokers")
            begin = time.monotonic()
            goes_on(ctx, run, within=BACK)
            back = time.monotonic() - begin
        counts = accounts(ctx, run, topic, at=[quick(ctx), remote_admin(ctx)], once=False)
    return (
        f"{there} without brokers for {outage:.0f} s: more than {backlog} messages waited here, new ones were received "
        f"there {back:.0f} s after its brokers were resumed; {counts}"
    )


def _kept(ctx: Context, topic: str) -> int:
    """How much waits for the other cluster, once enough does and nothing is connected to it."""
    # Whoever supervises the brokers starts them again.
    ctx.fault("pause", REMOTE_BROKERS)
    connected, backlog = waiting(ctx, topic)
    if connected or backlog < WAITING:
        raise CheckFailed(f"{'' if connected else 'not '}connected, {backlog} wait")
    return backlog


@check(
    "geo.configstore_outage",
    proves="While the configuration store is down, clients of topics in use keep working, and their messages reach the "
    "other clusters",
    concepts=("A.configstore.outage", "E.geo"),
    seconds=90,
    alone=True,
)
def configstore_outage(ctx: Context) -> str:
    """Its servers are paused past their sessions; the check verifies that by a topic that cannot be created in either
    cluster. If it is a cluster's own metadata store, they are paused for half of a session, 15 s at most, since that
    cluster would not survive more. It is the last of its theme: brokers learn of no change in the store once their
    sessions ended (observed on 4.0.8).
    """
    here, there = both(ctx)
    ctx.may_fault()
    own, limit = store_of_its_own(ctx), session(ctx)
    seconds = ctx.within_limit(limit + LONGER, "an outage") if own else min(LONGER, limit / 2)
    namespace = counted_both(ctx)
    topics = [shared_topic(ctx, namespace, name) for name in ("there", "back")]
    path = ctx.path(f"persistent://{namespace}/meanwhile")
    with across(ctx, topics[0]) as run, across(ctx, topics[1], back=True) as other:
        runs = (run, other)
        with (
            run.operation("no configuration store", settle_within=None),
            other.operation("no configuration store", settle_within=None),
        ):
            with standing_still(ctx, STORE):
                begin, first = time.monotonic(), [one.progress() for one in runs]
                refused = none_made(ctx, path + "-{}/partitions", begin + seconds, 1)
                lasted, last = time.monotonic() - begin, [one.progress() for one in runs]
            received = [now.received - then.received for now, then in zip(last, first, strict=True)]
            least = RATE * lasted / 2
            ctx.expect(
                min(received) > least,
                f"of {here} {received[0]} and of {there} {received[1]} messages received in the other cluster in "
                f"{lasted:.0f} s, {least:.0f} expected",
            )
            made(ctx, f"{path}-after/partitions", 1, within=BACK)
            for one in runs:
                goes_on(ctx, one, within=CONNECTS)
        admins = [quick(ctx), remote_admin(ctx)]
        counts = [accounts(ctx, run, topics[0], at=admins), accounts(ctx, other, topics[1], at=admins[::-1])]
    kind = "a separate store" if own else "a cluster's metadata store"
    return (
        f"no configuration store ({kind}) for {lasted:.0f} s: {refused} attempt(s) to make a topic failed, "
        f"{received[0]} messages of {here} and {received[1]} of {there} received in the other; then a topic could be "
        f"made; {'; '.join(counts)}"
    )
